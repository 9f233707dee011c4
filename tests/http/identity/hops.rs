//! The demo behind two real hops, with a client that spoofs headers to get another request.
//!
//! Each hop is a reverse proxy with sockets and an address of its own, so that the service sees its address
//! as the peer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tests::demo::{Demo, within_one_minute};

const BEHIND_PROXY: &str = env!("CARGO_BIN_EXE_demo-behind-proxy");

/// The two hops, as trusted proxies of the service.
const TRUSTED: (&str, &str) = ("TRUSTED_PROXIES", "127.0.0.2/32, 127.0.0.3");

/// Longest wait for an answer: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a proxy forwards the address of its peer.
#[derive(Clone, Copy, Debug)]
enum Appends {
    /// In a line of its own, after those that are there.
    Line,
    /// At the end of the last line that is there.
    ToLine,
}

/// A reverse proxy for one request per connection. It listens on an address of its own in 127.0.0.0/8.
fn proxy(own: &str, appends: Appends, next: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((own, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let own: IpAddr = own.parse().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client or a service that went away is not the proxy's business.
            let _ = forward(&client.unwrap(), own, appends, next);
        }
    });
    address
}

fn forward(client: &TcpStream, own: IpAddr, appends: Appends, next: SocketAddr) -> std::io::Result<()> {
    let mut lines = Vec::new();
    let mut reader = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        reader.read_until(b'\n', &mut line)?;
        // A proxy that reads a bare line feed in another way than the next hop lets requests be smuggled past
        // it; real proxies do not pass it on either.
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return (&*client).write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        };
        if line.is_empty() {
            break;
        }
        lines.push(line.to_vec());
    }
    let caller = client.peer_addr()?.ip().to_string();
    let is_chain =
        |line: &Vec<u8>| line.get(..16).is_some_and(|name| name.eq_ignore_ascii_case(b"x-forwarded-for:"));
    match lines.iter_mut().rfind(|line| is_chain(line)) {
        Some(line) if matches!(appends, Appends::ToLine) => {
            line.extend_from_slice(format!(", {caller}").as_bytes());
        }
        _ => lines.push(format!("X-Forwarded-For: {caller}").into_bytes()),
    }
    let mut head = lines.join(&b"\r\n"[..]);
    head.extend_from_slice(b"\r\n\r\n");
    let mut server = connect_from(own, next)?;
    server.write_all(&head)?;
    std::io::copy(&mut server, &mut &*client)?;
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

