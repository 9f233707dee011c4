//! Refusals: who was denied is denied here, without asking the server, until his own `retry_after`.
//!
//! Nobody else can shorten a wait, except by [`refund`](crate::RateLimiter::refund) and
//! [`reset`](crate::RateLimiter::reset). Those that this process makes are seen at once; of others' and of a server that
//! forgot, a refusal outlives what it says by its longest life at most. Nobody passes who would not have.
//!
//! Only the very same question gets the same answer, with the time that has passed taken off; and only when each count is
//! asked for one unit. Then nothing is left under the violated limits until the first of their waits is over, so all that
//! is said about them is exact. What the other limits of the group have left is as old as the refusal.
//!
//! Times are the difference between two readings of one monotonic clock of this process. A wait began when the server
//! decided, which was after the question was asked and before the answer came: so it is over here no later than there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::clock::{Clock, Timestamp};
use crate::outcome::GroupOutcome;
use crate::store::{Check, group_digest, random_key};

/// Locks among which the refusals are spread.
const SHARDS: usize = 16;

/// Most refusals under one lock; when there are more, the rest is asked of the server, as everybody is.
const MAX_PER_SHARD: usize = 1_000;

/// The refusals that this process knows of.
#[derive(Debug)]
pub(super) struct Refusals {
    clock: Arc<dyn Clock>,
    /// Longest life of a refusal; zero turns them off.
    longest: Duration,
    key: [u8; 16],
    shards: Box<[Mutex<HashTable<Refusal>>]>,
    /// Whether there was ever one: until then nothing is looked for.
    any: AtomicBool,
    /// How often anything was forgotten.
    forgotten: AtomicU64,
}

/// When a question was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    at: Timestamp,
    forgotten: u64,
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
        Self {
            clock,
            longest,
            key: random_key(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            any: AtomicBool::new(false),
            forgotten: AtomicU64::new(0),
        }
    }

    fn shard(&self, count: u128) -> &Mutex<HashTable<Refusal>> {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (count >> 96) as usize;
        &self.shards[bits % SHARDS]
    }

    /// The answer to a question, if it was refused before and the wait is not over; otherwise when it is to be asked.
    pub(super) fn find(&self, group: &[Check<'_>]) -> Result<GroupOutcome, Asked> {
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let at = if self.longest.is_zero() { Timestamp::default() } else { self.clock.now() };
        self.known(group, at).ok_or(Asked { at, forgotten })
    }

    fn known(&self, group: &[Check<'_>], now: Timestamp) -> Option<GroupOutcome> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut question = None;
        group.iter().find_map(|check| {
            let count = check.digest(&self.key);
            let mut shard = self.shard(count).lock();
            let known = shard.find_entry(hash(count), |refusal| refusal.count == count).ok()?;
            let refusal = known.get();
            // A clock may only have gone back under a test.
            if now < refusal.came || refusal.until <= now {
                known.remove();
                return None;
            }
            let question = *question.get_or_insert_with(|| group_digest(group, &self.key));
            (refusal.question == question).then(|| refusal.answer.clone().later(refusal.came, now))
        })
    }

    /// Keeps the answer to a question, if it is a refusal.
    pub(super) fn learn(&self, group: &[Check<'_>], asked: Asked, answer: &GroupOutcome) {
        if answer.is_allowed() || self.longest.is_zero() || !asks_single_units(group) {
            return;
        }
        let violated = || group.iter().zip(answer.outcomes()).filter(|(_, outcome)| !outcome.is_allowed());
        let Some((check, _)) = violated().next() else { return };
        let waits = violated().map(|(_, outcome)| outcome.retry_after());
        let wait = waits.flatten().fold(self.longest, Duration::min);
        let (now, until) = (self.clock.now(), asked.at.after(wait));
        if until <= now {
            return;
        }
        let count = check.digest(&self.key);
        let refusal = Refusal {
            count,
            question: group_digest(group, &self.key),
            came: now,
            until,
            answer: answer.clone(),
        };
        let mut shard = self.shard(count).lock();
        // What was forgotten since may be what made the server refuse.
        if self.forgotten.load(Ordering::Acquire) != asked.forgotten {
            return;
        }
        if let Some(known) = shard.find_mut(hash(count), |known| known.count == count) {
            *known = refusal;
        } else {
            if shard.len() >= MAX_PER_SHARD {
                shard.retain(|refusal| now < refusal.until);
            }
            if shard.len() < MAX_PER_SHARD {
                shard.insert_unique(hash(count), refusal, |refusal| hash(refusal.count));
            }
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets what is known of these counts, which have just changed.
    pub(super) fn forget<'a>(&self, checks: impl Iterator<Item = Check<'a>>) {
        self.forgotten.fetch_add(1, Ordering::Release);
        for check in checks {
            let count = check.digest(&self.key);
            let mut shard = self.shard(count).lock();
            if let Ok(known) = shard.find_entry(hash(count), |refusal| refusal.count == count) {
                known.remove();
            }
        }
    }
}
