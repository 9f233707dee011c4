//! Denial cache: repeats the server's last denial of a caller until its `retry_after`, without a round trip.
//!
//! Only a [`refund`](crate::RateLimiter::refund) or a [`reset`](crate::RateLimiter::reset) can shorten a
//! wait. If this process makes it, it takes effect at once. If another process makes it, or the server loses
//! data, this process sees it at most the cache's TTL later. The cache never admits a request.
//!
//! An entry applies only to the same group (states, limits and costs), with the elapsed time taken off. The
//! denial is exact: the first of its waits is not over. Its numbers are exact as well, with these exceptions:
//!
//! * `remaining` is as old as the denial for limits that are not violated, and for limits with a cost above 1
//!   of which something remains. If nothing remains, an entry ends when one more unit would pass.
//! * The wait is longer than reported if a request under a higher `max` of the same state passes meanwhile,
//!   or, for a cost above 1, if a request of another process does. A request of this process ends such an
//!   entry.
//! * A denial because a slot is missing is not cached: any request may free a slot.
//! * A limit that was not violated may be violated by now. A block that another process began is seen when
//!   the entry ends. A block that this process began ends the entries of its caller.
//! * The server does not store expiries while no request comes. If its clock then goes back, expired units
//!   count again until their window is over. Only denials with a cost above 1 outlive an expiry.
//! * Reported waits count from the arrival of the reply, so they are longer by the time of its way back, and
//!   never shorter.
//!
//! Times are differences between instants of one monotonic clock of this process. An entry counts the wait
//! from before the request was sent, and so from before the server decided: it ends no later than the wait
//! does at the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::check::{Check, group_digest, random_key};
use crate::clock::{Clock, Timestamp};
use crate::outcome::{Decision, GroupOutcome};
use crate::process::OfProcess;

/// Number of locks over which the entries are spread.
const SHARDS: usize = 16;

/// Maximum number of entries under one lock. Further denials are not cached.
const MAX_PER_SHARD: usize = 1_000;

/// Number of buckets of callers, each with change counters of its own.
const CHANGE_BUCKETS: usize = 1024;

/// Denials of the server, by the state that was violated.
#[derive(Debug)]
pub(super) struct DenialCache {
    clock: Arc<dyn Clock>,
    /// Longest life of an entry; zero disables the cache.
    ttl: Duration,
    /// Key of the digests.
    pub(super) key: [u8; 16],
    shards: Box<[Mutex<DenialShard>]>,
    /// Whether there ever was an entry; until then lookups end at once.
    any: AtomicBool,
    /// Change counters of each bucket of callers. To find a bucket takes no digest.
    changes: Box<[ChangeCounters]>,
}

/// Number of changes that this process made to states of a bucket.
#[derive(Debug, Default)]
struct ChangeCounters {
    /// Resets, refunds and blocks.
    freed: AtomicU64,
    /// Charges.
    charged: AtomicU64,
}

/// Entries under one lock.
#[derive(Debug, Default)]
struct DenialShard {
    table: HashTable<Denial>,
    /// No entry expires before this instant.
    next_sweep: Timestamp,
}

/// A check that is about to be sent to the server.
#[derive(Debug)]
pub(super) struct Lookup {
    sent_at: Timestamp,
    /// For each check of the group, the changes of its bucket until then.
    changes: SmallVec<[u64; 2]>,
}

#[derive(Debug)]
struct Denial {
    /// Digest of the violated state, the first of several.
    state: u128,
    /// Digest of the whole group, with its limits and costs.
    group: u128,
    received_at: Timestamp,
    until: Timestamp,
    /// For each check of the group, the changes of its bucket before it was sent.
    changes: SmallVec<[u64; 2]>,
    outcome: GroupOutcome,
}

