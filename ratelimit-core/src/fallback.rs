//! What happens when the store cannot answer: every limit has its own failure policy.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::{OnError, Policy};
use crate::store::memory::MemoryStore;
use crate::store::{Check, Reservation, Store};

/// The limiter of last resort, and whether it is in use.
#[derive(Debug)]
pub(crate) struct Fallback {
    local: MemoryStore,
    /// How many processes share the limits, and so divide them while the store is out.
    instances: NonZeroU32,
    outage: Outage,
}

/// Whether the store is out; for one line of log at each change.
#[derive(Debug)]
struct Outage {
    clock: SystemClock,
    is_out: AtomicBool,
    /// When the store failed last, in microseconds.
    failed_at: AtomicU64,
    /// Of unusable values.
    unusable: LogLimit,
    /// Of refunds that failed.
    refund_failed: LogLimit,
    /// Of the number of callers, whose measuring takes every lock.
    #[cfg(feature = "metrics")]
    measured: LogLimit,
}

/// Quiet period after the last failure, in microseconds, before the outage counts as over. A part of a cluster may be out:
/// then requests fail and succeed in turn, which is one outage. Also the minimum time between two log lines of one kind.
const QUIET_US: u64 = 1_000_000;

/// Lets one log line a second through.
#[derive(Debug)]
pub(crate) struct LogLimit {
    clock: SystemClock,
    /// When the last line was logged, in microseconds; 0 when none was.
    last: AtomicU64,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self { clock: SystemClock::new(), last: AtomicU64::new(0) }
    }

    /// Whether the line may be logged; then the next may be a second later.
    pub(crate) fn may_log(&self) -> bool {
        let (now, last) = (self.clock.now().as_micros(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(last) > QUIET_US
            && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Outage {
    fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            is_out: AtomicBool::new(false),
            failed_at: AtomicU64::new(0),
            unusable: LogLimit::new(),
            refund_failed: LogLimit::new(),
            #[cfg(feature = "metrics")]
            measured: LogLimit::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    #[cold]
    fn may_end(&self) {
        let quiet = self.now().saturating_sub(self.failed_at.load(Ordering::Relaxed)) > QUIET_US;
        if quiet && self.is_out.swap(false, Ordering::Relaxed) {
            tracing::info!("the rate limiter's store answers again");
        }
    }

    #[cold]
    fn failed(&self, error: &StoreError) {
        // About one caller, not about the store.
        if let StoreError::ForeignState { .. } = error {
            if self.unusable.may_log() {
                tracing::error!(error = %error, "a rate limit's value in the store is unusable");
            }
            return;
        }
        self.failed_at.store(self.now(), Ordering::Relaxed);
        if !self.is_out.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error = %Chain(error),
                "the rate limiter's store cannot answer; failure policies apply until it does"
            );
        }
    }
}

/// What is asked of the fallback, like [`Mode`](crate::algorithm::Mode).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Check,
    Peek,
}

impl Fallback {
    pub(crate) fn new(instances: NonZeroU32, max_callers: usize) -> Self {
        Self { local: MemoryStore::with_max_callers(max_callers), instances, outage: Outage::new() }
    }

    /// The store answered.
    pub(crate) fn store_answered(&self) {
        // Read first: this runs for every request, and a write would take the cache line from all other threads.
        if self.outage.is_out.load(Ordering::Relaxed) {
            self.outage.may_end();
        }
    }

    /// Decides in place of the store, as each limit wants it; an error when one of them wants to be denied then. The log and
    /// the metrics of failures count only what is an outage of the store.
    pub(crate) async fn decide(
        &self,
        group: &[Check<'_>],
        ask: Ask,
        error: StoreError,
        is_outage: bool,
    ) -> Result<GroupOutcome, StoreError> {
        if is_outage && !matches!(error, StoreError::GroupTooLarge { .. }) {
            #[cfg(feature = "metrics")]
            crate::metrics::failed(&error);
            self.outage.failed(&error);
        }
        let decided = self.decide_locally(group, ask, error).await;
        #[cfg(feature = "metrics")]
        if ask == Ask::Check && !matches!(decided, Err(StoreError::GroupTooLarge { .. })) {
            if let Ok(outcome) = &decided {
                crate::metrics::decided(group, outcome.outcomes());
            }
            crate::metrics::degraded(group, decided.as_ref().ok().map(GroupOutcome::outcomes));
            if self.outage.measured.may_log() {
                crate::metrics::fallback_holds(self.local.len());
            }
        }
        decided
    }

    async fn decide_locally(
        &self,
        group: &[Check<'_>],
        ask: Ask,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        if matches!(error, StoreError::GroupTooLarge { .. }) {
            return Err(error);
        }
        if group.iter().any(|check| check.policy().on_error() == OnError::Deny) {
            return Err(error);
        }
        // A count that occurs twice is judged by the sum.
        let cost = |check: &Check<'_>| {
            let same = group.iter().filter(|other| other.shares_count_with(check));
            same.fold(0, |sum: u64, other| sum.saturating_add(other.units()))
        };
        let shares: SmallVec<[Option<Policy>; 2]> =
            group.iter().map(|check| self.share(check, cost(check))).collect();
        let local: SmallVec<[Check<'_>; 2]> = with_shares(group, &shares);
        let decided = match ask {
            Ask::Check => self.local.check(&local).await?,
            Ask::Peek => self.local.peek(&local).await?,
        };
        let mut counted = decided.outcomes().iter();
        let outcomes = shares.iter().zip(group).map(|(share, check)| {
            let counted = share.as_ref().and_then(|_| counted.next());
            let limit = check.policy().capacity();
            // The limit that the developer wrote; what is left may be less.
            match counted {
                Some(counted) => counted.clone().with_limit(limit),
                None => Outcome::new(limit, check.units(), limit, 0, Decision::Allowed),
            }
        });
        Ok(GroupOutcome::new(decided.at(), decided.is_allowed(), outcomes.collect()).degraded())
    }

    /// Gives back what was taken while the store was out.
    pub(crate) async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        for taken in reservation.taken() {
            let check = taken.check();
            if let Some(share) = self.share(&check, 0) {
                let check = Check::new(&share, check.partition()).cost(check.units());
                self.local.refund(&Reservation::of(taken.with_check(check))).await?;
            }
        }
        Ok(())
    }

    /// Forgets what was counted in this process.
    pub(crate) async fn reset(&self, check: &Check<'_>) -> Result<(), StoreError> {
        match self.share(check, 0) {
            Some(share) => self.local.reset(&[Check::new(&share, check.partition())]).await,
            None => Ok(()),
        }
    }

    /// The store could not give something back.
    pub(crate) fn refund_failed(&self, error: &StoreError) {
        if self.outage.refund_failed.may_log() {
            tracing::warn!(
                error = %Chain(error),
                "a refund failed; what was charged may stay charged until its window is over"
            );
        }
    }

    /// The part of a limit that this process enforces by itself when it is asked for `cost` units; `None` for a limit that
    /// is not enforced meanwhile.
    fn share(&self, check: &Check<'_>, cost: u64) -> Option<Policy> {
        (check.policy().on_error() == OnError::Local).then(|| check.policy().share(self.instances, cost))
    }
}

fn with_shares<'a>(group: &[Check<'a>], shares: &'a [Option<Policy>]) -> SmallVec<[Check<'a>; 2]> {
    let local = group.iter().zip(shares).filter_map(|(check, share)| Some((check, share.as_ref()?)));
    local.map(|(check, share)| Check::new(share, check.partition()).cost(check.units())).collect()
}

/// An error and its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors show their cause in their own text.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}
