//! Denial cache: repeats the server's last denial of a caller until its `retry_after`, without a round trip.
//!
//! Only a [`refund`](crate::RateLimiter::refund) or a [`reset`](crate::RateLimiter::reset) can shorten a wait. Those by this
//! process take effect at once. Those by other processes, and lost data on the server, are seen at most the longest life of a
//! denial later. The cache never admits a request.
//!
//! Only the very same question (counts, limits and costs) gets the same answer, with the time that has passed taken off. The
//! denial is exact: the first of its waits is not over. What it says is exact as well, with these exceptions:
//!
//! * What is left is as old as the denial for the limits that are not violated, and where a count is asked for more than one
//!   unit and something is left. Where nothing is left, a denial ends when one more unit would pass.
//! * The wait turns out longer when a request under a higher `max` of the same count passes meanwhile, or, where a count is
//!   asked for more than one unit, a request of another process. Requests of this process end such a denial.
//! * The server does not note what expires while it is not asked. If its clock then steps back, that counts again until its
//!   window is over. Only denials of more than one unit outlive an expiry.
//! * Waits are counted from the arrival of the answer, so they are longer by the way back, and never shorter.
//!
//! Times are the difference between two readings of one monotonic clock of this process. A wait began when the server
//! decided, which was after the question was asked and before the answer came: so it is over here no later than there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::check::{Check, group_digest, random_key};
use crate::clock::{Clock, Timestamp};
use crate::outcome::GroupOutcome;

/// Locks among which the refusals are spread.
const SHARDS: usize = 16;

/// Most refusals under one lock; when there are more, the rest is asked of the server, as everybody is.
const MAX_PER_SHARD: usize = 1_000;

/// Parts of the counts, by their callers, each with counters of its own.
const PARTS: usize = 1024;

/// The refusals that this process knows of.
#[derive(Debug)]
pub(super) struct Refusals {
    clock: Arc<dyn Clock>,
    /// Longest life of a refusal; zero turns them off.
    longest: Duration,
    key: [u8; 16],
    shards: Box<[Mutex<Shard>]>,
    /// Whether there was ever one: until then nothing is looked for.
    any: AtomicBool,
    /// For parts of the counts that are told apart without a digest.
    changes: Box<[Changes]>,
}

/// How often this process changed counts of a part.
#[derive(Debug, Default)]
struct Changes {
    /// By resetting them or giving back.
    forgotten: AtomicU64,
    /// By charging them.
    charged: AtomicU64,
}

/// Those under one lock.
#[derive(Debug, Default)]
struct Shard {
    table: HashTable<Refusal>,
    /// Earlier than this none of them is over.
    next_sweep: Timestamp,
}

/// When a question was asked.
#[derive(Debug)]
pub(super) struct Asked {
    at: Timestamp,
    /// For each count of the group, how often its part had changed.
    changes: SmallVec<[u64; 2]>,
}

#[derive(Debug)]
struct Refusal {
    /// The count that was violated, the first of several.
    count: u128,
    /// The whole question, costs and all.
    question: u128,
    /// When the answer came.
    came: Timestamp,
    until: Timestamp,
    /// For each count of the group, how often its part had changed when the question was asked.
    changes: SmallVec<[u64; 2]>,
    answer: GroupOutcome,
}

