//! The in-process store: a sharded table of states under a keyed digest.

mod shard;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use self::shard::{Digest, Shard, overflow_digest, split};
use super::Store;
use crate::algorithm::{Member, Mode, State, decide};
use crate::check::{Check, random_key};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Reservation;

/// Callers that a store holds unless told otherwise.
pub const DEFAULT_MAX_CALLERS: usize = 100_000;

/// Locks among which the callers are spread, at least where there are enough callers: more than there are threads, so that
/// two rarely meet.
const SHARDS: usize = 64;

/// Callers for which one more lock is worth having.
const CALLERS_PER_SHARD: usize = 64;

/// Counts kept in this process, bounded in number and without a background task.
///
/// * Callers are kept under a 128-bit digest with a random key, so neither their names stay in memory nor can anybody
///   choose names that collide.
/// * Callers whose state says nothing any more are dropped when room is needed; under the counter over two windows, up to
///   a twelfth of the window after that. One who still counts for something is never dropped: when the table is full of
///   them, new callers share one count per policy, which is limited like any other. So a flood of made-up callers cannot
///   wash out anybody's count.
/// * All instants come from one [monotonic clock](SystemClock).
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    digest_key: [u8; 16],
    shards: Box<[Mutex<Shard>]>,
    max_per_shard: usize,
    /// One count per policy, shared by all callers without room. Locked last.
    overflow: Mutex<Shard>,
}

impl MemoryStore {
    /// A store for up to [`DEFAULT_MAX_CALLERS`].
    pub fn new() -> Self {
        Self::with_max_callers(DEFAULT_MAX_CALLERS)
    }

    /// A store for up to about `max_callers`, at least 1, counted once for each policy they are under.
    pub fn with_max_callers(max_callers: usize) -> Self {
        // A table doubles when it is seven eighths full, so a full store wastes least when its shards are just that.
        let mut room = CALLERS_PER_SHARD / 8 * 7;
        while max_callers / room > SHARDS {
            room *= 2;
        }
        let shards = if max_callers < 2 * CALLERS_PER_SHARD { 1 } else { max_callers.div_ceil(room) };
        Self {
            clock: Arc::new(SystemClock::new()),
            digest_key: random_key(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            max_per_shard: (max_callers / shards).max(1),
            overflow: Mutex::default(),
        }
    }

    /// Reads the time from `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Callers held, counted once for each policy they are under; all that share a policy's count for want of room are
    /// one.
    pub fn len(&self) -> usize {
        self.shards.iter().chain([&self.overflow]).map(|shard| shard.lock().table.len()).sum()
    }

    /// Whether nobody is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard_of(&self, digest: Digest) -> usize {
        // The upper half of what the table does not use, multiplied instead of divided.
        #[allow(clippy::cast_possible_truncation, reason = "less than the number of shards")]
        let shard = (((digest.1 >> 32) * self.shards.len() as u64) >> 32) as usize;
        shard
    }

    fn digest(&self, check: &Check<'_>) -> Digest {
        split(check.digest(&self.digest_key))
    }

    /// Decides about one limit.
    pub(crate) fn decide_one(&self, check: &Check<'_>, mode: Mode) -> Outcome {
        let now = self.clock.now();
        let digest = self.digest(check);
        let mut shard = self.shards[self.shard_of(digest)].lock();
        if let Some(entry) = shard.find(digest) {
            return entry.decide(check, now, mode);
        }
        if shard.has_room(0, now, self.max_per_shard) {
            return shard.decide_new(digest, check, now, mode);
        }
        drop(shard);
        let (mut pool, digest) = (self.overflow(now), overflow_digest(check.policy()));
        let outcome = match pool.find(digest) {
            Some(entry) => entry.decide(check, now, mode),
            None => pool.decide_new(digest, check, now, mode),
        };
        outcome.overflowed()
    }

