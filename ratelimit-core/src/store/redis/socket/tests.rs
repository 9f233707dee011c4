//! Tests of sockets, over a pair of which the test is one end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::*;
use crate::store::redis::error::is_lost;

const PATIENCE: Duration = Duration::from_secs(30);

type Replied = (CallId, RedisResult<Value>);

struct Replies(Mutex<Sender<Replied>>);

impl ReplySink for Replies {
    fn reply(self: Arc<Self>, call: CallId, reply: RedisResult<Value>) -> bool {
        let is_its_own = reply.as_ref() != Ok(&Value::BulkString(b"another".to_vec()));
        // The test may have ended.
        let _ = self.0.lock().send((call, reply));
        is_its_own
    }
}

struct Pair {
    socket: Arc<Socket>,
    server: UnixStream,
    sink: Arc<dyn ReplySink>,
    replies: Receiver<Replied>,
    runtime: Runtime,
}

fn pair() -> Pair {
    let (ours, server) = UnixStream::pair().unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let socket = Socket::start(ours.into(), runtime.handle().clone()).unwrap();
    let (sender, replies) = channel();
    Pair { socket, server, sink: Arc::new(Replies(Mutex::new(sender))), replies, runtime }
}

const fn call(batch: u64) -> CallId {
    CallId { batch, index: 0 }
}

impl Pair {
    fn send(&self, batch: u64, bytes: &[u8]) -> bool {
        self.socket.send_calls(bytes, [call(batch)], &self.sink)
    }

    fn reply(&self) -> Replied {
        self.replies.recv_timeout(PATIENCE).unwrap()
    }
}

/// Reads what there is for the client crate, waiting until there is something.
async fn read(stream: &mut ClientStream) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut buffer = ReadBuf::new(&mut bytes);
    std::future::poll_fn(|task| std::pin::Pin::new(&mut *stream).poll_read(task, &mut buffer)).await.unwrap();
    buffer.filled().to_vec()
}

async fn write(stream: &mut ClientStream, bytes: &[u8]) -> io::Result<usize> {
    use tokio::io::AsyncWrite;
    std::future::poll_fn(|task| std::pin::Pin::new(&mut *stream).poll_write(task, bytes)).await
}

#[test]
fn replies_go_to_calls_and_to_the_client_crate_in_the_order_of_their_commands() {
    let mut pair = pair();
    let mut client = ClientStream::new(Arc::clone(&pair.socket));
    assert!(pair.send(1, b"a"));
    // One command in two parts, and two in one.
    for part in [&b"*1\r\n$4\r\nPI"[..], b"NG\r\n*1\r\n$1\r\nx\r\n"] {
        assert_eq!(pair.runtime.block_on(write(&mut client, part)).unwrap(), part.len());
    }
    assert!(pair.send(2, b"b"));
    let mut sent = [0; 1 + 14 + 11 + 1];
    pair.server.read_exact(&mut sent).unwrap();
    assert_eq!(&sent, b"a*1\r\n$4\r\nPING\r\n*1\r\n$1\r\nx\r\nb");
    // The last one in two parts, and a message between them that is no reply.
    pair.server.write_all(b"$3\r\none\r\n+PONG\r\n>1\r\n+m\r\n-ERR no x\r\n-NOSCRIPT ").unwrap();
    pair.server.write_all(b"unknown\r\n").unwrap();
    assert_eq!(pair.reply(), (call(1), Ok(Value::BulkString(b"one".to_vec()))));
    let (id, error) = pair.reply();
    assert_eq!((id, error.unwrap_err().code()), (call(2), Some("NOSCRIPT")));
    let mut seen = Vec::new();
    while seen.len() < 25 {
        seen.extend(pair.runtime.block_on(read(&mut client)));
    }
    assert_eq!(seen, b"+PONG\r\n>1\r\n+m\r\n-ERR no x\r\n", "{}", seen.escape_ascii());
}

/// Why a connection is lost whose server sends `bytes` and closes it.
fn loss_after(bytes: &[u8]) -> String {
    let Pair { socket, mut server, runtime, .. } = pair();
    let mut client = ClientStream::new(Arc::clone(&socket));
    server.write_all(bytes).unwrap();
    drop(server);
    while !runtime.block_on(read(&mut client)).is_empty() {}
    let loss = socket.loss().unwrap();
    assert!(is_lost(loss), "{loss:?}");
    loss.to_string()
}

#[test]
fn a_lost_connection_is_explained_by_the_last_words_of_the_server() {
    for (bytes, expected) in [
        (
            &b"-ERR max number of clients reached\r\n"[..],
            "ended the connection: ERR max number of clients reached",
        ),
        (b"-DENIED Redis is running in protected mode\r\n", "DENIED Redis is running in protected mode"),
        (b">1\r\n+m\r\n-ERR bye\r\n", "ERR bye"),
        (b"", "before any reply; if it expects TLS, begin the URL with `rediss`"),
        (b"\x15\x03\x01\0\x02\x02\x46", SPEAKS_TLS),
        (b"HTTP/1.1 400 Bad Request\r\n", "sent what is no reply"),
        (b">1\r\n+m\r\n", "broken pipe"),
    ] {
        let loss = loss_after(bytes);
        assert!(loss.ends_with(expected), "{}: {loss}", bytes.escape_ascii());
    }
}

