//! Decisions by the store, and by the failure policies without one.

use std::sync::Arc;
use std::time::Duration;

use super::backend::{Backend, Inner, check_group_in_memory, of_each};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::observe::Stopwatch;
use crate::outcome::GroupOutcome;
use crate::store::{Deadline, Sent};

/// What is left of a decision that has to be awaited.
#[allow(missing_debug_implementations, reason = "for the facade")]
pub struct Waiting {
    pub(super) operation: Operation,
    pub(super) deadline: Deadline,
    pub(super) by_worker: bool,
    stopwatch: Stopwatch,
    /// In a box, because futures that are moved should be small.
    sent: Option<Box<Sent>>,
}

/// Whether some checks of the group are charged nothing.
#[inline]
pub(super) fn is_look(group: &[Check<'_>], operation: Operation) -> bool {
    operation == Operation::Check && group.iter().any(Check::is_uncharged)
}

impl Inner {
    /// Asks the store for a decision that it makes without awaiting.
    #[inline]
    pub(super) fn try_store(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let Self { store, observer, .. } = &**self;
        match store {
            Backend::Memory(store) => {
                let mut outcome = check_group_in_memory(store, group, operation(), observer);
                outcome.count_slots(group, observer);
                Ok(Some(outcome))
            }
            store => {
                let outcome = store.as_dyn().try_decide(group, operation());
                outcome
                    .map(|outcome| self.conclude(group, operation(), timeout, of_each(group, Ok(outcome))))
                    .transpose()
            }
        }
    }

    /// Sends the request of a decision, if one call decides.
    pub(super) fn send(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
        by_worker: bool,
    ) -> Waiting {
        let stopwatch = Stopwatch::start();
        let sent = match &self.store {
            _ if is_look(group, operation) => None,
            #[cfg(feature = "redis")]
            Backend::Redis(store) => store.begin(group, operation, deadline, by_worker),
            _ => None,
        };
        Waiting { operation, deadline, by_worker, stopwatch, sent }
    }

    /// Awaits the answer of the store, or asks for it if nothing was sent.
    pub(super) async fn receive(
        self: &Arc<Self>,
        group: &[Check<'_>],
        Waiting { operation, deadline, stopwatch, sent, .. }: &mut Waiting,
    ) -> Result<GroupOutcome, StoreError> {
        let (operation, deadline) = (*operation, *deadline);
        // Taken, so that a request that waits in vain ends here and not with its handler.
        let answer = match (&self.store, sent.take()) {
            #[cfg(feature = "redis")]
            (Backend::Redis(store), Some(mut sent)) => store.end(group, &mut sent).await,
            (store, _) => store.as_dyn().decide(group, operation, deadline).await,
        };
        let answer = of_each(group, answer);
        if answer.is_ok() && operation.is_reported() {
            stopwatch.stop();
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
            Err(error) => return self.without_store(group, operation, error),
        };
        if operation.is_reported() {
            self.observer.observe(group, outcome.outcomes());
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
    fn without_store(
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
        let mut outcome = fallback.judge(group, operation, error, is_outage, observer)?;
        if operation.charges() {
            outcome.count_slots(group, observer);
        }
        Ok(outcome)
    }
}
