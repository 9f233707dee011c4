//! The in-process store: a sharded table of states under a keyed digest.

use std::mem;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{Check, Reservation, Store, random_key};
use crate::algorithm::{Member, Mode, State, decide, decide_one};
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;

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
        outcome.pooled()
    }

    pub(crate) fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        if let [check] = group {
            return GroupOutcome::of_one(self.decide_one(check, mode));
        }
        let now = self.clock.now();
        let mut held = self.hold(group, now);
        let outcome = held.decide(group, now, mode);
        outcome.pooled(|place| held.places[place].0 == held.pool)
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
        Held { shards, places, pool: order.len() }
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
    pool: usize,
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

/// A part of the table, under one lock.
#[derive(Debug, Default)]
struct Shard {
    table: HashTable<Entry>,
    /// Looking for expired entries earlier than this is not worth it.
    next_sweep: Timestamp,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    state: State,
}

impl Entry {
    #[inline]
    fn decide(&mut self, check: &Check<'_>, now: Timestamp, mode: Mode) -> Outcome {
        match mode {
            Mode::Check => decide_one(check.policy(), check.units(), &mut self.state, now, mode),
            Mode::Peek => decide_one(check.policy(), check.units(), &mut self.state.clone(), now, mode),
        }
    }
}

const _: () = assert!(size_of::<Entry>() == 32, "with a byte of the table's own, all that a caller costs");

/// In two halves, since 128 bits in one would be aligned to more than the rest of an entry.
type Digest = (u64, u64);

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
fn split(digest: u128) -> Digest {
    (digest as u64, (digest >> 64) as u64)
}

/// Stands for all callers without room under a policy.
fn overflow_digest(policy: &Policy) -> Digest {
    (policy.state_id(), 0)
}

/// Half of a digest is a hash as good as any.
fn hash(digest: Digest) -> u64 {
    digest.0
}

impl Shard {
    fn find(&mut self, digest: Digest) -> Option<&mut Entry> {
        self.table.find_mut(hash(digest), |entry| entry.digest == digest)
    }

    /// Whether a caller who is not known may be let in together with `others`. Makes room first, if need be.
    fn has_room(&mut self, others: usize, now: Timestamp, max: usize) -> bool {
        if self.table.len() + others < max.min(self.table.capacity()) {
            return true;
        }
        self.sweep(now);
        self.table.len() + others < max
    }

