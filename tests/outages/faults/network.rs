//! Connections that delay, lose, cut or garble what the server answers.

use std::time::Duration;

use tests::outage::{Outage, PROBE};
use tests::proxy::{Mode, Proxy};
use tests::redis::server;

use super::{SECOND, fail_and_recover};

#[tokio::test]
async fn a_connection_that_swallows_everything_is_replaced_while_the_server_works() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let mut outage = Outage::of("swallowed connection", &proxy.url());
    outage.until_up().await;
    proxy.swallow_present();
    outage.until_lost().await;
    outage.ends_within(SECOND).await;
    assert!(proxy.accepted() >= 2);
}

/// Time to recover when an attempt to connect waits in vain: the rest of that attempt, and a pause.
const IN_VAIN: Duration = Duration::from_millis(500 + 100 + 800 + 100);

macro_rules! disturbed {
    ($($test:ident, $name:literal, $mode:expr, $limit:expr;)+) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(server) = server() else { return };
            let proxy = Proxy::before(server.port());
            fail_and_recover($name, &proxy.url(), || proxy.set($mode), || proxy.set(Mode::Pass), $limit).await;
        })+
    };
}

disturbed! {
    replies_after_150_ms_are_too_late, "answers 150 ms late", Mode::Delay(Duration::from_millis(150)), SECOND;
    replies_after_500_ms_are_too_late, "answers 500 ms late", Mode::Delay(Duration::from_millis(500)), IN_VAIN;
    a_network_that_swallows_everything_is_an_outage, "network swallows", Mode::Swallow, IN_VAIN;
    connections_reset_within_a_reply_are_an_outage, "reset in an answer", Mode::Reset, SECOND;
    connections_closed_within_a_reply_are_an_outage, "end in an answer", Mode::Cut, SECOND;
    trickling_replies_are_too_late, "trickle", Mode::Trickle(Duration::from_millis(5)), IN_VAIN;
    replies_that_break_the_protocol_are_an_outage, "garbage", Mode::Garbage, SECOND;
    an_announced_terabyte_is_an_outage, "announced terabyte", Mode::Oversized, IN_VAIN;
}

#[tokio::test]
async fn disturbed_connections_never_mix_up_replies() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let outage = Outage::of("mixed up", &proxy.url());
    let limiter = &outage.limiter;
    let (mut checks, mut decided) = (0, 0);
    let modes = [
        Mode::Reset,
        Mode::Delay(Duration::from_millis(120)),
        Mode::Cut,
        Mode::Trickle(Duration::from_millis(1)),
        Mode::Garbage,
    ];
    for (round, mode) in (0..10u64).zip(modes.into_iter().cycle()) {
        proxy.set(Mode::Pass);
        outage.until_up().await;
        let requests = (0..100u64).map(|i| async move {
            tokio::time::sleep(Duration::from_millis(i)).await;
            // Each has a caller and a cost of its own, and therefore an answer of its own.
            let cost = 1 + round * 100 + i;
            match limiter.check_n(&PROBE, cost.to_le_bytes(), cost).await {
                Ok(outcome) => {
                    assert_eq!(outcome.remaining(), PROBE.max() - cost);
                    1
                }
                Err(_) => 0,
            }
        });
        let disturb = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            proxy.set(mode);
            tokio::time::sleep(Duration::from_millis(20)).await;
            proxy.set(Mode::Pass);
        };
        let (answers, ()) =
            futures_util::future::join(futures_util::future::join_all(requests), disturb).await;
        checks += answers.len();
        decided += answers.into_iter().sum::<usize>();
    }
    println!("{decided} of {checks} decided, each as it should be");
    assert!(decided > 300 && decided < checks, "{decided}");
}

#[tokio::test]
async fn a_moved_server_is_found() {
    let (Some(mut first), Some(second)) = (server(), server()) else { return };
    // The proxy stands for a name whose address changes.
    let proxy = Proxy::before(first.port());
    let mut outage = Outage::of("moved", &proxy.url());
    outage.until_up().await;
    proxy.retarget(second.port());
    first.kill();
    outage.until_lost().await;
    outage.ends_within(SECOND).await;
    assert_ne!(second.query("DBSIZE"), ":0");
}
