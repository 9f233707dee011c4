//! Limits and what lies between a client and a handler: connections, HTTP/2, CORS and compression.

use std::future::poll_fn;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use actix_cors::Cors;
use actix_web::web::{self, Data, ServiceConfig};
use ratelimit_actix::{HeaderStyle, RateLimitConfig, RateLimitMiddleware, rate_limit};
use tests::client;
use tests::service::Service;
use tests::store::fresh;

const PATIENCE: Duration = Duration::from_secs(20);

#[rate_limit(max = 5, key = "connections")]
async fn five() -> String {
    "five ".repeat(1000)
}

fn service() -> Service {
    let limiter = fresh();
    Service::start(move |app: &mut ServiceConfig| {
        let scope = web::scope("/scope")
            .wrap(RateLimitMiddleware::new(ratelimit_actix::Policy::new("one", 1, PATIENCE)));
        app.app_data(Data::new(limiter.clone()))
            .service(scope.route("", web::to(async || "one")))
            .route("/free", web::to(async || "free"))
            .route("/", web::to(five));
    })
}

/// One answer of a connection that stays open: its status, and whether it says that it closes.
fn answer(connection: &mut BufReader<TcpStream>) -> (u16, bool) {
    let (status, closes, length) = head(connection);
    std::io::copy(&mut connection.by_ref().take(length), &mut std::io::sink()).unwrap();
    (status, closes)
}

/// An answer without its body: the status, whether it says that it closes, and the body's length.
fn head(connection: &mut BufReader<TcpStream>) -> (u16, bool, u64) {
    let (mut status, mut closes, mut length, mut chunked) = (0, false, 0, false);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        let line = line.trim_end().to_lowercase();
        match line.split_once(": ") {
            None if line.is_empty() => break,
            None => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("transfer-encoding", "chunked")) => chunked = true,
            Some(("connection", "close")) => closes = true,
            Some(_) => {}
        }
    }
    assert!(!chunked);
    (status, closes, length)
}

/// Sends bytes as they stand.
fn write(connection: &mut BufReader<TcpStream>, text: &str) {
    connection.get_mut().write_all(text.as_bytes()).unwrap();
}

/// A connection on which this path, with at most five requests allowed, denies from now on.
fn exhausted(service: &Service, path: &str) -> BufReader<TcpStream> {
    let mut connection = connect(service.address);
    for _ in 0..5 {
        write(&mut connection, &format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        answer(&mut connection);
    }
    connection
}

/// Whether the server has closed the connection without another byte.
fn is_closed(mut connection: BufReader<TcpStream>) -> bool {
    let mut rest = Vec::new();
    // Closed with what the client sent still unread, it is reset.
    let ended = connection.read_to_end(&mut rest);
    rest.is_empty()
        && ended.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

fn connect(server: SocketAddr) -> BufReader<TcpStream> {
    let connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(connection)
}

#[test]
fn each_pipelined_request_counts_once() {
    let service = service();
    let mut connection = connect(service.address);
    let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(8);
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    let answers: Vec<_> = (0..8).map(|_| answer(&mut connection).0).collect();
    assert_eq!(answers, [200, 200, 200, 200, 200, 429, 429, 429]);
}

#[test]
fn a_denied_request_with_a_small_body_keeps_the_connection() {
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = exhausted(&service, path);
        for length in [1, 16 * 1024] {
            let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
            write(&mut connection, &(post + &"x".repeat(length)));
            assert_eq!(answer(&mut connection), (429, false), "{path}, {length}");
        }
        // One byte more, and it is closed without waiting for it.
        write(
            &mut connection,
            &format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 16385\r\n\r\n"),
        );
        assert_eq!(answer(&mut connection), (429, true), "{path}");
        assert!(is_closed(connection), "{path}");
    }
}

#[test]
fn a_chunked_body_is_drained_by_its_size() {
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = exhausted(&service, path);
        let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        // What is in it is no request, however much it looks like one.
        let smuggled = chunk("GET /free HTTP/1.1\r\nHost: test\r\n\r\n");
        for body in [String::new(), smuggled, chunk(&"x".repeat(8192)).repeat(2)] {
            write(&mut connection, &format!("{post}{body}0\r\n\r\n"));
            assert_eq!(answer(&mut connection), (429, false), "{path}, {body:.40}");
        }
        write(&mut connection, "GET /free HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(answer(&mut connection), (200, false), "{path}: the next answer is to the next request");

        // Too much of it, and no end in sight: answered, and closed.
        write(&mut connection, &format!("{post}{}", chunk(&"x".repeat(8193)).repeat(2)));
        assert_eq!(answer(&mut connection), (429, true), "{path}");
        assert!(is_closed(connection), "{path}");
    }
}

#[test]
fn a_request_with_expect_continue_is_denied_in_order() {
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = exhausted(&service, path);
        let post = |length| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
            )
        };
        write(&mut connection, &post(5));
        assert_eq!(head(&mut connection), (100, false, 0), "{path}");
        write(&mut connection, "hello");
        assert_eq!(answer(&mut connection), (429, false), "{path}");
        write(&mut connection, &post(1_000_000));
        assert_eq!(head(&mut connection), (100, false, 0), "{path}");
        assert_eq!(answer(&mut connection), (429, true), "{path}");
        assert!(is_closed(connection), "{path}");
    }
}

