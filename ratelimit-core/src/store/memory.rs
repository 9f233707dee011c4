//! The in-process store: a sharded table of states under a keyed digest.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{Check, Reservation, Store};
use crate::algorithm::{Member, Mode, State, decide};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;

/// Callers that a store holds unless told otherwise.
pub const DEFAULT_MAX_CALLERS: usize = 100_000;

/// Locks among which the callers are spread. More than there are threads, so that two rarely meet.
const SHARDS: usize = 64;

/// Callers for which one more lock is worth having.
const CALLERS_PER_SHARD: usize = 64;

/// Counts kept in this process, bounded in number and without a background task.
///
/// * Callers are kept under a 128-bit digest with a random key, so neither their names stay in memory nor can anybody
///   choose names that collide.
/// * Callers whose state says nothing any more are dropped when room is needed. One who still counts for something is
///   never dropped: when the table is full of them, new callers share one count per policy, which is limited like any
///   other. So a flood of made-up callers cannot wash out anybody's count.
/// * All instants come from one [monotonic clock](SystemClock).
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    digest_key: [u8; 16],
    shards: Box<[Mutex<Shard>]>,
    max_per_shard: usize,
}

impl MemoryStore {
    /// A store for up to [`DEFAULT_MAX_CALLERS`].
    pub fn new() -> Self {
        Self::with_max_callers(DEFAULT_MAX_CALLERS)
    }

    /// A store for up to about `max_callers`, at least 1, counted once for each policy they are under.
    pub fn with_max_callers(max_callers: usize) -> Self {
        let shards = (max_callers / CALLERS_PER_SHARD).clamp(1, SHARDS);
        let mut digest_key = [0; 16];
        for half in digest_key.chunks_exact_mut(8) {
            // The standard library's own source of random keys for hash tables.
            half.copy_from_slice(&RandomState::new().hash_one(0u8).to_le_bytes());
        }
        Self {
            clock: Arc::new(SystemClock::new()),
            digest_key,
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            max_per_shard: (max_callers / shards).max(1),
        }
    }

    /// Reads the time from `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Callers held, counted once for each policy they are under.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().table.len()).sum()
    }

    /// Whether nobody is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard_of(&self, digest: u128) -> usize {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (digest >> 96) as usize;
        bits % self.shards.len()
    }

    fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        let now = self.clock.now();
        if let [check] = group {
            let digest = check.digest(&self.digest_key);
            let mut shard = self.shards[self.shard_of(digest)].lock();
            return shard.decide_one(digest, check, now, mode, self.max_per_shard);
        }
        let mut held = self.hold(group, now);
        held.decide(group, now, mode)
    }

    /// Locks the shards of all callers of a group, in one order for all so that two groups never wait for each other.
    fn hold(&self, group: &[Check<'_>], now: Timestamp) -> Held<'_> {
        let digests = group.iter().map(|check| check.digest(&self.digest_key));
        let wanted: SmallVec<[(usize, u128); 2]> =
            digests.map(|digest| (self.shard_of(digest), digest)).collect();
        let mut order: SmallVec<[usize; 2]> = wanted.iter().map(|(shard, _)| *shard).collect();
        order.sort_unstable();
        order.dedup();
        let mut shards: SmallVec<[_; 2]> = order.iter().map(|&shard| self.shards[shard].lock()).collect();
        let places = wanted.iter().zip(group).map(|(&(shard, digest), check)| {
            let shard = order.binary_search(&shard).unwrap_or_else(|place| place);
            (shard, shards[shard].place(digest, check.policy(), now, self.max_per_shard))
        });
        let places = places.collect();
        Held { shards, places }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Check))
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Peek))
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        for check in group {
            let digest = check.digest(&self.digest_key);
            self.shards[self.shard_of(digest)].lock().remove(digest);
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let now = self.clock.now();
        for taken in reservation.taken() {
            let check = taken.check();
            let digest = check.digest(&self.digest_key);
            let mut shard = self.shards[self.shard_of(digest)].lock();
            if let Some(entry) = shard.find(digest)
                && entry.state.refund(check.policy(), now, taken.at(), taken.until(), check.units())
            {
                entry.expires_at = entry.state.expires_at(check.policy());
            }
        }
        Ok(())
    }
}

/// The shards that one group needs, locked, and for each check the shard and digest under which it is counted.
struct Held<'s> {
    shards: SmallVec<[MutexGuard<'s, Shard>; 2]>,
    places: SmallVec<[(usize, u128); 2]>,
}

