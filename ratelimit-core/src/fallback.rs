//! What happens when the store cannot answer: every limit has its own failure policy.

mod outage;

use std::num::NonZeroU32;

use smallvec::SmallVec;

use self::outage::Outage;
use crate::algorithm::Mode;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::{OnError, Policy};
use crate::reservation::Reservation;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// The limiter of last resort, and whether it is in use.
#[derive(Debug)]
pub(crate) struct Fallback {
    local: MemoryStore,
    /// How many processes share the limits, and so divide them while the store is out.
    instances: NonZeroU32,
    outage: Outage,
}

impl Fallback {
    pub(crate) fn new(instances: NonZeroU32, max_callers: usize) -> Self {
        Self { local: MemoryStore::with_max_callers(max_callers), instances, outage: Outage::new() }
    }

    /// The store answered.
    pub(crate) fn store_answered(&self) {
        self.outage.store_answered();
    }

    /// Decides in place of the store, as each limit wants it; an error when one of them wants to be denied then. The log and
    /// the metrics of failures count only what is an outage of the store.
    pub(crate) async fn decide(
        &self,
        group: &[Check<'_>],
        mode: Mode,
        error: StoreError,
        is_outage: bool,
    ) -> Result<GroupOutcome, StoreError> {
        if is_outage && !matches!(error, StoreError::GroupTooLarge { .. }) {
            #[cfg(feature = "metrics")]
            crate::metrics::failed(&error);
            self.outage.failed(&error);
        }
        let decided = self.decide_locally(group, mode, error).await;
        #[cfg(feature = "metrics")]
        if mode == Mode::Check && !matches!(decided, Err(StoreError::GroupTooLarge { .. })) {
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
        mode: Mode,
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
        let decided = match mode {
            Mode::Check => self.local.check(&local).await?,
            Mode::Peek => self.local.peek(&local).await?,
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
        self.outage.refund_failed(error);
    }

    /// The part of a limit that this process enforces by itself when it is asked for `cost` units; `None` for a limit that
    /// is not enforced meanwhile.
    fn share(&self, check: &Check<'_>, cost: u64) -> Option<Policy> {
        (check.policy().on_error() == OnError::Local)
            .then(|| check.policy().per_instance(self.instances, cost))
    }
}

fn with_shares<'a>(group: &[Check<'a>], shares: &'a [Option<Policy>]) -> SmallVec<[Check<'a>; 2]> {
    let local = group.iter().zip(shares).filter_map(|(check, share)| Some((check, share.as_ref()?)));
    local.map(|(check, share)| Check::new(share, check.partition()).cost(check.units())).collect()
}
