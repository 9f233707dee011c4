//! The counts under one lock: a bounded table by their digests.

use hashbrown::HashTable;

use super::count::LeasedCount;
use super::give_backs::CountId;
use super::size::Demand;

/// Maximum number of counts under one lock. Callers beyond that get no leases until there is room.
const MAX_PER_SHARD: usize = 512;

/// Counts under one lock.
#[derive(Debug, Default)]
pub(super) struct LeaseShard {
    pub(super) table: HashTable<LeaseEntry>,
    /// Instant before which cold entries are not removed again.
    next_sweep: u64,
}

/// A caller of a limit. A cold caller has only its demand.
#[derive(Debug)]
pub(super) struct LeaseEntry {
    digest: u128,
    pub(super) demand: Demand,
    pub(super) interval: u64,
    pub(super) warm: Option<Box<Warm>>,
}

/// A count that has leases or may have some soon, and its names elsewhere.
#[derive(Debug)]
pub(super) struct Warm {
    pub(super) count: LeasedCount,
    pub(super) count_id: CountId,
}

/// The table's hash: the lower half of a digest.
#[allow(clippy::cast_possible_truncation, reason = "the lower half of a digest is a hash as good as any")]
fn hash(digest: u128) -> u64 {
    digest as u64
}

impl LeaseShard {
    #[inline]
    pub(super) fn find(&mut self, digest: u128) -> Option<&mut LeaseEntry> {
        self.table.find_mut(hash(digest), |entry| entry.digest == digest)
    }

    /// The count of this digest, if it is warm, and its demand.
    #[inline]
    pub(super) fn warm(&mut self, digest: u128) -> Option<(&mut Warm, &mut Demand)> {
        let LeaseEntry { warm, demand, .. } = self.find(digest)?;
        Some((warm.as_deref_mut()?, demand))
    }

    /// Records a request of `cost` units, if there is room.
    pub(super) fn record(&mut self, digest: u128, cost: u64, interval: u64, now: u64) {
        if let Some(entry) = self.find(digest) {
            entry.interval = interval;
            entry.demand.record(cost, now, interval);
        } else if self.has_room(now) {
            let mut demand = Demand::default();
            demand.record(cost, now, interval);
            self.next_sweep = self.next_sweep.min(now + 2 * interval);
            let entry = LeaseEntry { digest, demand, interval, warm: None };
            self.table.insert_unique(hash(digest), entry, |entry| hash(entry.digest));
        }
    }

    /// Whether there is room for one more entry. Removes cold entries first, if there may be any.
    fn has_room(&mut self, now: u64) -> bool {
        if self.table.len() < MAX_PER_SHARD {
            return true;
        }
        if now < self.next_sweep {
            return false;
        }
        self.table.retain(|entry| entry.warm.is_some() || !entry.is_cold(now));
        let intervals = self.table.iter().map(|entry| entry.interval);
        self.next_sweep = now + intervals.min().unwrap_or(0) / 4;
        self.table.len() < MAX_PER_SHARD
    }
}

impl LeaseEntry {
    pub(super) fn is_cold(&self, now: u64) -> bool {
        self.demand.units(now, self.interval) == 0
    }
}