    pub(crate) fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        if let [check] = group {
            return GroupOutcome::of_one(self.decide_one(check, mode));
        }
        let now = self.clock.now();
        let mut held = self.hold(group, now);
        let outcome = held.decide(group, now, mode);
        outcome.overflowed(|index| held.places[index].0 == held.overflow)
    }

    /// Where the callers without room are counted, locked.
    fn overflow(&self, now: Timestamp) -> MutexGuard<'_, Shard> {
        let mut shard = self.overflow.lock();
        shard.sweep(now);
        shard
    }

    /// Locks the shards of all callers of a group, in one order for all so that two groups never wait for each other.
    fn hold(&self, group: &[Check<'_>], now: Timestamp) -> Held<'_> {
        let digests = group.iter().map(|check| self.digest(check));
        let wanted: SmallVec<[(usize, Digest); 2]> =
            digests.map(|digest| (self.shard_of(digest), digest)).collect();
        let mut order: SmallVec<[usize; 2]> = wanted.iter().map(|(shard, _)| *shard).collect();
        order.sort_unstable();
        order.dedup();
        let mut shards: SmallVec<[_; 2]> = order.iter().map(|&shard| self.shards[shard].lock()).collect();
        let mut places: SmallVec<[(usize, Digest); 2]> = SmallVec::new();
        for (&(shard, digest), check) in wanted.iter().zip(group) {
            let shard = order.binary_search(&shard).unwrap_or_else(|place| place);
            // Callers of this group who may need room, too: whoever is known now may be swept for the next one.
            let others = places.iter().filter(|&&(s, d)| s == shard && d != digest).count();
            if shards[shard].find(digest).is_some() || shards[shard].has_room(others, now, self.max_per_shard)
            {
                places.push((shard, digest));
                continue;
            }
            if shards.len() == order.len() {
                shards.push(self.overflow(now));
            }
            places.push((order.len(), overflow_digest(check.policy())));
        }
        Held { shards, places, overflow: order.len() }
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
            let digest = self.digest(check);
            self.shards[self.shard_of(digest)].lock().remove(digest);
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let now = self.clock.now();
        for taken in reservation.taken() {
            let check = taken.check();
            let digest = self.digest(&check);
            let mut shard = self.shards[self.shard_of(digest)].lock();
            if let Some(entry) = shard.find(digest) {
                entry.state.refund(check.policy(), now, taken.at(), taken.until(), check.units());
            }
        }
        Ok(())
    }
}

/// The shards that one group needs, locked, and for each check the shard and digest under which it is counted.
struct Held<'s> {
    shards: SmallVec<[MutexGuard<'s, Shard>; 2]>,
    places: SmallVec<[(usize, Digest); 2]>,
    /// Where in `shards` callers without room are counted, if there are any.
    overflow: usize,
}

impl Held<'_> {
    fn decide(&mut self, group: &[Check<'_>], now: Timestamp, mode: Mode) -> GroupOutcome {
        let mut states: SmallVec<[State; 2]> = SmallVec::new();
        // Shard, digest, and whether the state was taken out of the table.
        let mut distinct: SmallVec<[(usize, Digest, bool); 2]> = SmallVec::new();
        let mut members: SmallVec<[Member<'_>; 2]> = SmallVec::new();
        for (&(shard, digest), check) in self.places.iter().zip(group) {
            let policy = check.policy();
            let known = distinct.iter().position(|&(s, d, ..)| (s, d) == (shard, digest));
            let state = known.unwrap_or_else(|| {
                let (state, taken) = match self.shards[shard].find(digest) {
                    None => (State::new(policy), false),
                    Some(entry) if mode == Mode::Peek => (entry.state.clone(), false),
                    // Moved and not copied: a log may be long.
                    Some(entry) => (mem::replace(&mut entry.state, State::new(policy)), true),
                };
                states.push(state);
                distinct.push((shard, digest, taken));
                distinct.len() - 1
            });
            members.push(Member { policy, cost: check.units(), state });
        }
        let outcome = decide(&members, &mut states, now, mode);
        let charged = mode == Mode::Check && outcome.is_allowed();
        for ((shard, digest, taken), state) in distinct.into_iter().zip(states) {
            // Of a caller who is new, a state that was not charged says nothing.
            if taken || charged {
                self.shards[shard].put(digest, state);
            }
        }
        outcome
    }
}