/// The status of a request with these further header lines from the client 127.0.0.1, sent as bytes; of
/// several answers the one that passed, if one did, and 0 when the connection is closed without any.
fn status(server: SocketAddr, lines: &[u8]) -> u16 {
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = [b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n", lines, b"\r\n"].concat();
    // A service may answer, and close, before it has read all.
    let _ = connection.write_all(&request);
    let mut answer = Vec::new();
    if let Err(error) = connection.read_to_end(&mut answer) {
        // A connection with what the client sent still unread in it is reset.
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer: {lines:.80?}");
    }
    let answer = String::from_utf8_lossy(&answer);
    if answer.contains("HTTP/1.1 200") {
        return 200;
    }
    answer.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

/// Headers by which a client may pretend to have another address.
fn spoofs() -> Vec<Vec<u8>> {
    let values: [&[u8]; 44] = [
        b"203.0.113.1",
        b"203.0.113.4, 127.0.0.2",
        b"127.0.0.2, 127.0.0.3",
        b"127.0.0.3, 203.0.113.4, 127.0.0.3, 127.0.0.2",
        b"",
        b" ",
        b",",
        b",,,",
        b" , \t ,",
        b"203.0.113.5,",
        b",203.0.113.5",
        b"unknown",
        b"_hidden",
        b"_",
        b"\"[2001:db8::1]:443\"",
        b"[2001:db8::2]",
        b"[2001:db8::2",
        b"\"203.0.113.5",
        b"203.0.113.5\"",
        b"\\\"203.0.113.5\\",
        b"for=203.0.113.5",
        b"for=\"203.0.113.5",
        b"1.2.3.4:80",
        b"1.2.3.4:",
        b"01.2.3.4",
        b"1.2.3",
        b"0x7f.1",
        b"2130706433",
        b"::ffff:1.2.3.4",
        b"::ffff:102:304",
        b"::FFFF:102:304",
        b"2001:db8::1.2.3.4",
        b"2001:DB8::1",
        b"fe80::1%eth0",
        b"fe80::1%25eth0",
        b"64:ff9b::1.2.3.4",
        b"64:ff9b::127.0.0.2",
        b"2002:102:304::1",
        b"::1",
        b"127.0.0.1",
        b"localhost",
        b"\xff\xfe",
        b"203.0.113.5\x00",
        b"203.0.113.5;203.0.113.6",
    ];
    let mut spoofs: Vec<Vec<u8>> =
        values.iter().map(|value| [b"X-Forwarded-For: ", *value, b"\r\n"].concat()).collect();
    let lines: [&[u8]; 16] = [
        b"",
        b"X-Forwarded-For: 203.0.113.2\r\nX-Forwarded-For: 203.0.113.3\r\n",
        b"X-Forwarded-For: 203.0.113.2, 127.0.0.2\r\nx-forwarded-for: 127.0.0.3\r\n",
        b"x-FORWARDED-for: 203.0.113.7\r\n",
        b"X-Forwarded-For:203.0.113.7\r\n",
        // Not headers at all, or no longer one after a hop.
        b"X-Forwarded-For : 203.0.113.7\r\n",
        b"X-Forwarded-For\t: 203.0.113.7\r\n",
        b"X_Forwarded_For: 203.0.113.7\r\n",
        b"X-Forwarded-For: 203.0.113.7,\r\n 198.51.100.7\r\n",
        b"X-Forwarded-For: 203.0.113.7\rX-Forwarded-For: 203.0.113.8\r\n",
        b"X-Forwarded-For: 203.0.113.7\n\nGET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Forwarded-For: 203.0.113.8\r\n",
        b"Connection: X-Forwarded-For\r\nX-Forwarded-For: 203.0.113.7\r\n",
        b"Forwarded: for=203.0.113.6\r\n",
        b"X-Real-IP: 203.0.113.7\r\n",
        b"X-Client-IP: 203.0.113.7\r\nTrue-Client-IP: 203.0.113.7\r\nCF-Connecting-IP: 203.0.113.7\r\n",
        b"Via: 1.1 203.0.113.7\r\nX-Forwarded-Host: 203.0.113.7\r\nX-Original-Forwarded-For: 203.0.113.7\r\n",
    ];
    spoofs.extend(lines.map(<[u8]>::to_vec));
    // Ten thousand hops, in one line and in as many lines as are let through, and a mebibyte.
    spoofs.push(format!("X-Forwarded-For: {}1.2.3.4\r\n", "127.0.0.2, ".repeat(10_000)).into_bytes());
    spoofs.push(b"X-Forwarded-For: 127.0.0.2\r\n".repeat(80));
    spoofs.push(format!("X-Forwarded-For: 1.2.3.4, {}\r\n", "x".repeat(2000)).into_bytes());
    spoofs.push(format!("X-Forwarded-For: 1.2.3.4,{}\r\n", "x".repeat(1 << 20)).into_bytes());
    spoofs
}

#[test]
fn spoofed_headers_gain_no_request_behind_two_proxies() {
    for appends in [Appends::Line, Appends::ToLine] {
        let (statuses, nearer, directly) = within_one_minute(|| {
            let demo = Demo::start(BEHIND_PROXY, &[TRUSTED]);
            let inner = proxy("127.0.0.3", appends, demo.address);
            let outer = proxy("127.0.0.2", appends, inner);
            let statuses: Vec<u16> = spoofs().iter().map(|lines| status(outer, lines)).collect();
            let directly = spoofs().iter().map(|lines| status(demo.address, lines)).collect::<Vec<_>>();
            (statuses, status(inner, b""), directly)
        });
        let passed = statuses.iter().filter(|&&status| status == 200).count();
        assert_eq!(passed, 3, "{appends:?}: {statuses:?}");
        // All of them were requests, but for those that are no HTTP.
        let denied = statuses.iter().filter(|&&status| status == 429).count();
        assert!(denied > 50, "{appends:?}: {statuses:?}");
        assert_eq!(nearer, 429, "the same client, one hop nearer");
        assert!(!directly.contains(&200), "without a proxy: {directly:?}");
    }
}

/// The control of the test above: its proxies hand on what the client says, and a service that believes too
/// much lets every new address pass.
#[test]
fn a_trusted_peer_can_name_any_client() {
    for appends in [Appends::Line, Appends::ToLine] {
        let statuses = within_one_minute(|| {
            // The client's own address is among the trusted ones.
            let demo = Demo::start(BEHIND_PROXY, &[("TRUSTED_PROXIES", "127.0.0.0/8")]);
            let inner = proxy("127.0.0.3", appends, demo.address);
            let outer = proxy("127.0.0.2", appends, inner);
            [1, 2, 3, 4, 5].map(|i| status(outer, format!("X-Forwarded-For: 203.0.113.{i}\r\n").as_bytes()))
        });
        assert_eq!(statuses, [200; 5], "{appends:?}");
    }
}

#[test]
fn an_invalid_trust_setting_gives_a_clear_error() {
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
