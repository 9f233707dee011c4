//! Limits and what lies between a client and a handler: connections, HTTP/2, CORS and compression.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use actix_cors::Cors;
use actix_web::web::{self, Data, ServiceConfig};
use ratelimit_actix::{HeaderStyle, RateLimit, RateLimitConfig, rate_limit};
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
        let scope =
            web::scope("/scope").wrap(RateLimit::new(ratelimit_actix::Policy::new("one", 1, PATIENCE)));
        app.app_data(Data::new(limiter.clone()))
            .service(scope.route("", web::to(async || "one")))
            .route("/", web::to(five));
    })
}

/// One answer of a connection that stays open: its status, and whether it says that it closes.
fn answer(connection: &mut BufReader<TcpStream>) -> (u16, bool) {
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
    std::io::copy(&mut connection.by_ref().take(length), &mut std::io::sink()).unwrap();
    (status, closes)
}

fn connect(server: SocketAddr) -> BufReader<TcpStream> {
    let connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(connection)
}

#[test]
fn pipelined_requests_count_once_each() {
    let service = service();
    let mut connection = connect(service.address);
    let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(8);
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    let answers: Vec<_> = (0..8).map(|_| answer(&mut connection).0).collect();
    assert_eq!(answers, [200, 200, 200, 200, 200, 429, 429, 429]);
}

#[test]
fn a_small_body_of_a_denied_request_does_not_cost_the_connection() {
    for path in ["/", "/scope"] {
        let service = service();
        let mut connection = connect(service.address);
        let get = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        for _ in 0..5 {
            connection.get_mut().write_all(get.as_bytes()).unwrap();
            answer(&mut connection);
        }
        for length in [1, 16 * 1024] {
            let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
            connection.get_mut().write_all(post.as_bytes()).unwrap();
            connection.get_mut().write_all(&vec![b'x'; length]).unwrap();
            assert_eq!(answer(&mut connection), (429, false), "{path}, {length}");
        }
        // One byte more, and it is closed without waiting for it.
        let post = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 16385\r\n\r\n");
        connection.get_mut().write_all(post.as_bytes()).unwrap();
        assert_eq!(answer(&mut connection), (429, true), "{path}");
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}

#[test]
fn a_folded_line_is_no_header() {
    let service = service();
    let mut connection = connect(service.address);
    let request = "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 203.0.113.9,\r\n 198.51.100.7\r\n\r\n";
    connection.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(answer(&mut connection).0, 400);
}

#[test]
fn a_hundred_streams_of_one_http2_connection_count_once_each() {
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
fn browsers_of_other_origins_can_read_a_refusal_and_preflights_cost_nothing() {
    let config =
        RateLimitConfig::builder().headers([HeaderStyle::LegacyUnix, HeaderStyle::Draft11]).build().unwrap();
    let limiter = fresh();
    let service = Service::start(move |app: &mut ServiceConfig| {
        let cors = Cors::default()
            .allowed_origin("https://example.org")
            .allowed_methods(["GET"])
            .expose_headers(config.exposed_headers());
        let scope = web::scope("")
            .wrap(RateLimit::new(ratelimit_actix::Policy::new("cors", 2, PATIENCE)))
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
fn compression_leaves_the_fields_alone() {
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
