//! Who a request is counted for, whatever it says about itself.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{Method, Uri};
use actix_web::test::{TestRequest, init_service};
use actix_web::web::{self, Data};
use actix_web::{App, HttpRequest};
use proptest::prelude::*;
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, client_ip, client_key, rate_limit};
use tests::answer::{by, get, request};
use tests::demo::{Demo, within_one_minute};
use tests::log::Log;
use tests::own_process::in_own_process;
use tests::send;
use tests::store::{fresh, watched};
use tracing::Level;

const BEHIND_PROXY: &str = env!("CARGO_BIN_EXE_demo-behind-proxy");

fn behind(networks: &[&str], header: ForwardedHeader) -> RateLimitConfig {
    RateLimitConfig::builder().trusted_proxies(networks.iter().copied(), header).build().unwrap()
}

/// The address that counts for a request from `peer` with this line, as text; or nobody.
fn client(config: &RateLimitConfig, peer: &str, name: &str, line: &[u8]) -> Option<String> {
    let mut request = TestRequest::default().app_data(config.clone()).peer_addr(peer.parse().unwrap());
    if let Ok(value) = HeaderValue::from_bytes(line) {
        request = request.insert_header((HeaderName::try_from(name).unwrap(), value));
    }
    client_ip(&request.to_http_request()).map(|address| address.to_string())
}

// ---- Proxies ----------------------------------------------------------------------------------------------------

#[test]
fn a_trusted_proxy_is_believed_about_whom_it_was_called_by() {
    let config = behind(&["10.0.0.0/8", "2001:db8:a::/48"], ForwardedHeader::XForwardedFor);
    let ten_thousand = format!("{}203.0.113.9", "1.2.3.4, ".repeat(10_000));
    let mebibyte = format!("{}, 203.0.113.9", "x".repeat(1 << 20));
    let cases = [
        ("10.0.0.1:1", "203.0.113.9", "203.0.113.9"),
        ("[::ffff:10.0.0.1]:1", "203.0.113.9", "203.0.113.9"),
        ("[2001:db8:a::1]:1", "203.0.113.9", "203.0.113.9"),
        ("11.0.0.1:1", "203.0.113.9", "11.0.0.1"),
        ("10.0.0.1:1", "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("10.0.0.1:1", "1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1:1", "\"[2001:db8::1]:443\"", "2001:db8::1"),
        ("10.0.0.1:1", "::ffff:10.0.0.3", "10.0.0.3"),
        ("10.0.0.1:1", "::ffff:cb00:7109", "203.0.113.9"),
        ("10.0.0.1:1", "\u{a0}", "10.0.0.1"),
        ("10.0.0.1:1", &ten_thousand, "203.0.113.9"),
        ("10.0.0.1:1", &mebibyte, "203.0.113.9"),
    ];
    for (peer, line, expected) in cases {
        let found = client(&config, peer, "x-forwarded-for", line.as_bytes());
        assert_eq!(found.as_deref(), Some(expected), "{peer}: {line:.60}");
    }
    let found = client(&config, "10.0.0.1:1", "x-forwarded-for", b"203.0.113.9, \xff\xfe");
    assert_eq!(found.as_deref(), Some("10.0.0.1"));
}

#[test]
fn only_the_chosen_header_is_believed() {
    let real_ip = ForwardedHeader::Single(HeaderName::from_static("x-real-ip"));
    let headers = [
        (ForwardedHeader::XForwardedFor, "x-forwarded-for", "203.0.113.9"),
        (ForwardedHeader::Forwarded, "forwarded", "for=203.0.113.9"),
        (real_ip, "x-real-ip", "203.0.113.9"),
    ];
    for (chosen, own_name, _) in &headers {
        let config = behind(&["10.0.0.0/8"], chosen.clone());
        for (_, name, line) in &headers {
            let expected = if name == own_name { "203.0.113.9" } else { "10.0.0.1" };
            let found = client(&config, "10.0.0.1:1", name, line.as_bytes());
            assert_eq!(found.as_deref(), Some(expected), "{own_name} was chosen, {name} sent");
        }
    }
}

#[test]
fn without_a_peer_no_header_helps() {
    let config = behind(&["10.0.0.0/8"], ForwardedHeader::XForwardedFor);
    let request = TestRequest::default().app_data(config).insert_header(("x-forwarded-for", "203.0.113.9"));
    assert_eq!(client_ip(&request.to_http_request()), None);
}

