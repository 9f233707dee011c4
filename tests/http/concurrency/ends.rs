//! Every end of a request frees its slot, in memory and in Redis.

use std::io::{Read, Write};
use std::net::TcpStream;

use ratelimit_actix::RateLimiter;
use tests::store::fresh;
use tests::{client, redis, within};

use super::service::{Lead, PATIENCE, Stage, Step};

/// A request that has been sent.
pub(super) fn request(stage: &Stage, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(stage.service.address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    connection
}

/// Reads until the answer ends with this text.
pub(super) fn read_to(connection: &mut TcpStream, end: &str) {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
}

/// A request that runs: it holds the slot.
pub(super) fn running(stage: &Stage, path: &str) -> (Lead, TcpStream) {
    let lead = stage.led.next();
    let connection = request(stage, path);
    assert!(within(PATIENCE, || !stage.is_free()), "{path} holds no slot");
    (lead, connection)
}

fn frees(limiter: &RateLimiter) {
    let stage = Stage::start(limiter);
    assert!(stage.is_free());
    let (lead, mut client) = running(&stage, "/stream");
    for _ in 0..3 {
        lead.go(Step::Text);
        read_to(&mut client, "text\n\r\n");
        assert!(!stage.is_free(), "held while the body is sent");
    }
    drop(lead);
    read_to(&mut client, "0\r\n\r\n");
    assert!(stage.becomes_free(), "the end of a stream");

    let (lead, mut client) = running(&stage, "/wait");
    lead.go(Step::Text);
    read_to(&mut client, "waited");
    assert!(stage.becomes_free(), "the end of a body of known length");

    let (lead, mut client) = running(&stage, "/wait");
    lead.go(Step::Fail);
    read_to(&mut client, "no answer");
    assert!(stage.becomes_free(), "an error as the response");

    for (path, step, what) in [
        ("/wait", Step::Panic, "a handler that panics"),
        ("/stream", Step::Panic, "a body that panics"),
        ("/stream", Step::Fail, "a body that fails"),
    ] {
        let (lead, _client) = running(&stage, path);
        lead.go(step);
        assert!(stage.becomes_free(), "{what}");
        assert!(lead.is_dropped());
    }
    assert_eq!(stage.get("/item/seven").status, 404);
    assert!(stage.becomes_free(), "an extractor that fails");
    // Nothing was freed twice.
    let (_lead, _client) = running(&stage, "/stream");
    assert!(!stage.is_free());
}

#[test]
fn every_end_of_a_request_frees_its_slot_in_memory() {
    frees(&fresh());
}

#[test]
fn every_end_of_a_request_frees_its_slot_in_redis() {
    let Some(server) = redis::server() else { return };
    frees(&server.limiter());
}

#[test]
fn the_response_of_an_extractor_that_fails_holds_the_slot_until_it_has_been_sent() {
    let stage = Stage::start(&fresh());
    let (lead, mut client) = running(&stage, "/refused");
    lead.go(Step::Text);
    read_to(&mut client, "text\n\r\n");
    assert!(!stage.is_free(), "held while the body is sent");
    drop(lead);
    read_to(&mut client, "0\r\n\r\n");
    assert!(stage.becomes_free(), "the end of the response");
}

#[test]
fn a_response_that_holds_slots_has_its_length() {
    let stage = Stage::start(&fresh());
    for (path, length) in [("/item/7", "1"), ("/item/42", "2")] {
        assert_eq!(stage.get(path).header("content-length"), Some(length), "{path}");
    }
}

/// The client can go on as soon as it has the whole response.
#[test]
fn in_memory_the_slot_is_free_before_the_client_has_the_whole_response() {
    let stage = Stage::start(&fresh());
    for _ in 0..100 {
        assert_eq!(client::get(stage.service.address, "/item/7", &[]).status, 200);
        assert_eq!(client::get(stage.service.address, "/item/seven", &[]).status, 404);
    }
}
