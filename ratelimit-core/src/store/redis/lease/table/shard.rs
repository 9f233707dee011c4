//! The counts under one lock: found by their digests, and bounded.

use hashbrown::HashTable;

use crate::store::redis::lease::count::Count;
use crate::store::redis::lease::count_name::Origin;
use crate::store::redis::lease::heat::Heat;

/// Maximum number of counts under one lock. Callers beyond that get no leases until there is room.
const MAX_PER_SHARD: usize = 512;

/// Counts under one lock.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) table: HashTable<Entry>,
    /// No entry gets cold before this instant.
    pub(super) next_sweep: u64,
}

/// A caller of a limit: cold ones have their heat only.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) digest: u128,
    pub(super) heat: Heat,
    pub(super) interval: u64,
    pub(super) slot: Option<Box<Slot>>,
}

/// A count that is warm, and what names it elsewhere.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) count: Count,
    pub(super) origin: Origin,
}

/// The table's hash: the lower half of a digest.
#[allow(clippy::cast_possible_truncation, reason = "the lower half of a digest is a hash as good as any")]
fn hash(digest: u128) -> u64 {
    digest as u64
}

impl Shard {
    #[inline]
    pub(super) fn find(&mut self, digest: u128) -> Option<&mut Entry> {
        self.table.find_mut(hash(digest), |entry| entry.digest == digest)
    }

    /// Adds an entry whose digest is new.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.table.insert_unique(hash(entry.digest), entry, |entry| hash(entry.digest));
    }

    /// Whether there is room for one more entry; makes room first if entries may have got cold.
    pub(super) fn has_room(&mut self, now: u64) -> bool {
        if self.table.len() < MAX_PER_SHARD {
            return true;
        }
        if now < self.next_sweep {
            return false;
        }
        self.table.retain(|entry| entry.slot.is_some() || !entry.is_cold(now));
        let intervals = self.table.iter().map(|entry| entry.interval);
        self.next_sweep = now + intervals.min().unwrap_or(0) / 4;
        self.table.len() < MAX_PER_SHARD
    }
}

impl Entry {
    pub(super) fn is_cold(&self, now: u64) -> bool {
        self.heat.units(now, self.interval) == 0
    }
}