/// Whether each state of the group is charged one unit. Then nothing remains of a violated limit.
fn has_single_units(group: &[Check<'_>]) -> bool {
    let (mut rest, at) = (group, Timestamp::default());
    while let [check, others @ ..] = rest {
        if check.cost() != 1 || others.iter().any(|other| other.shares_count_with(at, (check, at))) {
            return false;
        }
        rest = others;
    }
    true
}

/// The table's hash: the lower half of a digest.
#[allow(clippy::cast_possible_truncation, reason = "the lower half of a digest is a hash as good as any")]
fn hash(digest: u128) -> u64 {
    digest as u64
}

impl DenialCache {
    pub(super) fn new(clock: Arc<dyn Clock>, ttl: Duration) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let changes = (0..CHANGE_BUCKETS).map(|_| ChangeCounters::default()).collect();
        Self { clock, ttl, key: random_key(), shards, any: AtomicBool::new(false), changes }
    }

    /// Number of entries, with those that have expired.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().table.len()).sum()
    }

    /// Now, by the clock of this process.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn lock_shard(&self, state: u128) -> MutexGuard<'_, DenialShard> {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (state >> 96) as usize;
        self.shards[bits % SHARDS].lock()
    }

    /// For each check of the group, the changes of its bucket that matter to a denial of the group. Callers
    /// that share a bucket end each other's entries, which costs a round trip.
    fn changes<'a>(&'a self, group: &'a [Check<'_>]) -> impl Iterator<Item = u64> + 'a {
        let single = has_single_units(group);
        group.iter().map(move |check| {
            let counters = &self.changes[change_bucket(check)];
            let charged = if single { 0 } else { counters.charged.load(Ordering::Acquire) };
            counters.freed.load(Ordering::Acquire) + charged
        })
    }

    /// Records what a decision of this process changed: a charge ends denials of larger costs, and a block
    /// ends all denials of its caller. With a lookup, caches a denial whose waits show no new block.
    pub(super) fn record(&self, group: &[Check<'_>], outcome: &GroupOutcome, lookup: Option<Lookup>) {
        if outcome.is_allowed() {
            for check in group.iter().filter(|check| check.cost() > 0) {
                self.changes[change_bucket(check)].charged.fetch_add(1, Ordering::Release);
            }
        }
        // A shadow limit may begin a block although the group is admitted.
        if begins_block(group, outcome) {
            // Other entries of these callers report waits that are too short.
            for check in group {
                self.changes[change_bucket(check)].freed.fetch_add(1, Ordering::Release);
            }
        } else if let Some(lookup) = lookup {
            self.insert(group, lookup, outcome);
        }
    }

    /// The denial of this group as seen now, if there is one whose wait is not over.
    pub(super) fn get(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.clock.now();
        let mut digest_of_group = None;
        group.iter().find_map(|check| {
            let state = check.digest_in_window(&self.key);
            let mut shard = self.lock_shard(state);
            let known = shard.table.find_entry(hash(state), |denial| denial.state == state).ok()?;
            let denial = known.get();
            // The entry may be newer than `now`, which costs a round trip; or a test's clock went back.
            if now < denial.received_at || denial.until <= now {
                known.remove();
                return None;
            }
            let digest = *digest_of_group.get_or_insert_with(|| group_digest(group, &self.key));
            if denial.group != digest {
                return None;
            }
            if !self.changes(group).eq(denial.changes.iter().copied()) {
                known.remove();
                return None;
            }
            Some(denial.outcome.clone().aged(denial.received_at, now))
        })
    }

    /// Notes the instant and the changes before a check is sent, so that its denial can be cached. `None` if
    /// the cache is disabled.
    pub(super) fn begin_lookup(&self, group: &[Check<'_>]) -> Option<Lookup> {
        let lookup = || Lookup { sent_at: self.clock.now(), changes: self.changes(group).collect() };
        (!self.ttl.is_zero()).then(lookup)
    }

    /// Caches the outcome, if it is a denial.
    fn insert(&self, group: &[Check<'_>], lookup: Lookup, outcome: &GroupOutcome) {
        let violated = || group.iter().zip(outcome.outcomes()).filter(|(_, outcome)| !outcome.is_allowed());
        let Some((check, _)) = violated().next() else { return };
        if violated().any(|(_, outcome)| !matches!(outcome.decision(), Decision::Denied { .. })) {
            return;
        }
        let state = check.digest_in_window(&self.key);
        // A cost above the limit has no wait; where nothing remains, the outcome changes with the next unit.
        let waits = violated().flat_map(|(_, outcome)| [outcome.retry_after(), outcome.next_unit_after()]);
        let wait = waits.flatten().fold(self.ttl, Duration::min);
        let (now, until) = (self.clock.now(), lookup.sent_at.saturating_add(wait));
        if until <= now {
            return;
        }
        let digest = group_digest(group, &self.key);
        let mut shard = self.lock_shard(state);
        // A change since then may be the cause of the denial.
        if !self.changes(group).eq(lookup.changes.iter().copied()) {
            return;
        }
        let (changes, outcome) = (lookup.changes, outcome.clone());
        let denial = Denial { state, group: digest, received_at: now, until, changes, outcome };
        if let Some(known) = shard.table.find_mut(hash(state), |known| known.state == state) {
            *known = denial;
        } else if shard.has_room(now) {
            shard.next_sweep = shard.next_sweep.min(until);
            shard.table.insert_unique(hash(state), denial, |denial| hash(denial.state));
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// A guard that ends the entries of these states when it is dropped, for a command that is about to
    /// change them.
    pub(super) fn invalidate_on_drop(self: &Arc<Self>, checks: &[Check<'_>]) -> OfProcess<InvalidateOnDrop> {
        let states = checks.iter().map(|check| (check.digest_in_window(&self.key), change_bucket(check)));
        self.invalidate_states_on_drop(states.collect())
    }

    /// The same for states whose digests and buckets are known.
    pub(super) fn invalidate_states_on_drop(
        self: &Arc<Self>,
        states: SmallVec<[(u128, usize); 2]>,
    ) -> OfProcess<InvalidateOnDrop> {
        OfProcess::new(InvalidateOnDrop { denials: Arc::clone(self), states })
    }
}

/// Whether the waits of an outcome show that it began a block.
fn begins_block(group: &[Check<'_>], outcome: &GroupOutcome) -> bool {
    let mut limits = group.iter().zip(outcome.outcomes());
    limits.any(|(check, outcome)| {
        check.policy().block().is_some_and(|block| outcome.next_unit_after() == Some(block))
    })
}

/// The bucket of a caller: by the length and the last bytes of the partition.
pub(super) fn change_bucket(check: &Check<'_>) -> usize {
    let last = check.partition().iter().rev().take(2);
    last.fold(check.partition().len(), |bucket, byte| bucket * 31 + usize::from(*byte)) % CHANGE_BUCKETS
}

impl DenialShard {
    /// Whether there is room for one more entry; makes room first if entries may have expired.
    fn has_room(&mut self, now: Timestamp) -> bool {
        if self.table.len() < MAX_PER_SHARD {
            return true;
        }
        if now < self.next_sweep {
            return false;
        }
        self.table.retain(|denial| now < denial.until);
        self.next_sweep = self.table.iter().map(|denial| denial.until).min().unwrap_or(now);
        self.table.len() < MAX_PER_SHARD
    }
}

/// Ends the entries of some states when it is dropped. It travels with the command that changes the states,
/// and is dropped at its end.
pub(super) struct InvalidateOnDrop {
    denials: Arc<DenialCache>,
    /// Digest and bucket of each state.
    states: SmallVec<[(u128, usize); 2]>,
}

impl Drop for InvalidateOnDrop {
    fn drop(&mut self) {
        for &(state, bucket) in &self.states {
            let mut shard = self.denials.lock_shard(state);
            self.denials.changes[bucket].freed.fetch_add(1, Ordering::Release);
            if let Ok(known) = shard.table.find_entry(hash(state), |denial| denial.state == state) {
                known.remove();
            }
        }
    }
}
