//! Messages of a WebSocket, each of which counts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Result, rt, web};
use futures_util::StreamExt;
use ratelimit_actix::{Caller, IntoCaller, Policy, RateLimiter, nearest_limiter};

static MESSAGES: Policy = Policy::new("messages", 4, Duration::from_secs(3600));

// recipe
use actix_ws::{CloseCode, Closed, Message, MessageStream, Session};

async fn chat(by: Caller, rate: RateLimiter, mut to: Session, mut from: MessageStream) -> Result<(), Closed> {
    while let Some(Ok(message)) = from.next().await {
        if !rate.check(&MESSAGES, &by).await.is_ok_and(|outcome| outcome.is_allowed()) {
            return to.close(Some(CloseCode::Policy.into())).await;
        }
        match message {
            Message::Text(text) => to.text(text).await?,
            Message::Ping(payload) => to.pong(&payload).await?,
            Message::Close(reason) => return to.close(reason).await,
            _ => {}
        }
    }
    to.close(None).await
}
// end

async fn handshake(req: HttpRequest, body: web::Payload, account: web::Path<u64>) -> Result<HttpResponse> {
    let (response, session, messages) = actix_ws::handle(&req, body)?;
    rt::spawn(chat(account.into_inner().into_caller(), nearest_limiter(&req).clone(), session, messages));
    Ok(response)
}

/// The kinds of frames, as the first byte of a frame that is the last of its message.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// A client of an account, connected.
fn connect(service: &tests::service::Service, account: u64) -> TcpStream {
    let mut client = TcpStream::connect(service.address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /chat/{account} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    client.write_all(head.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    client
}

/// Sends a frame, with a mask of zeros as clients need one.
fn send(client: &mut TcpStream, kind: u8, payload: &[u8]) {
    let mut frame = vec![kind, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0];
    frame.extend(payload);
    client.write_all(&frame).unwrap();
}

/// The next frame of the server: its kind and its payload.
fn receive(client: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    client.read_exact(&mut head).unwrap();
    let mut payload = vec![0; head[1].into()];
    client.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

fn start() -> tests::service::Service {
    let limiter = web::Data::new(tests::store::fresh());
    tests::service::Service::start(move |app| {
        app.app_data(limiter.clone()).route("/chat/{account}", web::get().to(handshake));
    })
}

#[test]
fn messages_of_every_kind_count_and_the_one_too_many_closes_the_connection() {
    let service = start();
    let mut client = connect(&service, 1);
    send(&mut client, PING, b"?");
    assert_eq!(receive(&mut client), (PONG, b"?".to_vec()));
    send(&mut client, BINARY, b"\x00\x01");
    send(&mut client, PONG, b"");
    send(&mut client, TEXT, b"hi");
    assert_eq!(receive(&mut client), (TEXT, b"hi".to_vec()), "neither a ping nor data ended it");
    send(&mut client, TEXT, b"hi");
    assert_eq!(receive(&mut client), (CLOSE, 1008_u16.to_be_bytes().to_vec()));

    let mut again = connect(&service, 1);
    send(&mut again, TEXT, b"hi");
    assert_eq!(receive(&mut again).0, CLOSE, "a new connection is no new quota");
    let mut other = connect(&service, 2);
    send(&mut other, TEXT, b"hi");
    assert_eq!(receive(&mut other), (TEXT, b"hi".to_vec()));
}

#[test]
fn a_close_is_answered() {
    let service = start();
    let mut client = connect(&service, 1);
    send(&mut client, CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(receive(&mut client), (CLOSE, 1000_u16.to_be_bytes().to_vec()));
}
