//! Clients that go away: a slot is free when Actix drops the handler or the body. The page on concurrency
//! says when that is, from these tests.

use std::net::TcpStream;

use tests::store::fresh;
use tests::within;
use tokio::runtime::Runtime;

use super::ends::{read_to, running};
use super::service::{Lead, PATIENCE, SILENCE, Stage, Step};

/// Whether the handler or the body is dropped although it does nothing.
fn is_noticed(stage: &Stage, lead: &Lead) -> bool {
    let is_dropped = within(SILENCE, || lead.is_dropped());
    assert_eq!(stage.is_free(), is_dropped);
    is_dropped
}

#[test]
fn a_client_that_has_gone_is_noticed_at_a_write() {
    let stage = Stage::start(&fresh());
    // A handler runs to its end.
    let (lead, client) = running(&stage, "/wait");
    drop(client);
    assert!(!is_noticed(&stage, &lead));
    lead.go(Step::Text);
    assert!(stage.becomes_free());
    // A body is dropped when it is written: after the first write the server knows, the second fails.
    let (lead, mut client) = running(&stage, "/stream");
    lead.go(Step::Text);
    read_to(&mut client, "text\n\r\n");
    drop(client);
    assert!(!is_noticed(&stage, &lead));
    assert!(writes_until_dropped(&lead) <= 2);
    assert!(stage.becomes_free());
}

#[test]
fn without_half_closed_connections_a_client_that_has_gone_is_noticed_at_once() {
    let stage = Stage::with_half_closed(false, &fresh());
    for path in ["/wait", "/stream"] {
        let (lead, client) = running(&stage, path);
        drop(client);
        assert!(within(PATIENCE, || lead.is_dropped()), "{path}");
        assert!(stage.becomes_free(), "{path}");
    }
}

/// A connection of HTTP/2.
struct Http2 {
    runtime: Runtime,
    client: h2::client::SendRequest<actix_web::web::Bytes>,
    connection: tokio::task::JoinHandle<()>,
}

impl Http2 {
    fn connect(stage: &Stage) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(async {
            let stream = TcpStream::connect(stage.service.address).unwrap();
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let (client, connection) = h2::client::handshake(stream).await.unwrap();
            let connection = tokio::spawn(async { drop(connection.await) });
            (client.ready().await.unwrap(), connection)
        });
        Self { runtime, client, connection }
    }

    /// A request that runs.
    fn running(&mut self, stage: &Stage, path: &str) -> (Lead, Stream) {
        let lead = stage.led.next();
        let uri = format!("http://{}{path}", stage.service.address);
        let request = http::Request::get(uri).body(()).unwrap();
        let (response, sender) = self.client.send_request(request, true).unwrap();
        assert!(within(PATIENCE, || !stage.is_free()), "{path} holds no slot");
        (lead, Stream { sender, _response: response })
    }
}

struct Stream {
    sender: h2::SendStream<actix_web::web::Bytes>,
    _response: h2::client::ResponseFuture,
}

impl Stream {
    fn reset(mut self) {
        self.sender.send_reset(h2::Reason::CANCEL);
    }
}

/// How many writes it takes until the body of a client that has gone is dropped.
fn writes_until_dropped(lead: &Lead) -> usize {
    let mut writes = 0;
    let is_dropped = within(PATIENCE, || {
        writes += 1;
        lead.go(Step::Text);
        within(SILENCE, || lead.is_dropped())
    });
    assert!(is_dropped);
    writes
}

/// Whatever the server's setting for half-closed connections is.
#[test]
fn a_stream_of_http2_that_is_reset_is_noticed_at_the_next_write() {
    for half_closed in [true, false] {
        let stage = Stage::with_half_closed(half_closed, &fresh());
        let mut client = Http2::connect(&stage);
        for path in ["/wait", "/stream"] {
            let (lead, stream) = client.running(&stage, path);
            stream.reset();
            assert!(!is_noticed(&stage, &lead), "{path}");
            assert_eq!(writes_until_dropped(&lead), 1, "{path}");
            assert!(stage.becomes_free(), "{path}");
        }
    }
}

#[test]
fn a_connection_of_http2_that_is_gone_is_noticed_at_the_next_write() {
    for half_closed in [true, false] {
        for path in ["/wait", "/stream"] {
            let stage = Stage::with_half_closed(half_closed, &fresh());
            let mut client = Http2::connect(&stage);
            let (lead, _stream) = client.running(&stage, path);
            client.connection.abort();
            drop(client.runtime);
            assert!(!is_noticed(&stage, &lead), "{path}");
            assert_eq!(writes_until_dropped(&lead), 1, "{path}");
            assert!(stage.becomes_free(), "{path}");
        }
    }
}
