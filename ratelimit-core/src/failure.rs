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
    /// When an unusable value was last logged, in microseconds.
    told_at: AtomicU64,
    /// When the number of callers was last told, in microseconds.
    #[cfg(feature = "metrics")]
    measured_at: AtomicU64,
}

/// So long, in microseconds, nothing must fail before the store counts as back. Of a cluster a part may be out: then
/// requests fail and succeed in turn, which is one outage. Of what is about single callers there is one line in this time.
const QUIET_US: u64 = 1_000_000;

impl Outage {
    fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            is_out: AtomicBool::new(false),
            failed_at: AtomicU64::new(0),
            told_at: AtomicU64::new(0),
            #[cfg(feature = "metrics")]
            measured_at: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// Whether it is time again to count what is counted here, which takes every lock: once a second.
    #[cfg(feature = "metrics")]
    fn may_measure(&self) -> bool {
        let (now, last) = (self.now(), self.measured_at.load(Ordering::Relaxed));
        now.saturating_sub(last) > QUIET_US
            && self.measured_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
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
        let now = self.now();
        // About one caller, not about the store.
        if let StoreError::ForeignState { .. } = error {
            let told_at = self.told_at.load(Ordering::Relaxed);
            let silent = now.saturating_sub(told_at) > QUIET_US;
            let mine = || self.told_at.compare_exchange(told_at, now, Ordering::Relaxed, Ordering::Relaxed);
            if silent && mine().is_ok() {
                tracing::error!(error = %error, "a rate limit's value in the store is unusable");
            }
            return;
        }
        self.failed_at.store(now, Ordering::Relaxed);
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

    /// Decides in place of the store, as each limit wants it; an error when one of them wants to be denied then.
    pub(crate) async fn decide(
        &self,
        group: &[Check<'_>],
        ask: Ask,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        #[cfg(feature = "metrics")]
        crate::metrics::failed(&error);
        let decided = self.decide_locally(group, ask, error).await;
        #[cfg(feature = "metrics")]
        if ask == Ask::Check && !matches!(decided, Err(StoreError::GroupTooLarge { .. })) {
            if let Ok(outcome) = &decided {
                crate::metrics::decided(group, outcome.outcomes());
            }
            crate::metrics::degraded(group, decided.as_ref().ok().map(GroupOutcome::outcomes));
            if self.outage.may_measure() {
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
        self.outage.failed(&error);
        if group.iter().any(|check| check.policy().on_error() == OnError::Deny) {
            return Err(error);
        }
        let shares: SmallVec<[Option<Policy>; 2]> = group.iter().map(|check| self.share(check)).collect();
        let local: SmallVec<[Check<'_>; 2]> = with_shares(group, &shares);
        let decided = match ask {
            Ask::Check => self.local.check(&local).await?,
            Ask::Peek => self.local.peek(&local).await?,
        };
        let mut counted = decided.outcomes().iter();
        let outcomes = shares.iter().zip(group).map(|(share, check)| {
            let counted = share.as_ref().and_then(|_| counted.next());
            let limit = check.policy().capacity();
            counted
                .cloned()
                .unwrap_or_else(|| Outcome::new(limit, check.units(), limit, 0, Decision::Allowed))
        });
        Ok(GroupOutcome::new(decided.at(), decided.is_allowed(), outcomes.collect()).degraded())
    }

    /// Gives back what was taken while the store was out.
    pub(crate) async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        for taken in reservation.taken() {
            let check = taken.check();
            if let Some(share) = self.share(&check) {
                let check = Check::new(&share, check.partition()).cost(check.units());
                self.local.refund(&Reservation::of(taken.with_check(check))).await?;
            }
        }
        Ok(())
    }

    /// The part of a limit that this process enforces by itself; `None` for a limit that is not enforced meanwhile.
    fn share(&self, check: &Check<'_>) -> Option<Policy> {
        (check.policy().on_error() == OnError::Local).then(|| check.policy().share(self.instances))
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
