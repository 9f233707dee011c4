//! The in-process store: a sharded table of states by keyed digests.

mod shard;
#[cfg(test)]
mod tests;
mod windows;

use std::any::Any;
use std::fmt;
use std::mem;
use std::slice;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use self::shard::{Digest, Shard, overflow_digest, split};
use super::{Deadline, Store};
use crate::algorithm::{Operation, State, StatePlaces, judge_at};
use crate::check::{Check, random_key};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::reservation::Reservation;
use crate::slots::Slots;

/// Default number of callers that a [`MemoryStore`] stores.
pub const DEFAULT_MAX_CALLERS: usize = 100_000;

/// Number of locks over which a large store spreads its callers: more than threads, so that two threads
/// rarely share one.
const SHARDS: usize = 64;

/// Number of callers for which one more lock pays.
const CALLERS_PER_SHARD: usize = 64;

/// Counts kept in this process, bounded in number and without a background task.
///
/// * A caller is stored as a 128-bit digest with a random key. Partitions do not stay in memory, and a client
///   cannot choose partitions that collide.
/// * A state takes 33 bytes with its digest; logs and counters with several sub-windows take a heap
///   allocation more.
/// * Expired states are dropped when room is needed; under a counter over two windows, up to a twelfth of the
///   window later. A state that still counts is never dropped, nor slots that are held. When the table is
///   full of such states, new callers share one overflow count per policy, which is limited like any other.
///   So a flood of made-up callers cannot free a denied one.
/// * All instants come from one [clock](SystemClock). Calendar windows begin by the [wall
///   clock](Clock::on_wall_clock) as it is set. If that goes back, a full table may forget a calendar's count
///   by as much too early.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    /// Whether the time is that of a [`SystemClock`], as outside of tests.
    pub(crate) has_system_clock: bool,
    digest_key: [u8; 16],
    /// Behind the others, and locked last, the overflow counts: one per policy, shared by all callers for
    /// which there is no room.
    shards: Arc<[Mutex<Shard>]>,
    max_per_shard: usize,
}

impl MemoryStore {
    /// Creates a store for up to [`DEFAULT_MAX_CALLERS`] callers.
    pub fn new() -> Self {
        Self::with_max_callers(DEFAULT_MAX_CALLERS)
    }

    /// Creates a store for up to about `max_callers` callers, at least 1. A caller counts once for each of
    /// its policies; where requests choose the anchor of a calendar, once for each of two windows.
    pub fn with_max_callers(max_callers: usize) -> Self {
        // A table doubles when it is seven eighths full, so this size of shards wastes least when the store
        // is full.
        let mut room = CALLERS_PER_SHARD / 8 * 7;
        while max_callers / room > SHARDS {
            room *= 2;
        }
        let shards = if max_callers < 2 * CALLERS_PER_SHARD { 1 } else { max_callers.div_ceil(room) };
        Self {
            clock: Arc::new(SystemClock::new()),
            has_system_clock: true,
            digest_key: random_key(),
            shards: (0..=shards).map(|_| Mutex::default()).collect(),
            max_per_shard: (max_callers / shards).max(1),
        }
    }