proptest! {
    #[test]
    fn no_header_from_an_untrusted_peer_changes_the_caller(
        lines in proptest::collection::vec(("[ -~]{0,60}", 0_usize..4), 0..6),
        host in any::<u32>(),
        trusts in any::<bool>(),
    ) {
        let peer = IpAddr::V4((host | 0x8000_0000).into());
        let networks: &[&str] = if trusts { &["10.0.0.0/8"] } else { &[] };
        let mut request = TestRequest::default()
            .app_data(behind(networks, ForwardedHeader::XForwardedFor))
            .peer_addr(SocketAddr::new(peer, 1));
        let bare = request.to_http_request();
        request = TestRequest::default()
            .app_data(behind(networks, ForwardedHeader::XForwardedFor))
            .peer_addr(SocketAddr::new(peer, 1));
        for (line, name) in lines {
            let name = ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"][name];
            request = request.append_header((name, line));
        }
        let request = request.to_http_request();
        prop_assert_eq!(client_ip(&request), Some(peer));
        prop_assert_eq!(client_key(&request), client_key(&bare));
    }

    #[test]
    fn random_bytes_from_a_trusted_peer_are_an_address_or_nothing(
        line in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
            let name = if header == ForwardedHeader::Forwarded { "forwarded" } else { "x-forwarded-for" };
            prop_assert!(client(&behind(&["10.0.0.0/8"], header), "10.0.0.1:1", name, &line).is_some());
        }
    }
}

#[test]
fn a_header_that_is_not_believed_is_reported_once() {
    in_own_process("a_header_that_is_not_believed_is_reported_once", || {
        let log = Log::of_process();
        let config = behind(&["10.0.0.0/8"], ForwardedHeader::XForwardedFor);
        client(&config, "10.0.0.1:1", "x-forwarded-for", b"203.0.113.9");
        client(&config, "11.0.0.1:1", "x-real-ip", b"203.0.113.9");
        assert!(log.at(Level::WARN).is_empty());
        for _ in 0..3 {
            client(&config, "11.0.0.1:1", "x-forwarded-for", b"203.0.113.9");
            client(&RateLimitConfig::default(), "11.0.0.1:1", "forwarded", b"for=203.0.113.9");
        }
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("trusted_proxies"), "{warnings:?}");
        assert!(!warnings[0].contains("203.0.113.9") && !warnings[0].contains("11.0.0.1"), "{warnings:?}");
    });
}

// ---- Counting ---------------------------------------------------------------------------------------------------

#[rate_limit(max = 1)]
async fn index() -> &'static str {
    ""
}

#[actix_web::test]
async fn the_ipv6_prefix_says_how_many_addresses_are_one_caller() {
    let cases = [
        (48, "[2001:db8:1:ffff::1]:1", 429),
        (48, "[2001:db8:2::1]:1", 200),
        (64, "[2001:db8:1:1::1]:1", 200),
        (64, "[2001:db8:1::ffff]:1", 429),
        (128, "[2001:db8:1::2]:1", 200),
        (128, "[2001:db8:1::1]:2", 429),
    ];
    for (bits, second, expected) in cases {
        let config = RateLimitConfig::builder().ipv6_prefix(bits).build().unwrap();
        let app = App::new().app_data(config).app_data(Data::new(fresh())).route("/", web::get().to(index));
        let app = init_service(app).await;
        assert_eq!(send(&app, by("[2001:db8:1::1]:1", "/")).await.status, 200);
        assert_eq!(send(&app, by(second, "/")).await.status, expected, "/{bits}: {second}");
    }
}

#[actix_web::test]
async fn the_nearest_settings_count() {
    let proxy = behind(&["192.0.2.0/24"], ForwardedHeader::XForwardedFor);
    let shared = Data::new(behind(&["192.0.2.0/24"], ForwardedHeader::Forwarded));
    let app = App::new()
        .app_data(Data::new(fresh()))
        .app_data(proxy)
        .service(web::scope("/shared").app_data(shared).route("", web::get().to(who)))
        .service(web::scope("/none").app_data(RateLimitConfig::default()).route("", web::get().to(who)))
        .route("/", web::get().to(who));
    let app = init_service(app).await;
    let ask = |path: &str| {
        get(path)
            .insert_header(("x-forwarded-for", "203.0.113.9"))
            .insert_header(("forwarded", "for=198.51.100.7"))
    };
    assert_eq!(send(&app, ask("/")).await.body, "203.0.113.9");
    assert_eq!(send(&app, ask("/none")).await.body, "192.0.2.1");
    // An instance as it stands is found before one in `Data`, like Actix's own settings.
    assert_eq!(send(&app, ask("/shared")).await.body, "203.0.113.9");
}

async fn who(req: HttpRequest) -> String {
    client_ip(&req).unwrap().to_string()
}

fn sent(req: &HttpRequest) -> Option<Vec<u8>> {
    Some(req.headers().get("x-key")?.as_bytes().to_vec())
}