#[test]
fn a_denied_request_whose_body_does_not_come_is_answered() {
    let service = service();
    for path in ["/", "/scope"] {
        let mut connection = exhausted(&service, path);
        write(
            &mut connection,
            &format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhell"),
        );
        assert_eq!(answer(&mut connection), (429, true), "{path}");
    }
}

#[test]
fn a_denied_upload_gets_its_response_before_the_connection_closes() {
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = exhausted(&service, path);
        let length = 200_000;
        let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
        write(&mut connection, &(post + &"x".repeat(length)));
        assert_eq!(answer(&mut connection), (429, true), "{path}");
        assert!(is_closed(connection), "{path}");
    }
}

#[test]
fn pipelined_rejections_with_and_without_bodies_stay_in_order() {
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = exhausted(&service, path);
        let head_request = format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello");
        let brew = format!("BREW {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        let get = "GET /free HTTP/1.1\r\nHost: test\r\n\r\n";
        // By itself: Actix forgets, of several requests that are there at once, which one was HEAD.
        write(&mut connection, &head_request);
        // The answer has the length of the body, and not the body.
        let (status, closes, length) = head(&mut connection);
        assert!((status, closes) == (429, false) && length > 0, "{path}: {status}, {length}");
        write(&mut connection, &[&*post, &brew, &post, get].concat());
        for expected in [429, 429, 429, 200] {
            assert_eq!(answer(&mut connection), (expected, false), "{path}");
        }
    }
}

#[test]
fn a_folded_line_is_not_a_header() {
    let service = service();
    let mut connection = connect(service.address);
    let request = "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 203.0.113.9,\r\n 198.51.100.7\r\n\r\n";
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(answer(&mut connection).0, 400);
}

#[test]
fn each_of_a_hundred_http2_streams_counts_once() {
    let service = service();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let statuses = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(service.address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut client = client.ready().await.unwrap();
        let mut answers = Vec::new();
        for _ in 0..100 {
            client = client.ready().await.unwrap();
            let request = http::Request::get(format!("http://{}/", service.address)).body(()).unwrap();
            answers.push(client.send_request(request, true).unwrap().0);
        }
        let mut statuses = Vec::new();
        for answer in answers {
            let answer = answer.await.unwrap();
            assert!(answer.headers().contains_key("x-ratelimit-remaining"));
            assert_eq!(answer.headers().contains_key("retry-after"), answer.status() == 429);
            statuses.push(answer.status().as_u16());
        }
        statuses
    });
    let passed = statuses.iter().filter(|&&status| status == 200).count();
    assert_eq!((passed, statuses.len()), (5, 100));
}

#[test]
fn a_denied_stream_of_http2_ends_alone() {
    let service = service();
    drop(exhausted(&service, "/"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(service.address).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = |method, path| {
            let uri = format!("http://{}{path}", service.address);
            http::Request::builder().method(method).uri(uri).body(()).unwrap()
        };
        let mut client = client.ready().await.unwrap();
        // An upload that goes on and on, without a declared length.
        let (endless, mut body) = client.send_request(request("POST", "/"), false).unwrap();
        body.send_data(vec![0_u8; 20_000].into(), false).unwrap();
        assert_eq!(endless.await.unwrap().status(), 429);
        let mut client = client.ready().await.unwrap();
        let (free, _) = client.send_request(request("GET", "/free"), true).unwrap();
        assert_eq!(free.await.unwrap().status(), 200, "the connection is of use to the others");
    });
}

