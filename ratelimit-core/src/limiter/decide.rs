//! A decision, from its checks to its outcome: at once if the store can, otherwise by a call of the store.

use std::sync::Arc;
use std::time::Duration;

use super::backend::{Backend, Inner, decide_group_in_memory, of_each};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::Stopwatch;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;

impl Inner {
    /// Decides about a group without awaiting, if the store can. The operation is a function, so that the
    /// compiler knows it.
    #[inline]
    pub(super) fn try_decide(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let Self { store, observer, .. } = &**self;
        match store {
            Backend::Memory(store) => {
                let mut outcome = decide_group_in_memory(store, group, operation(), observer);
                outcome.count_slots(group, observer);
                Ok(Some(outcome))
            }
            Backend::Dyn(store) => {
                let outcome = store.try_decide(group, operation());
                outcome
                    .map(|outcome| self.conclude(group, operation(), timeout, of_each(group, Ok(outcome))))
                    .transpose()
            }
        }
    }

    /// Decides about a group by a call of the store.
    pub(super) async fn decide_by_store(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let stopwatch = Stopwatch::start();
        let answer = self.store.as_dyn().decide(group, operation, deadline).await;
        let answer = of_each(group, answer);
        if answer.is_ok() && operation.is_reported() {
            stopwatch.decided();
        }
        // Unused units of a lease may pay a settlement without the server, which then may still be out.
        if answer.is_ok() && operation != Operation::Overdraw {
            self.fallback.outage.record_reply();
        }
        self.conclude(group, operation, deadline.timeout(), answer)
    }

    /// Reports a decision of the store, and holds its slots. Without a decision, decides by the failure
    /// policies.
    #[inline]
    fn conclude(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: Operation,
        timeout: Duration,
        answer: Result<GroupOutcome, StoreError>,
    ) -> Result<GroupOutcome, StoreError> {
        let mut outcome = match answer {
            Ok(outcome) => outcome,
            Err(error) => return self.decide_without_store(group, operation, error),
        };
        if operation.is_reported() {
            self.observer.decided(group, outcome.outcomes());
        }
        if !operation.charges() {
            return Ok(outcome);
        }
        outcome.hold_slots(group, &self.observer, |charges| {
            let limiter = Arc::clone(self);
            move || limiter.begin_refund(&charges, timeout)
        });
        if !outcome.slots().is_empty() {
            // The store reports their end to the server, and a job may hold them for longer than a limiter
            // lives.
            outcome.keep(Arc::clone(self));
        }
        Ok(outcome)
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
        let Self { store, fallback, observer, .. } = self;
        if operation == Operation::Overdraw {
            // The fallback has not charged this request, so it cannot settle it.
            return Err(error);
        }
        // A request that had less time than the store's deadline shows no outage by its timeout.
        let is_outage = match (&error, store.as_dyn().deadline()) {
            (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
            (StoreError::NoTimeLeft, _) => false,
            _ => true,
        };
        let mut outcome = fallback.decide(group, operation, error, is_outage, observer)?;
        if operation.charges() {
            outcome.count_slots(group, observer);
        }
        Ok(outcome)
    }
}
