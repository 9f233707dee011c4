//! Messages of a WebSocket, each of which counts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use futures_util::StreamExt;
use ratelimit_actix::{Policy, RateLimiter};

static MESSAGES: Policy = Policy::new("messages", 3, Duration::from_secs(3600));

// recipe
use actix_web::{HttpRequest, HttpResponse, Result, rt, web};
use actix_ws::{CloseCode, Message};

async fn chat(req: HttpRequest, body: web::Payload, limiter: web::Data<RateLimiter>) -> Result<HttpResponse> {
    let (response, mut session, mut messages) = actix_ws::handle(&req, body)?;
    let caller = ratelimit_actix::client_ip(&req).map(|ip| ip.to_string()).unwrap_or_default();
    rt::spawn(async move {
        while let Some(Ok(Message::Text(text))) = messages.next().await {
            match limiter.check(&MESSAGES, &caller).await {
                Ok(outcome) if outcome.is_allowed() => session.text(text).await.unwrap_or_default(),
                _ => return session.close(Some(CloseCode::Policy.into())).await.unwrap_or_default(),
            }
        }
    });
    Ok(response)
}
// end

/// A text frame of a client, with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
    frame.extend(text.as_bytes());
    frame
}

#[test]
fn the_fourth_message_closes_the_connection() {
    let limiter = web::Data::new(tests::store::fresh());
    let service = tests::service::Service::start(move |app| {
        app.app_data(limiter.clone()).route("/chat", web::get().to(chat));
    });
    let mut client = TcpStream::connect(service.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let handshake = "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(handshake.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    for _ in 0..4 {
        client.write_all(&frame("hi")).unwrap();
    }
    // Three echoes, and a close frame with the code 1008.
    let mut answer = [0; 3 * 4 + 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..12], b"\x81\x02hi".repeat(3));
    assert_eq!(answer[12..], [0x88, 0x02, 0x03, 0xf0]);
}
