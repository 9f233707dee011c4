//! The sweeper: ends leases that may no longer be used, and gives back what is not used, in the background.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::lease::{GiveBackCall, Leases};
use super::link::{CallProgress, Link};
use super::protocol::Encoder;

/// Sweeps as long as there are counts with leases, and waits for the next one.
pub(super) async fn sweep_forever(leases: Arc<Leases>, link: Arc<Link>, encoder: Arc<Encoder>) {
    loop {
        leases.has_count.notified().await;
        while let Some(pause) = leases.sweep() {
            send_give_backs(&leases, &link, &encoder).await;
            sleep(pause).await;
        }
        send_give_backs(&leases, &link, &encoder).await;
    }
}

/// Gives back everything that is held, when the store is dropped. Waits no longer than one deadline.
pub(super) async fn give_back_all(leases: &Leases, link: &Arc<Link>, encoder: &Encoder) {
    leases.close();
    let _ = timeout(link.deadline(), send_give_backs(leases, link, encoder)).await;
}

async fn send_give_backs(leases: &Leases, link: &Arc<Link>, encoder: &Encoder) {
    let mut calls = JoinSet::new();
    for call in leases.take_give_backs(encoder, link.is_cluster()) {
        calls.spawn(send_give_back(Arc::clone(link), call));
    }
    while calls.join_next().await.is_some() {}
}

/// Sends one call. After an error it is not sent again: then the units count until their window is over.
pub(super) async fn send_give_back(link: Arc<Link>, call: GiveBackCall) {
    let GiveBackCall { command, guard } = call;
    let range = link.range(command.keys().first().map(String::as_str));
    let progress = CallProgress::default();
    if timeout(link.deadline(), link.call(&command, range, &progress)).await.is_err() {
        link.record_timeout(range, &progress);
    }
    drop(guard);
}
