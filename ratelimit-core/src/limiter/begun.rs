//! A decision in two parts, of which only the second awaits: made at once if the store can, otherwise sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::backend::{Inner, validate_size};
use super::decision::{Waiting, is_look};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::store::Deadline;

/// A decision that has begun.
#[allow(missing_debug_implementations, reason = "for the facade")]
pub enum Begun {
    /// It is made.
    Decided(GroupOutcome),
    /// It has to be awaited.
    Waits(Waiting),
}

impl Inner {
    /// Decides about a group: without awaiting if the store can, and otherwise by a call of the store.
    pub(super) async fn outcome(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
        by_worker: bool,
    ) -> Result<GroupOutcome, StoreError> {
        match self.begin(group, operation, timeout, by_worker)? {
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
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
        by_worker: bool,
    ) -> Result<Begun, StoreError> {
        if let Some(outcome) = self.at_once(group, &operation, timeout)? {
            return Ok(Begun::Decided(outcome));
        }
        let group = &*self.validated(group)?;
        Ok(Begun::Waits(self.send(group, operation(), Deadline::after(timeout), by_worker)))
    }

    /// [`begin`](Self::begin) without a request that is sent.
    #[inline]
    pub(super) fn at_once(
        self: &Arc<Self>,
        group: &[Check<'_>],
        operation: impl Fn() -> Operation,
        timeout: Duration,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let group = &*self.validated(group)?;
        if is_look(group, operation()) {
            return self.try_look(group, timeout);
        }
        self.try_store(group, operation, timeout)
    }

    /// Awaits the outcome of what was begun with this group.
    pub(super) async fn end(
        self: &Arc<Self>,
        group: &[Check<'_>],
        waiting: &mut Waiting,
    ) -> Result<GroupOutcome, StoreError> {
        let group = &*self.validated(group)?;
        if is_look(group, waiting.operation) {
            // In a box, because it is rare and its future is large.
            return Box::pin(self.look(group, waiting.deadline, waiting.by_worker)).await;
        }
        self.receive(group, waiting).await
    }

    /// The group as this limiter decides it.
    #[inline]
    fn validated<'g, 'a>(&self, group: &'g [Check<'a>]) -> Result<Cow<'g, [Check<'a>]>, StoreError> {
        validate_size(group)?;
        Ok(if self.shadow {
            group.iter().map(|check| check.in_shadow_if(true)).collect()
        } else {
            Cow::Borrowed(group)
        })
    }
}
