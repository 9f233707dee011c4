//! Slots that requests hold in a store of this process.

use std::sync::Arc;

use parking_lot::Mutex;

use super::shard::{Digest, Shard};
use crate::check::Check;
use crate::outcome::GroupOutcome;
use crate::slots::Slots;

/// The slots that an admitted group took. `place` tells the shard and the digest of a check.
#[inline]
pub(super) fn held_by(
    shards: &Arc<[Mutex<Shard>]>,
    group: &[Check<'_>],
    outcome: &GroupOutcome,
    place: impl Fn(usize) -> (usize, Digest),
) -> Slots {
    let taken = outcome.slots_taken(group).into_iter();
    let held = taken.map(|(index, slots)| {
        let (shards, (shard, digest)) = (Arc::clone(shards), place(index));
        Slots::freed_by(move || {
            let mut shard = shards[shard].lock();
            if let Some(entry) = shard.find(digest) {
                entry.state.free(slots);
                shard.remove(digest);
            }
        })
    });
    held.fold(Slots::default(), Slots::and)
}