impl Held<'_> {
    fn decide(&mut self, group: &[Check<'_>], now: Timestamp, mode: Mode) -> GroupOutcome {
        let mut states: SmallVec<[State; 2]> = SmallVec::new();
        let mut distinct: SmallVec<[(usize, u128, &Policy); 2]> = SmallVec::new();
        let mut members: SmallVec<[Member<'_>; 2]> = SmallVec::new();
        for (&(shard, digest), check) in self.places.iter().zip(group) {
            let policy = check.policy();
            let known = distinct.iter().position(|&(s, d, _)| (s, d) == (shard, digest));
            let state = known.unwrap_or_else(|| {
                let stored = self.shards[shard].find(digest).map(|entry| entry.state.clone());
                states.push(stored.unwrap_or_else(|| State::new(policy)));
                distinct.push((shard, digest, policy));
                distinct.len() - 1
            });
            members.push(Member { policy, cost: check.units(), state });
        }
        let outcome = decide(&members, &mut states, now, mode);
        if mode == Mode::Check {
            for ((shard, digest, policy), state) in distinct.into_iter().zip(states) {
                self.shards[shard].put(digest, policy, state, outcome.is_allowed());
            }
        }
        outcome
    }
}

/// A part of the table, under one lock.
#[derive(Debug, Default)]
struct Shard {
    table: HashTable<Entry>,
    /// Looking for expired entries earlier than this is not worth it.
    next_sweep: Timestamp,
}

#[derive(Debug)]
struct Entry {
    digest: u128,
    expires_at: Timestamp,
    state: State,
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half of a digest is a hash as good as any")]
fn hash(digest: u128) -> u64 {
    digest as u64
}

impl Shard {
    fn find(&mut self, digest: u128) -> Option<&mut Entry> {
        self.table.find_mut(hash(digest), |entry| entry.digest == digest)
    }

    /// The digest under which a caller is counted: its own when it is known or there is room, otherwise the one that
    /// all callers without room share under this policy.
    fn place(&mut self, digest: u128, policy: &Policy, now: Timestamp, max: usize) -> u128 {
        if self.table.len() < max.min(self.table.capacity()) || self.find(digest).is_some() {
            return digest;
        }
        self.sweep(now);
        if self.table.len() < max { digest } else { u128::from(policy.state_id()) }
    }

    /// Drops what has expired, at most once for every sixteenth of the entries, so that a request pays for it in
    /// constant time on average.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.table.retain(|entry| entry.expires_at > now);
        let mut expiries: Vec<Timestamp> = self.table.iter().map(|entry| entry.expires_at).collect();
        let sixteenth = expiries.len() / 16;
        self.next_sweep = if expiries.is_empty() { now } else { *expiries.select_nth_unstable(sixteenth).1 };
    }

    fn decide_one(
        &mut self,
        digest: u128,
        check: &Check<'_>,
        now: Timestamp,
        mode: Mode,
        max: usize,
    ) -> GroupOutcome {
        let policy = check.policy();
        let members = [Member { policy, cost: check.units(), state: 0 }];
        let digest = self.place(digest, policy, now, max);
        match self.find(digest) {
            Some(entry) if mode == Mode::Check => {
                let outcome = decide(&members, std::slice::from_mut(&mut entry.state), now, mode);
                entry.expires_at = entry.state.expires_at(policy);
                outcome
            }
            known => {
                let mut state = known.map_or_else(|| State::new(policy), |entry| entry.state.clone());
                let outcome = decide(&members, std::slice::from_mut(&mut state), now, mode);
                if mode == Mode::Check {
                    self.put(digest, policy, state, outcome.is_allowed());
                }
                outcome
            }
        }
    }

    /// Keeps a state; that of a caller who is new and was denied says nothing and is not kept.
    fn put(&mut self, digest: u128, policy: &Policy, state: State, allowed: bool) {
        let expires_at = state.expires_at(policy);
        match self.table.entry(hash(digest), |entry| entry.digest == digest, |entry| hash(entry.digest)) {
            Slot::Occupied(slot) => *slot.into_mut() = Entry { digest, expires_at, state },
            Slot::Vacant(slot) if allowed => {
                slot.insert(Entry { digest, expires_at, state });
            }
            Slot::Vacant(_) => {}
        }
    }

    fn remove(&mut self, digest: u128) {
        if let Ok(slot) = self.table.find_entry(hash(digest), |entry| entry.digest == digest) {
            slot.remove();
        }
    }
}
