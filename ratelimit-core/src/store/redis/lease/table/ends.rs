//! Ends of leases: the sweep in the background, the reset of a count, and the end of the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Leases;
use crate::check::Check;
use crate::observe::metrics;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::lease::count::Effects;
use crate::store::redis::protocol::Encoder;

/// Shortest and longest pause between two sweeps.
const SWEEP_US: (u64, u64) = (5_000, 250_000);

impl Leases {
    /// Ends what may no longer be used, and gives back what was not used for an interval. Returns the pause until the next
    /// sweep, and `None` when nothing is left to sweep.
    pub(in crate::store::redis) fn sweep(&self) -> Option<Duration> {
        let (now, mut shortest, mut held) = (self.now(), None, 0);
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.table.retain(|entry| {
                if let Some(slot) = &mut entry.slot {
                    let mut effects = Effects::default();
                    let connection = self.connection(slot.count.lane());
                    let is_idle = slot.count.sweep(connection, now, &mut effects);
                    self.give_backs.note(&slot.origin, effects);
                    held += slot.count.held();
                    shortest = Some(shortest.map_or(entry.interval, |one: u64| one.min(entry.interval)));
                    if is_idle && entry.is_cold(now) {
                        entry.slot = None;
                        self.counts.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                entry.slot.is_some() || !entry.is_cold(now)
            });
        }
        metrics::lease_units_held(held);
        shortest.map(|interval| Duration::from_micros((interval / 4).clamp(SWEEP_US.0, SWEEP_US.1)))
    }

    /// Gives back everything that is held, at the end of the process.
    pub(in crate::store::redis) fn close(&self) {
        let now = self.now();
        for shard in &self.shards {
            for entry in shard.lock().table.drain() {
                if let Some(mut slot) = entry.slot {
                    self.counts.fetch_sub(1, Ordering::Relaxed);
                    let mut effects = Effects::default();
                    slot.count.close(self.connection(slot.count.lane()), now, &mut effects);
                    self.give_backs.note(&slot.origin, effects);
                }
            }
        }
    }

    /// Takes out the units that wait to be given back, as commands.
    pub(in crate::store::redis) fn take_give_backs(
        &self,
        encoder: &Encoder,
        is_cluster: bool,
    ) -> Vec<GuardedCommand> {
        self.give_backs.take(&self.lanes, encoder, is_cluster)
    }

    /// Drops the leases of these counts before a command that resets them on the server, and again at its end.
    pub(in crate::store::redis) fn reset_on_drop(self: &Arc<Self>, checks: &[Check<'_>]) -> ResetOnDrop {
        // Those of limits without a lease as well: another limit may lease the same count.
        let digests: Vec<u128> = checks.iter().map(|check| self.digest(check)).collect();
        for &digest in &digests {
            self.give_backs.forget(digest);
            self.change(digest, |count, _, _, effects| count.begin_reset(effects));
        }
        ResetOnDrop { leases: Arc::clone(self), digests }
    }
}

/// Ends a reset of counts when it is dropped. It travels with the command, and is dropped at its end.
pub(in crate::store::redis) struct ResetOnDrop {
    leases: Arc<Leases>,
    digests: Vec<u128>,
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        for &digest in &self.digests {
            self.leases.give_backs.forget(digest);
            self.leases.change(digest, |count, _, _, effects| count.end_reset(effects));
        }
    }
}