/// Whether each count is asked for one unit. Then nothing is left where it is denied.
fn asks_single_units(group: &[Check<'_>]) -> bool {
    let mut rest = group;
    while let [check, others @ ..] = rest {
        if check.units() != 1 || others.iter().any(|other| other.shares_count_with(check)) {
            return false;
        }
        rest = others;
    }
    true
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half of a digest is a hash as good as any")]
fn hash(digest: u128) -> u64 {
    digest as u64
}

impl Refusals {
    pub(super) fn new(clock: Arc<dyn Clock>, longest: Duration) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let changes = (0..PARTS).map(|_| Changes::default()).collect();
        Self { clock, longest, key: random_key(), shards, any: AtomicBool::new(false), changes }
    }

    fn shard(&self, count: u128) -> MutexGuard<'_, Shard> {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (count >> 96) as usize;
        self.shards[bits % SHARDS].lock()
    }

    /// For each count of the group, how often its part has changed in a way that matters to a denial of the group. Where two
    /// callers share a part, the one may have to ask once more because of the other.
    fn changes<'a>(&'a self, group: &'a [Check<'_>]) -> impl Iterator<Item = u64> + 'a {
        let single = asks_single_units(group);
        group.iter().map(move |check| {
            let changes = &self.changes[part(check)];
            let charged = if single { 0 } else { changes.charged.load(Ordering::Acquire) };
            changes.forgotten.load(Ordering::Acquire) + charged
        })
    }

    /// This process has charged the group, which ends denials of larger costs.
    pub(super) fn charged(&self, group: &[Check<'_>]) {
        for check in group.iter().filter(|check| check.units() > 0) {
            self.changes[part(check)].charged.fetch_add(1, Ordering::Release);
        }
    }

    /// The answer to this question, if it was refused before and the wait is not over.
    pub(super) fn find(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.clock.now();
        let mut question = None;
        group.iter().find_map(|check| {
            let count = check.digest(&self.key);
            let mut shard = self.shard(count);
            let known = shard.table.find_entry(hash(count), |refusal| refusal.count == count).ok()?;
            let refusal = known.get();
            // Learned since `now` was read, which costs one question more; or a test's clock went back.
            if now < refusal.came || refusal.until <= now {
                known.remove();
                return None;
            }
            let question = *question.get_or_insert_with(|| group_digest(group, &self.key));
            if refusal.question != question {
                return None;
            }
            if !self.changes(group).eq(refusal.changes.iter().copied()) {
                known.remove();
                return None;
            }
            Some(refusal.answer.clone().later(refusal.came, now))
        })
    }

    /// To be called before a question is asked whose answer may be learned; `None` when it may not.
    pub(super) fn ask(&self, group: &[Check<'_>]) -> Option<Asked> {
        if self.longest.is_zero() {
            return None;
        }
        Some(Asked { at: self.clock.now(), changes: self.changes(group).collect() })
    }

    /// Keeps the answer to a question, if it is a refusal.
    pub(super) fn learn(&self, group: &[Check<'_>], asked: Asked, answer: &GroupOutcome) {
        if answer.is_allowed() {
            return;
        }
        let violated = || group.iter().zip(answer.outcomes()).filter(|(_, told)| !told.is_allowed());
        let Some((check, _)) = violated().next() else { return };
        let count = check.digest(&self.key);
        // A cost above the limit has no wait, and where nothing is left that changes with the next unit.
        let waits = violated().flat_map(|(_, told)| [told.retry_after(), told.next_unit_after()]);
        let wait = waits.flatten().fold(self.longest, Duration::min);
        let (now, until) = (self.clock.now(), asked.at.after(wait));
        if until <= now {
            return;
        }
        let Asked { changes, .. } = asked;
        let question = group_digest(group, &self.key);
        let mut shard = self.shard(count);
        // What was changed since may be what made the server refuse.
        if !self.changes(group).eq(changes.iter().copied()) {
            return;
        }
        let refusal = Refusal { count, question, came: now, until, changes, answer: answer.clone() };
        if let Some(known) = shard.table.find_mut(hash(count), |known| known.count == count) {
            *known = refusal;
        } else if shard.has_room(now) {
            shard.next_sweep = shard.next_sweep.min(until);
            shard.table.insert_unique(hash(count), refusal, |refusal| hash(refusal.count));
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets, when the result is dropped, what is known of these counts, which are about to change.
    pub(super) fn forget_after(self: &Arc<Self>, checks: &[Check<'_>]) -> Forgetting {
        let counts = checks.iter().map(|check| (check.digest(&self.key), part(check))).collect();
        Forgetting { refusals: Arc::clone(self), counts }
    }
}

/// The part that a count is in, by the end of its caller's name.
fn part(check: &Check<'_>) -> usize {
    let ends = check.partition().iter().rev().take(2);
    ends.fold(check.partition().len(), |part, byte| part * 31 + usize::from(*byte)) % PARTS
}

impl Shard {
    /// Whether one more may be kept. Makes room first, if there may be any.
    fn has_room(&mut self, now: Timestamp) -> bool {
        if self.table.len() < MAX_PER_SHARD {
            return true;
        }
        if now < self.next_sweep {
            return false;
        }
        self.table.retain(|refusal| now < refusal.until);
        self.next_sweep = self.table.iter().map(|refusal| refusal.until).min().unwrap_or(now);
        self.table.len() < MAX_PER_SHARD
    }
}

/// Counts that change while this is held: it travels with the command that changes them, and is dropped at its end.
pub(super) struct Forgetting {
    refusals: Arc<Refusals>,
    /// Digest and part of each.
    counts: SmallVec<[(u128, usize); 2]>,
}

impl Drop for Forgetting {
    fn drop(&mut self) {
        for &(count, part) in &self.counts {
            let mut shard = self.refusals.shard(count);
            self.refusals.changes[part].forgotten.fetch_add(1, Ordering::Release);
            if let Ok(known) = shard.table.find_entry(hash(count), |refusal| refusal.count == count) {
                known.remove();
            }
        }
    }
}