fn key(req: &HttpRequest) -> Option<String> {
    String::from_utf8(sent(req)?).ok()
}

#[rate_limit(max = 1, by = key)]
async fn by_key() -> &'static str {
    ""
}

#[actix_web::test]
async fn every_hostile_key_is_a_caller_of_its_own() {
    let long = "k".repeat(1 << 16);
    let keys = [
        "{}",
        "}{",
        "{a}",
        ":",
        "_",
        "|",
        "a:b",
        "a",
        "b",
        "A",
        "*",
        "?",
        "[a]",
        "\\",
        "redis.call('FLUSHALL')",
        "*1$8 FLUSHALL",
        "$-1",
        "\u{1f980}",
        "\u{e9}",
        "e\u{301}",
        "a\tb",
        "a%00b",
        "a%0d%0ab",
        &long,
    ];
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    let (limiter, watch) = watched();
    let app = App::new().app_data(Data::new(limiter)).route("/", web::get().to(by_key));
    let app = init_service(app).await;
    let ask = |key: &str| get("/").insert_header(("x-key", HeaderValue::from_bytes(key.as_bytes()).unwrap()));
    for expected in [200, 429] {
        for key in keys {
            assert_eq!(send(&app, ask(key)).await.status, expected, "{key:.40}");
        }
    }
    assert_eq!(watch.calls(), 2 * keys.len());
}

#[actix_web::test]
async fn no_spelling_of_a_path_and_no_method_is_a_way_around() {
    let (limiter, watch) = watched();
    let app = App::new()
        .app_data(Data::new(limiter))
        .service(web::resource(["/x", "/x/", "/X", "//x", "/./x", "/{tail}"]).to(index));
    let app = init_service(app).await;
    assert_eq!(send(&app, get("/x")).await.status, 200);
    for path in ["/x", "/x/", "//x", "/%78", "/X", "/./x", "/x;a=b", "/%2578", "/x?y", "/x%00"] {
        let uri: Uri = path.parse().unwrap();
        assert_eq!(send(&app, get("/x").uri(&uri.to_string())).await.status, 429, "{path}");
    }
    let custom = Method::from_bytes(b"BREW").unwrap();
    for method in [Method::HEAD, Method::POST, Method::TRACE, Method::PATCH, Method::CONNECT, custom] {
        assert_eq!(send(&app, request(method.clone(), "/x")).await.status, 429, "{method}");
    }
    let calls = watch.calls();
    assert_eq!(send(&app, request(Method::OPTIONS, "/x")).await.status, 200);
    assert_eq!(watch.calls(), calls);
}

#[actix_web::test]
async fn options_is_counted_where_it_is_asked_for() {
    let config = RateLimitConfig::builder().count_options().build().unwrap();
    let app = App::new().app_data(config).app_data(Data::new(fresh())).service(web::resource("/").to(index));
    let app = init_service(app).await;
    for status in [200, 429] {
        assert_eq!(send(&app, request(Method::OPTIONS, "/")).await.status, status);
    }
}

// ---- Behind two real hops ---------------------------------------------------------------------------------------

/// A reverse proxy for one request per connection, which appends its client to `X-Forwarded-For` as a line of its own
/// or, with `joins`, to the line that is there. It listens on an address of its own in 127.0.0.0/8.
fn proxy(own: &str, joins: bool, next: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((own, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let own: IpAddr = own.parse().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let _ = forward(client.unwrap(), own, joins, next);
        }
    });
    address
}

fn forward(mut client: TcpStream, own: IpAddr, joins: bool, next: SocketAddr) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    head.truncate(head.len() - 2);
    let peer = client.peer_addr()?.ip().to_string();
    let last = head
        .windows(18)
        .rposition(|window| window.eq_ignore_ascii_case(b"\r\nx-forwarded-for:"))
        .filter(|_| joins);
    match last {
        Some(start) => {
            let end = head[start + 2..].windows(2).position(|window| window == b"\r\n").unwrap() + start + 2;
            head.splice(end..end, format!(", {peer}").into_bytes());
        }
        None => head.extend_from_slice(format!("X-Forwarded-For: {peer}\r\n").as_bytes()),
    }
    head.extend_from_slice(b"\r\n");
    let mut server = connect_from(own, next)?;
    server.write_all(&head)?;
    std::io::copy(&mut server, &mut client)?;
    Ok(())
}

/// A connection that comes from the proxy's own address.
fn connect_from(own: IpAddr, next: SocketAddr) -> std::io::Result<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(own, 0))?;
        socket.connect(next).await
    })?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The status of a request with these further header lines from the client 127.0.0.1, sent as bytes.
