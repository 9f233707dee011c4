//! Tests of the state of the connection, and a server for tests of queues.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use redis::ServerErrorKind;

use super::*;
use crate::store::redis::error::is_lost;
use crate::store::redis::error::tests::error;
use crate::store::redis::timeouts::tests::TIMEOUTS;
use crate::store::redis::topology::{ConnectSettings, ServerConnection, TlsSettings, Topology};

/// Accepts one connection, and answers each call with `reply`, and the client crate with `OK`. Sends the keys
/// of each call.
fn serve(listener: &TcpListener, reply: &str, calls: &Sender<Vec<String>>) -> io::Result<()> {
    fn number(reader: &mut BufReader<TcpStream>, mark: &str) -> io::Result<usize> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let number = line.trim_end().strip_prefix(mark).and_then(|number| number.parse().ok());
        number.ok_or_else(|| io::Error::other(line))
    }
    let mut stream = listener.accept()?.0;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut arguments = Vec::new();
        for _ in 0..number(&mut reader, "*")? {
            let mut argument = vec![0; number(&mut reader, "$")? + 2];
            reader.read_exact(&mut argument)?;
            arguments.push(String::from_utf8_lossy(&argument[..argument.len() - 2]).into_owned());
        }
        if !arguments[0].starts_with("EVALSHA") {
            stream.write_all(b"+OK\r\n")?;
            continue;
        }
        let keys = arguments.into_iter().filter(|argument| argument.starts_with("rl1:"));
        // The test may have ended.
        let _ = calls.send(keys.collect());
        stream.write_all(reply.as_bytes())?;
    }
}

/// A connection to a server that answers each call with `reply`. The keys of each call go to `calls`.
pub(in crate::store::redis) async fn connection(
    reply: &'static str,
    calls: Sender<Vec<String>>,
) -> ServerConnection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || serve(&listener, reply, &calls));
    connection_to(&url).await
}

/// A connection to a server.
pub(in crate::store::redis) async fn connection_to(url: &str) -> ServerConnection {
    let timeouts = Timeouts { connect: Duration::from_secs(30), ..TIMEOUTS };
    let settings = ConnectSettings { timeouts, tls: TlsSettings::default(), credentials: None };
    let mut topology = Topology::parse(url, settings).unwrap();
    topology.connect().await.unwrap().server_of(0, None).unwrap().clone().unwrap()
}

/// Marks a connection of this generation as serving.
pub(in crate::store::redis) fn mark_up(link: &Link, generation: u64) {
    link.generation.store(generation, Ordering::Relaxed);
    link.state.send_replace(ConnectionState::Up { generation, suspect: false });
}

/// The state of a connection of this generation.
fn link(generation: u64) -> Link {
    let link = Link::new(None, TIMEOUTS, Breaker::new(), Vec::new());
    mark_up(&link, generation);
    link
}

#[test]
fn a_failure_of_an_earlier_connection_does_not_count_against_the_present_one() {
    let link = link(2);
    let error = || RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "of a replica"));
    let _ = link.record_error(error(), (1, None), 0);
    assert!(link.fast_fail(0).is_none() && link.is_up());
    let _ = link.record_error(error(), (2, None), 0);
    assert!(link.fast_fail(0).is_some() && !link.is_up());
}

#[test]
fn errors_of_unknown_meaning_are_a_reason_to_reconnect_when_no_reply_comes_between() {
    let link = link(1);
    let fail = |line| {
        let error = link.record_error(error(line), (1, None), 0);
        assert!(matches!(error, CallError::Rejected(_)), "{error:?}");
    };
    let unknown =
        "ERR Error running script (call to f_5e): @user_script:7: user_script:7: attempt to call nil";
    for _ in 0..100 {
        fail("WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    for _ in 0..4 {
        fail(unknown);
    }
    link.record_reply(0);
    fail(unknown);
    assert!(link.fast_fail(0).is_none() && link.is_up());
    for _ in 0..4 {
        fail(unknown);
    }
    assert!(link.fast_fail(0).is_some() && !link.is_up());
}

#[test]
fn a_late_loss_of_an_earlier_connection_keeps_the_present_one() {
    let link = link(2);
    link.mark_lost(1);
    let _ = link.record_error(RedisError::from((ErrorKind::Io, "broken")), (1, None), 0);
    assert!(link.is_up());
    link.mark_lost(2);
    assert!(matches!(*link.state.borrow(), ConnectionState::Connecting));
}

#[tokio::test]
async fn a_ping_whose_reply_is_another_gives_the_connection_up() {
    // The server replies `OK` to a ping.
    let server = connection("", channel().0).await;
    let error = server.ping().await.unwrap_err();
    assert!(is_lost(&error) && error.kind() == ErrorKind::Parse, "{error:?}");
    assert!(server.is_given_up());
}
