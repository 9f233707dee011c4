//! A shard: entries under one lock, and the sweep that drops expired ones.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::algorithm::{Operation, State, judge_check};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::Outcome;

/// A part of the table under one lock.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) table: HashTable<StoredState>,
    /// Before this instant too few entries have expired for a sweep.
    pub(super) next_sweep: Timestamp,
}

#[derive(Debug)]
pub(super) struct StoredState {
    pub(super) digest: Digest,
    pub(super) state: State,
}

impl StoredState {
    #[inline]
    pub(super) fn judge(&mut self, check: &Check<'_>, now: Timestamp, operation: Operation) -> Outcome {
        match operation {
            Operation::Peek => self.peek(check, now),
            _ => judge_check(check, &mut self.state, now, operation),
        }
    }

    /// A function of its own, so that `judge` is small enough to be inlined.
    #[cold]
    fn peek(&self, check: &Check<'_>, now: Timestamp) -> Outcome {
        judge_check(check, &mut self.state.clone(), now, Operation::Peek)
    }
}

const _: () = assert!(size_of::<StoredState>() == 32, "with one byte of the table, all that a caller costs");

/// Two halves, because a `u128` has a larger alignment than the rest of an entry.
pub(super) type Digest = (u64, u64);

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
#[inline]
pub(super) fn split(digest: u128) -> Digest {
    (digest as u64, (digest >> 64) as u64)
}

/// Digest of the overflow count of a policy at an instant.
pub(super) fn overflow_digest(check: &Check<'_>, at: Timestamp) -> Digest {
    (check.state_id_at(at), 0)
}

/// The table's hash: half of a digest.
#[inline]
pub(super) fn hash(digest: Digest) -> u64 {
    digest.0
}

impl Shard {
    #[inline]
    pub(super) fn find(&mut self, digest: Digest) -> Option<&mut StoredState> {
        self.table.find_mut(hash(digest), |entry| entry.digest == digest)
    }

    /// Whether there is room for a new caller beside `others`. Sweeps first if need be.
    #[inline]
    pub(super) fn has_room(&mut self, others: usize, now: Timestamp, max: usize) -> bool {
        if self.table.len() + others < max.min(self.table.capacity()) {
            return true;
        }
        self.sweep(now);
        self.table.len() + others < max
    }

    /// Drops expired entries. At most once until a sixteenth of the entries has expired, so that it takes
    /// constant time per request on average.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.table.retain(|entry| entry.state.expires_at() > now);
        let mut expiries: Vec<Timestamp> = self.table.iter().map(|entry| entry.state.expires_at()).collect();
        let sixteenth = expiries.len() / 16;
        self.next_sweep = if expiries.is_empty() { now } else { *expiries.select_nth_unstable(sixteenth).1 };
    }

    /// Judges a new caller, and stores its state if it was charged.
    #[inline]
    pub(super) fn judge_new(
        &mut self,
        digest: Digest,
        check: &Check<'_>,
        now: Timestamp,
        operation: Operation,
    ) -> Outcome {
        let mut state = State::new(check.policy());
        let outcome = judge_check(check, &mut state, now, operation);
        if operation == Operation::Check && outcome.fits() {
            self.table.insert_unique(hash(digest), StoredState { digest, state }, |entry| hash(entry.digest));
        }
        outcome
    }

    /// Stores a state.
    pub(super) fn put(&mut self, digest: Digest, state: State) {
        match self.table.entry(hash(digest), |entry| entry.digest == digest, |entry| hash(entry.digest)) {
            Entry::Occupied(known) => known.into_mut().state = state,
            Entry::Vacant(room) => {
                room.insert(StoredState { digest, state });
            }
        }
    }

    /// Drops a state, but no slots that are held: they are freed when the work ends.
    pub(super) fn remove(&mut self, digest: Digest) {
        if let Ok(known) = self.table.find_entry(hash(digest), |entry| entry.digest == digest)
            && !known.get().state.holds_slots()
        {
            known.remove();
        }
    }
}