fn status(server: SocketAddr, lines: &[u8]) -> u16 {
    let mut connection = TcpStream::connect(server).unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n").unwrap();
    connection.write_all(lines).unwrap();
    connection.write_all(b"\r\n").unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn behind_two_proxies_no_spoofed_header_gains_a_request() {
    for joins in [false, true] {
        let many = ["X-Forwarded-For: ", &"127.0.0.2, ".repeat(1000), "1.2.3.4\r\n"].concat();
        let spoofs: [&[u8]; 22] = [
            b"",
            b"X-Forwarded-For: 203.0.113.1\r\n",
            b"X-Forwarded-For: 203.0.113.2\r\nX-Forwarded-For: 203.0.113.3\r\n",
            b"X-Forwarded-For: 203.0.113.4, 127.0.0.2\r\n",
            b"X-Forwarded-For: 127.0.0.2, 127.0.0.3\r\n",
            b"X-Forwarded-For:\r\n",
            b"X-Forwarded-For: ,\r\n",
            b"X-Forwarded-For: unknown\r\n",
            b"X-Forwarded-For: _hidden\r\n",
            b"X-Forwarded-For: \"[2001:db8::1]:443\"\r\n",
            b"X-Forwarded-For: \"203.0.113.5\r\n",
            b"X-Forwarded-For: 1.2.3.4:80\r\n",
            b"X-Forwarded-For: 01.2.3.4\r\n",
            b"X-Forwarded-For: 0x7f.1\r\n",
            b"X-Forwarded-For: ::ffff:1.2.3.4\r\n",
            b"X-Forwarded-For: 2001:db8::1.2.3.4\r\n",
            b"X-Forwarded-For: fe80::1%eth0\r\n",
            b"x-FORWARDED-for: 64:ff9b::1.2.3.4\r\n",
            b"X-Forwarded-For: \xff\xfe\r\n",
            b"Forwarded: for=203.0.113.6\r\n",
            b"X-Real-IP: 203.0.113.7\r\n",
            many.as_bytes(),
        ];
        let (passed, nearer, directly) = within_one_minute(|| {
            let demo = Demo::start(BEHIND_PROXY, &[("TRUSTED_PROXIES", "127.0.0.2/32, 127.0.0.3")]);
            let inner = proxy("127.0.0.3", joins, demo.address);
            let outer = proxy("127.0.0.2", joins, inner);
            let passed = spoofs.iter().filter(|lines| status(outer, lines) == 200).count();
            (passed, status(inner, b""), status(demo.address, b"X-Forwarded-For: 203.0.113.8\r\n"))
        });
        assert_eq!(passed, 3, "joins: {joins}");
        assert_eq!((nearer, directly), (429, 429), "the same client, one hop nearer and without a proxy");
    }
}

#[test]
fn clients_behind_a_proxy_count_apart() {
    let statuses = within_one_minute(|| {
        let demo = Demo::start(BEHIND_PROXY, &[("TRUSTED_PROXIES", "127.0.0.0/8")]);
        ["X-Forwarded-For: 203.0.113.1\r\n", "X-Forwarded-For: 203.0.113.2\r\n"]
            .map(|line| [(); 4].map(|()| status(demo.address, line.as_bytes())))
    });
    assert_eq!(statuses, [[200, 200, 200, 429]; 2]);
}

#[test]
fn without_proxies_everybody_is_the_peer() {
    for variables in [&[][..], &[("TRUSTED_PROXIES", "")]] {
        let statuses = within_one_minute(|| {
            let demo = Demo::start(BEHIND_PROXY, variables);
            let line = |i| format!("X-Forwarded-For: 203.0.113.{i}\r\n");
            [1, 2, 3, 4].map(|i| status(demo.address, line(i).as_bytes()))
        });
        assert_eq!(statuses, [200, 200, 200, 429]);
    }
}

#[test]
fn trust_that_cannot_be_meant_is_a_clear_error() {
    let cases = [
        ("0.0.0.0/0", "must not cover every address"),
        ("10.0.0.0/8,::/0", "must not cover every address"),
        ("0.0.0.0/1,128.0.0.0/1", "must not cover every address"),
        ("*", "`*` is not a network"),
        ("10.0.0.0/8,,", "`` is not a network"),
        ("10.0.0.0/40", "`10.0.0.0/40` is not a network"),
    ];
    for (value, expected) in cases {
        let said = Demo::refusal(BEHIND_PROXY, &[("TRUSTED_PROXIES", value)]);
        assert!(
            said.starts_with("error: TRUSTED_PROXIES cannot be used: ") && said.contains(expected),
            "{said}"
        );
    }
}
