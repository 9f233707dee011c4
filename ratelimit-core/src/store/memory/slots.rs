//! Slots that requests hold in a store of this process.

use std::sync::Arc;

use parking_lot::Mutex;

use super::shard::{Digest, Shard};
use crate::check::Check;
use crate::outcome::GroupOutcome;
use crate::slots::Slots;

/// Lets the outcome of an admitted group hold the slots that it took. `place` tells the shard and the digest of a check.
pub(super) fn hold(
    shards: &Arc<[Mutex<Shard>]>,
    group: &[Check<'_>],
    outcome: GroupOutcome,
    place: impl Fn(usize) -> (usize, Digest),
) -> GroupOutcome {
    let taken = outcome.slots_taken(group).into_iter();
    let held = taken.map(|(index, slots)| {
        let (shard, digest) = place(index);
        Slots::new(SlotsHere { shards: Arc::clone(shards), shard, digest, slots })
    });
    let held = held.fold(Slots::default(), Slots::and);
    outcome.with_slots(held)
}

/// Slots that a request holds in this process. They are freed when this is dropped.
struct SlotsHere {
    shards: Arc<[Mutex<Shard>]>,
    shard: usize,
    digest: Digest,
    slots: u64,
}

impl Drop for SlotsHere {
    fn drop(&mut self) {
        let mut shard = self.shards[self.shard].lock();
        if let Some(entry) = shard.find(self.digest) {
            entry.state.free(self.slots);
            shard.remove(self.digest);
        }
    }
}
