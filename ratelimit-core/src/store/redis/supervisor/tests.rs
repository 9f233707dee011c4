//! Tests of the supervisor without a Redis server.

use std::io::{Read, Write};
use std::mem;
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{pause, resume};

use super::*;
use crate::store::redis::link::tests::{connection_to, mark_up};
use crate::store::redis::shared::tests::shared;

/// A store whose connection has generation 1, and that connection. Its server replies to one ping for each
/// message on the channel.
async fn connected() -> (Arc<Shared>, ServerConnection, Sender<()>) {
    let shared = shared(&Handle::current());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let (allow, allowed) = channel();
    thread::spawn(move || {
        let (mut stream, mut ping) = (listener.accept().unwrap().0, *b"*1\r\n$4\r\nPING\r\n");
        while stream.read_exact(&mut ping).is_ok() && allowed.recv().is_ok() {
            stream.write_all(b"+PONG\r\n").unwrap();
        }
    });
    mark_up(&shared.link, 1);
    (shared, connection_to(&url).await, allow)
}

#[tokio::test]
async fn three_late_pings_in_a_row_give_a_connection_up() {
    for (story, is_kept) in [
        ("late late", true),
        ("late late late", false),
        ("late late reply late late reply late reply late", true),
    ] {
        let (shared, server, allow) = connected().await;
        let link = &shared.link;
        pause();
        let mut missing = 0;
        for ping in story.split(' ') {
            let pinged = shared.ping(&server, 1);
            missing += 1;
            if ping == "late" {
                // While all tasks wait, the paused clock goes on to the deadline.
                pinged.await;
                assert_eq!(link.failures[0].load(Ordering::Relaxed), 0, "{story}: calls have not failed");
            } else {
                (0..mem::take(&mut missing)).for_each(|_| allow.send(()).unwrap());
                tokio::select! {
                    () = pinged => {}
                    () = async { loop { yield_now().await } } => {}
                }
            }
        }
        assert_eq!(link.is_up(), is_kept, "{story}");
        // The connection is lost and not only suspect: a suspect one serves until another has been made.
        assert_eq!(matches!(*link.state.borrow(), ConnectionState::Connecting), !is_kept, "{story}");
        resume();
    }
}