#[test]
fn a_server_that_does_not_read_keeps_no_writer_waiting() {
    const CALLS: u8 = 64;
    let mut pair = pair();
    let piece = vec![b'x'; 64 * 1024];
    // The first byte tells the order.
    let bytes_of = |number| {
        let mut bytes = piece.clone();
        bytes[0] = number;
        bytes
    };
    let start = Instant::now();
    for number in 0..CALLS {
        assert!(pair.send(number.into(), &bytes_of(number)));
    }
    assert!(!pair.socket.0.unsent.lock().is_empty(), "4 MB fit into the buffer");
    assert!(start.elapsed() < PATIENCE);
    let mut bytes = piece.clone();
    for number in 0..2 * CALLS {
        pair.server.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[0], number);
        if number < CALLS {
            // Now there is room in the buffer, but not for this one.
            assert!(pair.send((CALLS + number).into(), &bytes_of(CALLS + number)));
        }
        pair.server.write_all(b"$0\r\n\r\n").unwrap();
        assert_eq!(pair.reply(), (call(number.into()), Ok(Value::BulkString(Vec::new()))));
    }
    assert!(pair.socket.0.unsent.lock().is_empty());
}

#[test]
fn a_lost_connection_fails_what_waits_and_takes_nothing_more() {
    for (case, last) in [("closed", &b"$9\r\npart"[..]), ("no reply", b"HTTP/1.1 400\r\n")] {
        let mut pair = pair();
        assert!(pair.send(1, b"a") && pair.send(2, b"b"));
        pair.server.write_all(last).unwrap();
        let server = if case == "closed" { None } else { Some(pair.server.try_clone().unwrap()) };
        pair.server.shutdown(std::net::Shutdown::Write).unwrap();
        for number in 1..=2 {
            let (id, error) = pair.reply();
            assert!(id == call(number) && error.unwrap_err().is_io_error(), "{case}");
        }
        assert!(!pair.send(3, b"c"), "{case}");
        let mut client = ClientStream::new(Arc::clone(&pair.socket));
        assert!(pair.runtime.block_on(read(&mut client)).is_empty(), "{case}: the end");
        assert!(pair.runtime.block_on(write(&mut client, b"*0\r\n")).is_err(), "{case}");
        if let Some(mut server) = server {
            let mut sent = Vec::new();
            server.read_to_end(&mut sent).unwrap();
            assert_eq!(sent, b"ab", "{case}: and is shut down");
        }
    }
}

#[test]
fn a_socket_ends_with_its_last_user() {
    let Pair { socket, mut server, sink, replies, runtime: _runtime } = pair();
    let in_flight = Arc::clone(&socket);
    assert!(socket.send_calls(b"a", [call(1)], &sink));
    drop(socket);
    server.write_all(b"$0\r\n\r\n").unwrap();
    assert!(replies.recv_timeout(PATIENCE).unwrap().1.is_ok(), "a call in flight keeps it");
    drop(in_flight);
    let mut rest = Vec::new();
    server.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"a");
}

#[test]
fn a_panic_of_whoever_takes_a_reply_leaves_the_others_theirs() {
    struct Panics;
    impl ReplySink for Panics {
        fn reply(self: Arc<Self>, _: CallId, _: RedisResult<Value>) -> bool {
            panic!("as a recorder may");
        }
    }
    let mut pair = pair();
    let panics: Arc<dyn ReplySink> = Arc::new(Panics);
    assert!(pair.socket.send_calls(b"a", [call(1)], &panics) && pair.send(2, b"b"));
    pair.server.write_all(b"$0\r\n\r\n$0\r\n\r\n").unwrap();
    assert_eq!(pair.reply().0, call(2));
}

#[test]
fn behind_a_reply_that_is_not_that_of_its_call_no_call_gets_one() {
    for odd in [&b"$7\r\nanother\r\n"[..], b"*1\r\n:1\r\n", b"%0\r\n", b":x\r\n"] {
        let mut pair = pair();
        assert!(pair.send(1, b"a") && pair.send(2, b"b"));
        pair.server.write_all(&[odd, b"$0\r\n\r\n"].concat()).unwrap();
        assert_eq!(pair.reply().0, call(1));
        let (id, error) = pair.reply();
        assert!(id == call(2) && error.unwrap_err().is_io_error(), "{}", odd.escape_ascii());
        let mut sent = Vec::new();
        pair.server.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, b"ab");
    }
}

#[test]
fn a_long_reply_comes_whole_and_the_next_one_behind_it() {
    let mut pair = pair();
    let mut client = ClientStream::new(Arc::clone(&pair.socket));
    pair.runtime.block_on(write(&mut client, b"*1\r\n$1\r\nx\r\n")).unwrap();
    let long = [&b"$1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat();
    let mut server = pair.server.try_clone().unwrap();
    let writer = thread::spawn({
        let long = long.clone();
        move || server.write_all(&long).unwrap()
    });
    let mut seen = 0;
    while seen < long.len() {
        seen += pair.runtime.block_on(read(&mut client)).len();
    }
    writer.join().unwrap();
    assert_eq!(seen, long.len());
    assert!(pair.send(1, b"a"));
    pair.server.write_all(b"$0\r\n\r\n").unwrap();
    assert_eq!(pair.reply(), (call(1), Ok(Value::BulkString(Vec::new()))));
}

#[test]
fn a_reply_too_many_gives_the_connection_up() {
    let mut pair = pair();
    assert!(pair.send(1, b"a"));
    pair.server.write_all(b"$0\r\n\r\n$0\r\n\r\n").unwrap();
    assert_eq!(pair.reply(), (call(1), Ok(Value::BulkString(Vec::new()))));
    let mut sent = Vec::new();
    pair.server.read_to_end(&mut sent).unwrap();
    // The thread that reads may not have marked it as lost yet.
    if pair.send(2, b"b") {
        let (id, error) = pair.reply();
        assert!(id == call(2) && error.unwrap_err().is_io_error());
    }
}