    /// Reads the time from `clock` instead of the system.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.has_system_clock = (&clock as &dyn Any).is::<SystemClock>();
        self.clock = Arc::new(clock);
        self
    }

    /// Clock of the decisions.
    pub(crate) const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Number of callers stored, each counted once for each of its policies. All callers of an overflow count
    /// are one.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().table.len()).sum()
    }

    /// Whether no caller is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the overflow counts.
    fn overflow(&self) -> usize {
        self.shards.len() - 1
    }

    fn shard_of(&self, digest: Digest) -> usize {
        // The upper half of the bits that the table does not use; multiplied, because a division is slower.
        #[allow(clippy::cast_possible_truncation, reason = "less than the number of shards")]
        let shard = (((digest.1 >> 32) * self.overflow() as u64) >> 32) as usize;
        shard
    }

    fn digest(&self, check: &Check<'_>, at: Timestamp) -> Digest {
        split(check.digest(&self.digest_key, at))
    }

    /// Judges one limit without the work that a group takes. Takes no slots, because the outcome of
    /// one limit does not hold them.
    pub(crate) fn judge_one(&self, check: &Check<'_>, operation: Operation) -> Outcome {
        if check.policy().calendar().is_some() {
            return self.judge_group(slice::from_ref(check), operation).outcomes()[0].clone();
        }
        let now = self.clock.now();
        let digest = self.digest(check, now);
        let mut shard = self.shards[self.shard_of(digest)].lock();
        let mut outcome = if let Some(entry) = shard.find(digest) {
            entry.judge(check, now, operation)
        } else if shard.has_room(0, now, self.max_per_shard) {
            shard.judge_new(digest, check, now, operation)
        } else {
            drop(shard);
            self.judge_in_overflow(check, now, operation)
        };
        outcome.is_by_system_clock = self.has_system_clock;
        outcome
    }

    /// Judges one limit by the overflow count of its policy.
    #[cold]
    fn judge_in_overflow(&self, check: &Check<'_>, now: Timestamp, operation: Operation) -> Outcome {
        let (mut overflow, digest) = (self.lock_overflow(now), overflow_digest(check, now));
        let mut outcome = match overflow.find(digest) {
            Some(entry) => entry.judge(check, now, operation),
            None => overflow.judge_new(digest, check, now, operation),
        };
        outcome.is_overflowed = true;
        outcome
    }

    /// Judges a group.
    pub(crate) fn judge_group(&self, group: &[Check<'_>], operation: Operation) -> GroupOutcome {
        if operation.takes_whole_cost()
            && let [check] = group
            && !check.policy().is_concurrency()
            && check.policy().calendar().is_none()
        {
            return GroupOutcome::from(self.judge_one(check, operation));
        }
        let now = self.clock.now();
        if group.iter().all(|check| check.policy().calendar().is_none()) {
            return self.judge_at(now, group, operation);
        }
        windows::judge(&*self.clock, now, group, |group| self.judge_at(now, group, operation))
    }

    /// The same by the store's clock alone.
    fn judge_at(&self, now: Timestamp, group: &[Check<'_>], operation: Operation) -> GroupOutcome {
        let (mut locked, places) = self.lock_shards(group, now);
        let outcome = judge_at(group, places.iter().copied(), now, operation, &mut locked);
        let shard_of = |index: usize| locked.order[places[index].0];
        let is_overflowed = |index| shard_of(index) == self.overflow();
        let mut outcome = outcome.made_in_memory(self.has_system_clock, is_overflowed);
        if !operation.charges() || !outcome.is_allowed() {
            return outcome;
        }
        let held = self.hold(group, &outcome, |index| (shard_of(index), places[index].1));
        outcome.add_slots(held);
        outcome
    }

    /// The slots that an admitted group took. `place` returns the shard and the digest of a check.
    #[inline]
    fn hold(
        &self,
        group: &[Check<'_>],
        outcome: &GroupOutcome,
        place: impl Fn(usize) -> (usize, Digest),
    ) -> Slots {
        let taken = outcome.slots_taken(group).into_iter();
        let held = taken.map(|(index, slots)| {
            let (shards, (shard, digest)) = (Arc::clone(&self.shards), place(index));
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

    /// Drops the state of each check, but not slots that are held.
    pub(crate) fn reset_group(&self, group: &[Check<'_>]) {
        let wall_clock = self.clock.on_wall_clock(self.clock.now());
        for check in group {
            let digest = self.digest(check, wall_clock);
            self.shards[self.shard_of(digest)].lock().remove(digest);
        }
    }

    /// Refunds the charges of a reservation, as far as they still count.
    pub(crate) fn refund_all(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let (now, mut result) = (self.clock.now(), Ok(()));
        for charge in reservation.charges() {
            let digest = self.digest(&charge.check(), charge.at());
            let mut shard = self.shards[self.shard_of(digest)].lock();
            if let Some(entry) = shard.find(digest) {
                let charge = windows::of_charge(&*self.clock, now, charge);
                if entry.state.keeps(&charge, now) {
                    result = Err(StoreError::TurnsNotDue);
                } else {
                    entry.state.refund_charge(&charge, now);
                }
            }
        }
        result
    }

    /// Locks the overflow counts, and drops those that have expired.
    fn lock_overflow(&self, now: Timestamp) -> MutexGuard<'_, Shard> {
        let mut shard = self.shards[self.overflow()].lock();
        shard.sweep(now);
        shard
    }

    /// Locks the shards of all callers of a group, always in the same order, so that two groups never
    /// deadlock. Returns them with the place of each check.
    fn lock_shards(&self, group: &[Check<'_>], now: Timestamp) -> (LockedGroup<'_>, Places) {
        let digests = group.iter().map(|check| self.digest(check, now));
        let wanted: SmallVec<[(usize, Digest); 2]> =
            digests.map(|digest| (self.shard_of(digest), digest)).collect();
        let mut order: SmallVec<[usize; 2]> = wanted.iter().map(|(shard, _)| *shard).collect();
        order.sort_unstable();
        order.dedup();
        let mut shards: SmallVec<[_; 2]> = order.iter().map(|&shard| self.shards[shard].lock()).collect();
        let mut places = Places::new();
        for (&(shard, digest), check) in wanted.iter().zip(group) {
            let shard = order.binary_search(&shard).unwrap_or_else(|index| index);
            // Other callers of this group may need room, too: the sweep for the next may drop a known one.
            let others = places.iter().filter(|&&(s, d)| s == shard && d != digest).count();
            if shards[shard].find(digest).is_some() || shards[shard].has_room(others, now, self.max_per_shard)
            {
                places.push((shard, digest));
                continue;
            }
            if order.last() != Some(&self.overflow()) {
                order.push(self.overflow());
                shards.push(self.lock_overflow(now));
            }
            places.push((order.len() - 1, overflow_digest(check, now)));
        }
        (LockedGroup { shards, order }, places)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the table, which is large, and without the key, by which callers could be found from their
        // digests.
        f.debug_struct("MemoryStore").field("max_per_shard", &self.max_per_shard).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        Ok(self.judge_group(group, operation))
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        self.reset_group(group);
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        self.refund_all(reservation)
    }

    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        Some(self.judge_group(group, operation))
    }

    fn status(&self) -> super::StoreStatus {
        super::StoreStatus { callers: Some(self.len()), ..super::StoreStatus::new() }
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

/// For each check of a group the index of its locked shard, and the digest of its state.
type Places = SmallVec<[(usize, Digest); 2]>;

/// The locked shards of one group.
struct LockedGroup<'s> {
    shards: SmallVec<[MutexGuard<'s, Shard>; 2]>,
    /// Index of each in the store. The last is that of the overflow counts, if the group needs them.
    order: SmallVec<[usize; 2]>,
}

impl StatePlaces for LockedGroup<'_> {
    type Place = (usize, Digest);

    fn load(&mut self, (shard, digest): Self::Place, policy: &Policy, operation: Operation) -> Option<State> {
        let entry = self.shards[shard].find(digest)?;
        Some(match operation {
            Operation::Peek => entry.state.clone(),
            // The entry stays, so that its place in the table is found again.
            _ => mem::replace(&mut entry.state, State::new(policy)),
        })
    }

    fn store(&mut self, (shard, digest): Self::Place, state: State) {
        self.shards[shard].put(digest, state);
    }
}
