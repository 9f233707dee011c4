//! What happens when the store cannot answer: every limit has its own failure policy.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

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
    /// Whether the last answer of the store was an error; for one line of log at each change.
    is_out: AtomicBool,
}

/// What is asked of the fallback, like [`Mode`](crate::algorithm::Mode).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Check,
    Peek,
}

impl Fallback {
    pub(crate) fn new(instances: NonZeroU32, max_callers: usize) -> Self {
        Self { local: MemoryStore::with_max_callers(max_callers), instances, is_out: AtomicBool::new(false) }
    }

    /// The store answered.
    pub(crate) fn store_answered(&self) {
        // Read first: this runs for every request, and a write would take the cache line from all other threads.
        if self.is_out.load(Ordering::Relaxed) && self.is_out.swap(false, Ordering::Relaxed) {
            tracing::info!("the rate limiter's store answers again");
        }
    }

    /// Decides in place of the store, as each limit wants it; an error when one of them wants to be denied then.
    pub(crate) async fn decide(
        &self,
        group: &[Check<'_>],
        ask: Ask,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        if matches!(error, StoreError::GroupTooLarge { .. }) {
            return Err(error);
        }
        self.log(&error);
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

    fn log(&self, error: &StoreError) {
        // About one caller, not about the store.
        if let StoreError::ForeignState { .. } = error {
            tracing::error!(error = %error, "a rate limit's value in the store is unusable");
        } else if !self.is_out.swap(true, Ordering::Relaxed) {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(error = %error, cause, "the rate limiter's store cannot answer; failure policies apply");
        }
    }
}

fn with_shares<'a>(group: &[Check<'a>], shares: &'a [Option<Policy>]) -> SmallVec<[Check<'a>; 2]> {
    let local = group.iter().zip(shares).filter_map(|(check, share)| Some((check, share.as_ref()?)));
    local.map(|(check, share)| Check::new(share, check.partition()).cost(check.units())).collect()
}
