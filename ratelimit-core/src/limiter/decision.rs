//! A decision in two parts, of which only the second awaits: made at once if the store can, otherwise sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::RateLimiter;
use super::backend::{Backend, Inner, check_group_in_memory, of_each, validate_size};
use super::begun::{Begun, Waiting};
use crate::algorithm::Operation;
use crate::check::{Check, has_looks};
use crate::error::StoreError;
use crate::observe::Stopwatch;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;

impl RateLimiter {
    /// Decides about a group: without awaiting if the store can, and otherwise by a call of the store.
    pub(super) async fn outcome(
        &self,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        by_worker: bool,
    ) -> Result<GroupOutcome, StoreError> {
        match self.begin(group, operation, by_worker)? {
            Begun::Decided(outcome) => Ok(outcome),
            Begun::Waits(mut waiting) => self.end(group, &mut waiting).await,
        }
    }

    /// Begins a decision, of a worker or of any caller: makes it without awaiting if the store can, and
    /// otherwise sends the request if one call decides. The operation is a function, so that the compiler
    /// knows it.
    ///
    /// A worker is a runtime with one thread, IO and timers, which runs while its calls wait, as in an Actix
    /// server: the call may be sent and answered on that thread.
    #[inline]
    pub(super) fn begin(
        &self,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        by_worker: bool,
    ) -> Result<Begun, StoreError> {
        let group = &*self.validated(group)?;
        if let Some(outcome) = self.inner.at_once(group, &operation, self.deadline)? {
            return Ok(Begun::Decided(outcome));
        }
        let deadline = Deadline::after(self.deadline);
        Ok(Begun::Waits(self.inner.send(group, operation(), deadline, by_worker)))
    }

    /// [`begin`](Self::begin) of a check by a worker.
    #[inline]
    pub(crate) fn begin_on_worker(&self, group: &[Check<'_>]) -> Result<Begun, StoreError> {
        self.begin(group, || Operation::Check, true)
    }

    /// [`check_all`](Self::check_all) by a worker.
    pub(crate) async fn check_all_on_worker(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.outcome(group, || Operation::Check, true).await
    }

    /// [`begin`](Self::begin) without a request that is sent.
    #[inline]
    pub(super) fn at_once(
        &self,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        self.inner.at_once(&self.validated(group)?, operation, self.deadline)
    }

    /// Awaits the outcome of what was begun with this group.
    pub(crate) async fn end(
        &self,
        group: &[Check<'_>],
        waiting: &mut Waiting,
    ) -> Result<GroupOutcome, StoreError> {
        self.inner.end(&self.validated(group)?, waiting).await
    }

    /// The group as this limiter decides it.
    #[inline]
    fn validated<'g, 'a>(&self, group: &'g [Check<'a>]) -> Result<Cow<'g, [Check<'a>]>, StoreError> {
        validate_size(group)?;
        Ok(if self.inner.shadow {
            group.iter().map(|check| check.in_shadow_if(true)).collect()
        } else {
            Cow::Borrowed(group)
        })
    }
}

/// Whether a part of the group is looked at.
fn is_look(group: &[Check<'_>], operation: Operation) -> bool {
    operation == Operation::Check && has_looks(group)
}

impl Inner {
    /// Decides about a group without awaiting, if the store can.
    #[inline]
    pub(super) fn at_once(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        if is_look(group, operation()) {
            return self.try_look(group, timeout);
        }
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

    /// Awaits the decision.
    pub(super) async fn end(
        self: &Arc<Self>,
        group: &[Check<'_>],
        Waiting { operation, deadline, by_worker, stopwatch, sent }: &mut Waiting,
    ) -> Result<GroupOutcome, StoreError> {
        let (operation, deadline) = (*operation, *deadline);
        if is_look(group, operation) {
            // In a box, because it is rare and its future is large.
            return Box::pin(self.look(group, deadline, *by_worker)).await;
        }
        let answer = match (&self.store, sent) {
            #[cfg(feature = "redis")]
            (Backend::Redis(store), Some(sent)) => store.end(group, sent).await,
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
