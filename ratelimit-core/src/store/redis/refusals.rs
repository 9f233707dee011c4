//! Refusals: who was denied is denied here, without asking the server, until his own `retry_after`.
//!
//! Nobody else can shorten a wait, except by [`refund`](crate::RateLimiter::refund) and
//! [`reset`](crate::RateLimiter::reset). Those that this process makes are seen at once; of others' and of a server that
//! forgot, a refusal outlives what it says by its longest life at most. Nobody passes who would not have.
//!
//! Only the very same question gets the same answer, with the time that has passed taken off; and only when each count is
//! asked for one unit. Then nothing is left under the violated limits until the first of their waits is over, so all that
//! is said about them is exact, unless a request under a higher `max` of the same count passes meanwhile: then the wait turns
//! out longer. What the other limits of the group have left is as old as the refusal.
//!
//! Times are the difference between two readings of one monotonic clock of this process. A wait began when the server
//! decided, which was after the question was asked and before the answer came: so it is over here no later than there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::clock::{Clock, Timestamp};
use crate::outcome::GroupOutcome;
use crate::store::{Check, group_digest, random_key};

/// Locks among which the refusals are spread.
const SHARDS: usize = 16;

/// Most refusals under one lock; when there are more, the rest is asked of the server, as everybody is.
const MAX_PER_SHARD: usize = 1_000;

/// Parts of the counts, by their callers, each with a counter of its own of what was forgotten.
const PARTS: usize = 64;

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
    /// How often anything was forgotten, for parts of the counts that are told apart without a digest.
    forgotten: [AtomicU64; PARTS],
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
    /// For each count of the group how often something was forgotten in its part.
    forgotten: SmallVec<[u64; 2]>,
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
        let forgotten = [const { AtomicU64::new(0) }; PARTS];
        Self { clock, longest, key: random_key(), shards, any: AtomicBool::new(false), forgotten }
    }

    fn shard(&self, count: u128) -> MutexGuard<'_, Shard> {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (count >> 96) as usize;
        self.shards[bits % SHARDS].lock()
    }

    /// How often anything was forgotten in the part that a count is in. Anything that spreads callers a little will do: where
    /// two meet, the one may have to ask once more because the other was forgotten.
    fn forgotten(&self, check: &Check<'_>) -> &AtomicU64 {
        let ends = check.partition().iter().rev().take(2);
        let part = ends.fold(check.partition().len(), |part, byte| part * 31 + usize::from(*byte));
        &self.forgotten[part % PARTS]
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
            (refusal.question == question).then(|| refusal.answer.clone().later(refusal.came, now))
        })
    }

    /// To be called before a question is asked whose answer may be learned; `None` when it may not.
    pub(super) fn ask(&self, group: &[Check<'_>]) -> Option<Asked> {
        if self.longest.is_zero() || !asks_single_units(group) {
            return None;
        }
        let forgotten = group.iter().map(|check| self.forgotten(check).load(Ordering::Acquire)).collect();
        Some(Asked { at: self.clock.now(), forgotten })
    }

    /// Keeps the answer to a question, if it is a refusal.
    pub(super) fn learn(&self, group: &[Check<'_>], asked: &Asked, answer: &GroupOutcome) {
        if answer.is_allowed() {
            return;
        }
        let told = || group.iter().zip(answer.outcomes());
        let violated = || told().zip(&asked.forgotten).filter(|((_, told), _)| !told.is_allowed());
        let Some(((check, _), &forgotten)) = violated().next() else { return };
        let count = check.digest(&self.key);
        let waits = violated().map(|((_, told), _)| told.retry_after());
        let wait = waits.flatten().fold(self.longest, Duration::min);
        let (now, until) = (self.clock.now(), asked.at.after(wait));
        if until <= now {
            return;
        }
        let question = group_digest(group, &self.key);
        let refusal = Refusal { count, question, came: now, until, answer: answer.clone() };
        let mut shard = self.shard(count);
        // What was forgotten since may be what made the server refuse.
        if self.forgotten(check).load(Ordering::Acquire) != forgotten {
            return;
        }
        if let Some(known) = shard.table.find_mut(hash(count), |known| known.count == count) {
            *known = refusal;
        } else if shard.has_room(now) {
            shard.next_sweep = shard.next_sweep.min(until);
            shard.table.insert_unique(hash(count), refusal, |refusal| hash(refusal.count));
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets, when this value is dropped, what is known of these counts, which are about to change.
    pub(super) fn forget_after<'a>(&'a self, checks: SmallVec<[Check<'a>; 2]>) -> Forgetting<'a> {
        Forgetting { refusals: self, checks }
    }
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

/// Counts that change while this is held. Whoever gives up waiting for that drops it as well.
pub(super) struct Forgetting<'a> {
    refusals: &'a Refusals,
    checks: SmallVec<[Check<'a>; 2]>,
}

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        for check in &self.checks {
            let count = check.digest(&self.refusals.key);
            let mut shard = self.refusals.shard(count);
            self.refusals.forgotten(check).fetch_add(1, Ordering::Release);
            if let Ok(known) = shard.table.find_entry(hash(count), |refusal| refusal.count == count) {
                known.remove();
            }
        }
    }
}
