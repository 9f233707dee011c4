//! One decision, from its checks to its outcome: at once if the store can, otherwise by a call of the store.

use std::borrow::Cow;
use std::slice;
use std::sync::Arc;

use super::RateLimiter;
use super::backend::{Backend, Inner};
use crate::algorithm::Operation;
use crate::check::{Check, MAX_GROUP};
use crate::error::StoreError;
use crate::observe::{Observer, Stopwatch};
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::store::memory::MemoryStore;

impl RateLimiter {
    /// Decides about a group: without awaiting if the store can, and otherwise by a call of the store.
    pub(super) async fn decide(
        &self,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
    ) -> Result<GroupOutcome, StoreError> {
        let group = &*self.validated(group)?;
        match self.try_decide(group, &operation)? {
            Some(outcome) => Ok(outcome),
            None => self.decide_by_store(group, operation()).await,
        }
    }

    /// Decides about a group without awaiting, if the store can. The operation is a function, so that it is
    /// known when this is compiled.
    #[inline]
    pub(super) fn try_decide(
        &self,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let Inner { store, observer, .. } = &*self.inner;
        match store {
            Backend::Memory(store) => {
                let outcome = decide_group_in_memory(store, group, operation(), observer);
                Ok(Some(outcome.count_slots(group, observer)))
            }
            Backend::Dyn(store) => {
                let outcome = store.try_decide(group, operation());
                outcome.map(|outcome| self.conclude(group, operation(), Ok(outcome))).transpose()
            }
        }
    }

    /// The same for one limit.
    pub(super) fn try_decide_one(
        &self,
        check: &Check<'_>,
        operation: Operation,
    ) -> Result<Option<Outcome>, StoreError> {
        self.try_decide(slice::from_ref(check), || operation)?.map(only).transpose()
    }

    /// Decides about a group by a call of the store, which may take a round trip.
    pub(super) async fn decide_by_store(
        &self,
        group: &[Check<'_>],
        operation: Operation,
    ) -> Result<GroupOutcome, StoreError> {
        let stopwatch = Stopwatch::start();
        let answer = self.inner.store.as_dyn().decide(group, operation, self.deadline).await;
        if answer.is_ok() && operation.charges() {
            stopwatch.decided();
        }
        // Units that this process holds may settle a limit without the server, which then may still be out.
        if answer.is_ok() && operation != Operation::Overdraw {
            self.inner.fallback.outage.record_reply();
        }
        self.conclude(group, operation, answer)
    }

    /// Reports a decision of the store, and holds its slots. Without one, decides by the failure policies.
    #[inline]
    fn conclude(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        answer: Result<GroupOutcome, StoreError>,
    ) -> Result<GroupOutcome, StoreError> {
        let outcome = match answer {
            // Of a custom store. A group without outcomes would count as admitted.
            Ok(outcome) if outcome.outcomes().len() != group.len() => {
                let error = StoreError::Protocol { expected: "one outcome for each check" };
                return self.decide_without_store(group, operation, error);
            }
            Ok(outcome) => outcome,
            Err(error) => return self.decide_without_store(group, operation, error),
        };
        if !operation.charges() {
            return Ok(outcome);
        }
        self.inner.observer.decided(group, outcome.outcomes());
        Ok(outcome.hold_slots(group, &self.inner.observer, |charges| {
            let (limiter, deadline) = (Arc::clone(&self.inner), self.deadline);
            move || limiter.begin_refund(&charges, deadline)
        }))
    }

    /// Not inlined, because its locals would enlarge the futures of decisions by the store.
    #[cold]
    #[inline(never)]
    fn decide_without_store(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        let Inner { store, fallback, observer, .. } = &*self.inner;
        if operation == Operation::Overdraw {
            // Nothing takes the place of a settlement.
            return Err(error);
        }
        // The timeout of a request with less time than the store's deadline says nothing about the store.
        let is_outage = match (&error, store.as_dyn().deadline()) {
            (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
            (StoreError::NoTimeLeft, _) => false,
            _ => true,
        };
        fallback.decide(group, operation, error, is_outage, observer)
    }

    /// A check by this limiter.
    #[inline]
    pub(super) fn check_of<'a>(
        &self,
        policy: &'a Policy,
        partition: &'a (impl AsRef<[u8]> + ?Sized),
        cost: u64,
    ) -> Check<'a> {
        Check::new(policy, partition).with_cost(cost).in_shadow_if(self.inner.shadow)
    }

    /// The group as this limiter decides it.
    #[inline]
    pub(super) fn validated<'g, 'a>(
        &self,
        group: &'g [Check<'a>],
    ) -> Result<Cow<'g, [Check<'a>]>, StoreError> {
        validate_size(group)?;
        Ok(if self.inner.shadow {
            group.iter().map(|check| check.in_shadow_if(true)).collect()
        } else {
            Cow::Borrowed(group)
        })
    }
}

/// Checks the size of a group.
pub(super) fn validate_size(group: &[Check<'_>]) -> Result<(), StoreError> {
    if group.len() > MAX_GROUP { Err(StoreError::GroupTooLarge { size: group.len() }) } else { Ok(()) }
}

/// Decides about one limit in memory, without a group, which would take as long as the decision itself.
#[inline]
pub(super) fn decide_in_memory(store: &MemoryStore, check: &Check<'_>, observer: &Observer) -> Outcome {
    let group = slice::from_ref(check);
    measured(group, observer, || store.decide_one(check, Operation::Check), slice::from_ref)
}

#[inline]
fn decide_group_in_memory(
    store: &MemoryStore,
    group: &[Check<'_>],
    operation: Operation,
    observer: &Observer,
) -> GroupOutcome {
    if !operation.charges() {
        return store.decide_group(group, operation);
    }
    measured(group, observer, || store.decide_group(group, operation), GroupOutcome::outcomes)
}

/// Decides in memory, and records the decision.
#[inline]
pub(super) fn measured<T>(
    group: &[Check<'_>],
    observer: &Observer,
    decide: impl FnOnce() -> T,
    outcomes: impl FnOnce(&T) -> &[Outcome],
) -> T {
    let stopwatch = Stopwatch::start();
    let decided = decide();
    stopwatch.decided();
    observer.decided(group, outcomes(&decided));
    decided
}

/// The outcome of a group of one.
pub(crate) fn only(outcome: GroupOutcome) -> Result<Outcome, StoreError> {
    outcome.into_only().ok_or(StoreError::Protocol { expected: "one outcome for one check" })
}
