//! The sweeper: ends leases that may no longer be used, and gives back what is not used, in the background.

use std::sync::Arc;

use tokio::time::sleep;

use super::lease::Leases;
use super::queue::Queues;

/// Sweeps as long as there are counts with leases, and waits for the next one.
pub(super) async fn sweep_forever(leases: Arc<Leases>, queues: Arc<Queues>) {
    loop {
        leases.has_count.notified().await;
        while let Some(pause) = leases.sweep() {
            queues.send_rider_commands();
            sleep(pause).await;
        }
        queues.send_rider_commands();
    }
}