/// Sends a POST of `length` bytes over HTTP/2, its second half with a delay or once it is answered: status,
/// whether it was answered without that half, and whether the stream was reset.
async fn post_over_http2(
    address: SocketAddr,
    path: &str,
    length: usize,
    declared: bool,
) -> (u16, bool, bool) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut request = http::Request::post(format!("http://{address}{path}"));
    if declared {
        request = request.header("content-length", length);
    }
    let (mut response, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let (first, rest) = (vec![b'x'; length / 2], vec![b'x'; length.div_ceil(2)]);
    body.send_data(first.into(), false).unwrap();
    let delay = if length > 16 * 1024 { PATIENCE } else { Duration::from_millis(100) };
    if let Ok(early) = tokio::time::timeout(delay, &mut response).await {
        let ended = tokio::time::timeout(PATIENCE, poll_fn(|context| body.poll_reset(context))).await;
        return (early.unwrap().status().as_u16(), true, ended.is_ok());
    }
    let is_sent = body.send_data(rest.into(), true).is_ok();
    (response.await.unwrap().status().as_u16(), false, !is_sent)
}

#[test]
fn a_denied_stream_of_http2_with_a_small_body_is_answered_at_its_end_and_not_reset() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for path in ["/", "/scope"] {
        let service = service();
        drop(exhausted(&service, path));
        for (length, declared) in [(1000, true), (10_000, true), (16 * 1024, true), (1000, false)] {
            let seen = runtime.block_on(post_over_http2(service.address, path, length, declared));
            assert_eq!(seen, (429, false, false), "{path}, {length} bytes, declared: {declared}");
        }
        // One byte more is not awaited.
        let seen = runtime.block_on(post_over_http2(service.address, path, 16 * 1024 + 1, true));
        assert_eq!(seen, (429, true, true), "{path}");
    }
}

#[test]
fn cross_origin_browsers_can_read_a_rejection_and_preflights_are_not_counted() {
    let config =
        RateLimitConfig::builder().headers([HeaderStyle::LegacyUnix, HeaderStyle::Draft11]).build().unwrap();
    let limiter = fresh();
    let service = Service::start(move |app: &mut ServiceConfig| {
        let cors = Cors::default()
            .allowed_origin("https://example.org")
            .allowed_methods(["GET"])
            .expose_headers(config.exposed_headers());
        let scope = web::scope("")
            .wrap(RateLimitMiddleware::new(ratelimit_actix::Policy::new("cors", 2, PATIENCE)))
            .wrap(cors)
            .route("/", web::get().to(async || "ok"));
        app.app_data(config.clone()).app_data(Data::new(limiter.clone())).service(scope);
    });
    let origin = "Origin: https://example.org";
    for _ in 0..5 {
        let preflight =
            client::send(service.address, "OPTIONS", "/", &[origin, "Access-Control-Request-Method: GET"]);
        assert_eq!(preflight.status, 200);
    }
    for status in [200, 200, 429] {
        let reply = client::get(service.address, "/", &[origin]);
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://example.org"));
        let exposed = reply.header("access-control-expose-headers").unwrap().to_lowercase();
        for name in reply.headers.iter().map(|(name, _)| name).filter(|name| name.contains("rate")) {
            assert!(exposed.split(", ").any(|exposed| exposed == name), "{name} in {exposed}");
        }
        assert!(exposed.contains("retry-after"), "{exposed}");
    }
}

#[test]
fn compression_keeps_the_header_fields() {
    let service = service();
    let mut connection = connect(service.address);
    let request = "GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    for compressed in [true, true, true, true, true, false] {
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        let mut text = Vec::new();
        connection.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).to_lowercase();
        assert!(text.contains("x-ratelimit-remaining: "), "{text}");
        if compressed {
            assert!(text.contains("content-encoding: gzip"), "{text}");
        } else {
            assert!(text.starts_with("http/1.1 429") && text.contains("retry-after: "), "{text}");
        }
        connection = connect(service.address);
    }
}