    /// Drops what has expired, at most once for every sixteenth of the entries, so that a request pays for it in
    /// constant time on average.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.table.retain(|entry| entry.state.expires_at() > now);
        let mut expiries: Vec<Timestamp> = self.table.iter().map(|entry| entry.state.expires_at()).collect();
        let sixteenth = expiries.len() / 16;
        self.next_sweep = if expiries.is_empty() { now } else { *expiries.select_nth_unstable(sixteenth).1 };
    }

    /// Decides about a caller who is not known, and keeps what is charged.
    fn decide_new(&mut self, digest: Digest, check: &Check<'_>, now: Timestamp, mode: Mode) -> Outcome {
        let mut state = State::new(check.policy());
        let outcome = decide_one(check.policy(), check.units(), &mut state, now, mode);
        if mode == Mode::Check && outcome.is_allowed() {
            self.table.insert_unique(hash(digest), Entry { digest, state }, |entry| hash(entry.digest));
        }
        outcome
    }

    /// Keeps a state.
    fn put(&mut self, digest: Digest, state: State) {
        match self.table.entry(hash(digest), |entry| entry.digest == digest, |entry| hash(entry.digest)) {
            Slot::Occupied(slot) => slot.into_mut().state = state,
            Slot::Vacant(slot) => {
                slot.insert(Entry { digest, state });
            }
        }
    }

    fn remove(&mut self, digest: Digest) {
        if let Ok(slot) = self.table.find_entry(hash(digest), |entry| entry.digest == digest) {
            slot.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::Algorithm;
    use crate::clock::FakeClock;

    const MINUTE: Duration = Duration::from_secs(60);

    fn policy(key: &'static str, algorithm: Algorithm) -> Policy {
        Policy::builder(key).algorithm(algorithm).max(3).window(MINUTE).build()
    }

    fn store(max_callers: usize) -> (MemoryStore, FakeClock) {
        let clock = FakeClock::at(Timestamp::from_micros(1_789_948_800_000_000));
        (MemoryStore::with_max_callers(max_callers).with_clock(clock.clone()), clock)
    }

    fn check_n(store: &MemoryStore, policy: &Policy, caller: &str, cost: u64) -> Outcome {
        store.decide(&[Check::new(policy, caller).cost(cost)], Mode::Check).outcomes()[0].clone()
    }

    fn passes(store: &MemoryStore, policy: &Policy, caller: &str) -> bool {
        check_n(store, policy, caller, 1).is_allowed()
    }

    /// Lets so many new callers come; returns how many passed.
    fn flood(store: &MemoryStore, policy: &Policy, callers: usize) -> usize {
        (0..callers).filter(|i| passes(store, policy, &format!("flood-{i}"))).count()
    }

    #[test]
    fn a_table_holds_no_more_than_its_bound_and_one_for_each_policy() {
        let (one, two) =
            (policy("one", Algorithm::SlidingWindowCounter), policy("two", Algorithm::TokenBucket));
        for max in [0, 1, 2, 15, 63, 64, 127, 128, 129, 200, 1_000, 5_000] {
            let (store, _) = store(max);
            for i in 0..3 * max + 200 {
                let _ = passes(&store, [&one, &two][i % 2], &format!("{i}"));
            }
            assert!(store.len() <= max.max(1) + 2, "{} for {max}", store.len());
        }
    }

    #[test]
    fn groups_keep_to_the_bound_as_well() {
        let (one, two) = (policy("one", Algorithm::FixedWindow), policy("two", Algorithm::SlidingWindowLog));
        for max in [1, 5, 63, 128, 1_000] {
            let (store, _) = store(max);
            for i in 0..max + 50 {
                let callers: Vec<String> = (0..16).map(|j| format!("{i}/{j}")).collect();
                let group: Vec<Check<'_>> = callers
                    .iter()
                    .enumerate()
                    .map(|(j, caller)| Check::new([&one, &two][j % 2], caller).cost(0))
                    .collect();
                let _ = store.decide(&group, Mode::Check);
                assert!(store.len() <= max + 2, "{} for {max}", store.len());
            }
        }
    }

    #[test]
    fn what_has_expired_makes_room() {
        let policy = policy("k", Algorithm::SlidingWindowLog);
        for max in [1, 10, 63, 640] {
            let (store, clock) = store(max);
            for round in 0..5 {
                for i in 0..=(max / 2) {
                    let caller = format!("{round}/{i}");
                    assert_eq!(
                        check_n(&store, &policy, &caller, 3).remaining(),
                        0,
                        "{caller} has its own count"
                    );
                }
                clock.advance(MINUTE + Duration::from_micros(1));
            }
            assert!(store.len() <= max);
        }
    }

    #[test]
    fn nobody_who_still_counts_is_dropped_by_a_flood() {
        for algorithm in [
            Algorithm::FixedWindow,
            Algorithm::SlidingWindowCounter,
            Algorithm::SlidingWindowLog,
            Algorithm::TokenBucket,
        ] {
            let policy = policy("k", algorithm);
            let (store, clock) = store(1_000);
            assert_eq!(check_n(&store, &policy, "active", 1).remaining(), 2);
            assert_eq!(check_n(&store, &policy, "used up", 3).remaining(), 0);
            let denied = check_n(&store, &policy, "used up", 1);
            flood(&store, &policy, 10_000);
            assert_eq!(check_n(&store, &policy, "used up", 1), denied, "{algorithm}");
            assert_eq!(check_n(&store, &policy, "active", 0).remaining(), 2, "{algorithm}");
            // While it is denied, a later flood does not free it either.
            let wait = denied.retry_after().unwrap();
            clock.advance(wait.saturating_sub(Duration::from_micros(1)));
            flood(&store, &policy, 10_000);
            assert!(!passes(&store, &policy, "used up"), "{algorithm}");
            clock.advance(Duration::from_micros(1));
            assert!(passes(&store, &policy, "used up"), "{algorithm}");
        }
    }

    #[test]
    fn callers_without_room_share_one_count_that_is_limited() {
        let (policy, other) = (policy("k", Algorithm::FixedWindow), policy("other", Algorithm::FixedWindow));
        for max in [1, 63, 128, 5_000] {
            let (store, clock) = store(max);
            // Until every shard is full; from then on nobody new finds room.
            flood(&store, &policy, 20 * max);
            let held = store.len();
            assert!(held <= max + 1);
            let late = |i: usize| format!("late-{i}");
            assert_eq!((0..1_000).filter(|&i| passes(&store, &policy, &late(i))).count(), 0, "all denied");
            assert_eq!((0..1_000).filter(|&i| passes(&store, &other, &late(i))).count(), 3, "its own count");
            let callers: Vec<String> = (0..4).map(late).collect();
            let group: Vec<Check<'_>> =
                callers.iter().map(|caller| Check::new(&other, caller).cost(0)).collect();
            let outcome = store.decide(&group, Mode::Peek);
            assert!(outcome.outcomes().iter().all(|outcome| outcome.remaining() == 0), "also in a group");
            assert_eq!(store.len(), held + 1);
            clock.advance(MINUTE);
            assert!(passes(&store, &policy, "flood-0"), "it ends with the window");
        }
    }

    #[test]
    fn a_group_of_callers_without_room_is_charged_once_each() {
        let policy = policy("k", Algorithm::FixedWindow);
        let (store, _) = store(1);
        assert!(passes(&store, &policy, "first"));
        let group = ["second", "third"].map(|caller| Check::new(&policy, caller));
        assert!(store.decide(&group, Mode::Check).is_allowed());
        assert_eq!(check_n(&store, &policy, "fourth", 0).remaining(), 1, "two of three are taken");
        assert!(!store.decide(&group, Mode::Check).is_allowed());
        assert_eq!(check_n(&store, &policy, "first", 0).remaining(), 2, "who has room is apart");
    }

    #[test]
    fn who_is_denied_at_once_or_only_looks_takes_no_room() {
        let policy = policy("k", Algorithm::SlidingWindowCounter);
        let (store, _) = store(100);
        assert!(!check_n(&store, &policy, "greedy", 4).is_allowed());
        let _ = store.decide(&[Check::new(&policy, "curious")], Mode::Peek);
        let group = [Check::new(&policy, "greedy").cost(4), Check::new(&policy, "companion")];
        assert!(!store.decide(&group, Mode::Check).is_allowed());
        assert!(store.is_empty());
    }

    #[test]
    fn sweeping_costs_constant_time_on_average() {
        let policy = policy("k", Algorithm::SlidingWindowLog);
        let (store, clock) = store(63);
        assert_eq!(store.shards.len(), 1);
        let mut sweeps = 0;
        // Three windows in which somebody new comes 20,000 times.
        for i in 0..60_000 {
            let before = store.shards[0].lock().next_sweep;
            let _ = passes(&store, &policy, &format!("{i}"));
            sweeps += u32::from(store.shards[0].lock().next_sweep != before);
            clock.advance(MINUTE / 20_000);
        }
        // A sweep goes through all entries, and frees at least a sixteenth of them: some while the table grows, then
        // about sixteen for each time that it turns over.
        assert!((10..=80).contains(&sweeps), "{sweeps} sweeps");
    }

    #[test]
    fn reset_and_refund_of_callers_without_room_change_nobody_elses_count() {
        let policy = policy("k", Algorithm::FixedWindow);
        let (store, _) = store(1);
        assert!(passes(&store, &policy, "first"));
        let group = [Check::new(&policy, "second")];
        let reservation = store.decide(&group, Mode::Check).reservation(&group).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            store.refund(&reservation).await.unwrap();
            store.reset(&group).await.unwrap();
        });
        assert_eq!(check_n(&store, &policy, "third", 0).remaining(), 2, "the shared count stays");
        assert_eq!(check_n(&store, &policy, "first", 0).remaining(), 2);
    }

    #[test]
    fn what_was_counted_with_others_is_not_given_back_to_a_count_of_ones_own() {
        let policy = policy("k", Algorithm::SlidingWindowLog);
        let (store, clock) = store(1);
        assert!(passes(&store, &policy, "first"));
        clock.advance(MINUTE / 2);
        let group = [Check::new(&policy, "second")];
        let pooled = store.decide(&group, Mode::Check).reservation(&group).unwrap();
        // Now there is room.
        clock.advance(MINUTE / 2 + Duration::from_micros(1));
        let own = store.decide(&group, Mode::Check);
        assert_eq!(own.outcomes()[0].remaining(), 2);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Store::refund(&store, &pooled)).unwrap();
        assert_eq!(check_n(&store, &policy, "second", 0).remaining(), 2);
        runtime.block_on(Store::refund(&store, &own.reservation(&group).unwrap())).unwrap();
        assert_eq!(check_n(&store, &policy, "second", 0).remaining(), 3);
    }
}
