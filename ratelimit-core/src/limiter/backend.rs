//! The store of a limiter, as a trait object where it may take a round trip, and the fallback behind it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::slice;
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::fallback::Fallback;
use crate::outcome::{GroupOutcome, Outcome};
use crate::report::Report;
use crate::reservation::Reservation;
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// The store of a limiter. The in-process store is named, so that its decisions need neither a box nor a virtual call.
#[derive(Debug)]
pub(super) enum Backend {
    Memory(MemoryStore),
    Dyn(Box<dyn DynStore>),
}

impl Backend {
    pub(super) fn new<S: Store>(store: S) -> Self {
        let mut store = Some(store);
        // A type test, so that a memory store that arrives through a generic function is recognized as well.
        let memory = (&mut store as &mut dyn Any).downcast_mut::<Option<MemoryStore>>();
        match (memory.and_then(Option::take), store) {
            (Some(memory), _) => Self::Memory(memory),
            (None, Some(store)) => Self::Dyn(Box::new(store)),
            (None, None) => unreachable!("only a memory store is taken out"),
        }
    }

    /// The store as a trait object, for what is not on the hot path.
    pub(super) fn as_dyn(&self) -> &dyn DynStore {
        match self {
            Self::Memory(store) => store,
            Self::Dyn(store) => &**store,
        }
    }
}

/// Future of a [`DynStore`].
pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// How long a call waits for the store, and what decides when the store does not.
#[derive(Clone, Copy)]
pub(super) struct CallContext<'a> {
    pub(super) limit: Duration,
    pub(super) fallback: &'a Fallback,
    pub(super) report: &'a Report,
}

/// A [`Store`] as a trait object. Each call is one box, with the fallback in it.
pub(super) trait DynStore: fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn is_ready(&self) -> bool;
    #[cfg(feature = "stats")]
    fn status(&self) -> crate::store::StoreStatus;
    fn set_instances(&self, instances: NonZeroU32);
    fn deadline(&self) -> Option<Duration>;
    /// Decides without awaiting, if the store can. An answer that does not fit the group is decided by the fallback.
    fn try_check(
        &self,
        group: &[Check<'_>],
        context: CallContext<'_>,
    ) -> Result<Option<GroupOutcome>, StoreError>;
    fn check_one<'a>(&'a self, check: Check<'a>, context: CallContext<'a>) -> BoxFuture<'a, Outcome>;
    fn check<'a>(&'a self, group: &'a [Check<'a>], context: CallContext<'a>) -> BoxFuture<'a, GroupOutcome>;
    fn peek<'a>(&'a self, group: &'a [Check<'a>], context: CallContext<'a>) -> BoxFuture<'a, GroupOutcome>;
    /// Charges as many units as fit; the costs of the checks are the most.
    fn check_up_to<'a>(
        &'a self,
        group: &'a [Check<'a>],
        units: u64,
        context: CallContext<'a>,
    ) -> BoxFuture<'a, GroupOutcome>;
    fn overdraw<'a>(&'a self, check: Check<'a>, limit: Duration) -> BoxFuture<'a, ()>;
    fn reset<'a>(&'a self, group: &'a [Check<'a>], limit: Duration) -> BoxFuture<'a, ()>;
    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, limit: Duration) -> BoxFuture<'a, ()>;
}

impl<S: Store> DynStore for S {
    fn kind(&self) -> &'static str {
        Store::kind(self)
    }

    fn is_ready(&self) -> bool {
        Store::is_ready(self)
    }

    #[cfg(feature = "stats")]
    fn status(&self) -> crate::store::StoreStatus {
        Store::status(self)
    }

    fn set_instances(&self, instances: NonZeroU32) {
        Store::set_instances(self, instances);
    }

    fn deadline(&self) -> Option<Duration> {
        Store::deadline(self)
    }

    fn try_check(
        &self,
        group: &[Check<'_>],
        context: CallContext<'_>,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let Some(outcome) = Store::try_check(self, group) else { return Ok(None) };
        match validate_outcomes(outcome, group) {
            Ok(outcome) => {
                context.report.decided(group, outcome.outcomes());
                Ok(Some(outcome))
            }
            Err(error) => decide_without_store(self, group, Operation::Check, error, context).map(Some),
        }
    }

    fn check_one<'a>(&'a self, check: Check<'a>, context: CallContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { only(check_group(self, &[check], context).await?) })
    }

    fn check<'a>(&'a self, group: &'a [Check<'a>], context: CallContext<'a>) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(check_group(self, group, context))
    }

    fn peek<'a>(&'a self, group: &'a [Check<'a>], context: CallContext<'a>) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(async move {
            let outcome = self.peek_within(group, context.limit).await;
            outcome
                .and_then(|outcome| validate_outcomes(outcome, group))
                .or_else(|error| decide_without_store(self, group, Operation::Peek, error, context))
        })
    }

    fn check_up_to<'a>(
        &'a self,
        group: &'a [Check<'a>],
        units: u64,
        context: CallContext<'a>,
    ) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(async move {
            #[cfg(feature = "metrics")]
            let stopwatch = crate::metrics::Stopwatch::start();
            let outcome = self.check_up_to_within(group, units, context.limit).await;
            match outcome.and_then(|outcome| validate_outcomes(outcome, group)) {
                Ok(outcome) => {
                    #[cfg(feature = "metrics")]
                    stopwatch.decided();
                    context.report.decided(group, outcome.outcomes());
                    context.fallback.record_reply();
                    Ok(outcome)
                }
                Err(error) => {
                    let group: SmallVec<[Check<'_>; 2]> =
                        group.iter().map(|check| check.with_cost(units)).collect();
                    decide_without_store(self, &group, Operation::UpTo, error, context)
                }
            }
        })
    }

    fn overdraw<'a>(&'a self, check: Check<'a>, limit: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.overdraw_within(&[check], limit).await })
    }

    fn reset<'a>(&'a self, group: &'a [Check<'a>], limit: Duration) -> BoxFuture<'a, ()> {
        Box::pin(self.reset_within(group, limit))
    }

    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, limit: Duration) -> BoxFuture<'a, ()> {
        Box::pin(self.refund_within(reservation, limit))
    }
}

/// Decides about a group by a store that may take a round trip, or by the fallback.
async fn check_group<S: Store>(
    store: &S,
    group: &[Check<'_>],
    context: CallContext<'_>,
) -> Result<GroupOutcome, StoreError> {
    #[cfg(feature = "metrics")]
    let stopwatch = crate::metrics::Stopwatch::start();
    let outcome = store.check_within(group, context.limit).await;
    match outcome.and_then(|outcome| validate_outcomes(outcome, group)) {
        Ok(outcome) => {
            #[cfg(feature = "metrics")]
            stopwatch.decided();
            context.report.decided(group, outcome.outcomes());
            context.fallback.record_reply();
            Ok(outcome)
        }
        Err(error) => decide_without_store(store, group, Operation::Check, error, context),
    }
}

/// Checks that a custom store returned one outcome for each check. A group without outcomes would count as admitted.
fn validate_outcomes(outcome: GroupOutcome, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
    if outcome.outcomes().len() == group.len() {
        Ok(outcome)
    } else {
        Err(StoreError::Protocol { expected: "one outcome for each check" })
    }
}

/// Decides by the failure policies. Not inlined, because its locals would enlarge the futures of decisions by the store.
#[cold]
#[inline(never)]
fn decide_without_store<S: Store>(
    store: &S,
    group: &[Check<'_>],
    operation: Operation,
    error: StoreError,
    context: CallContext<'_>,
) -> Result<GroupOutcome, StoreError> {
    // The timeout of a request with less time than the store's deadline says nothing about the store.
    let is_outage = match (&error, store.deadline()) {
        (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
        _ => true,
    };
    context.fallback.decide(group, operation, error, is_outage, context.report)
}

/// Decides about one limit in memory, without a group, which would take as long as the decision itself.
#[inline]
pub(super) fn decide_in_memory(store: &MemoryStore, check: &Check<'_>, report: &Report) -> Outcome {
    let group = slice::from_ref(check);
    measured(group, report, || store.decide_one(check, Operation::Check), slice::from_ref)
}

/// Decides about a group in memory.
#[inline]
pub(super) fn decide_group_in_memory(
    store: &MemoryStore,
    group: &[Check<'_>],
    report: &Report,
) -> GroupOutcome {
    measured(group, report, || store.decide(group, Operation::Check), GroupOutcome::outcomes)
}

/// Decides about one limit without awaiting, if the store can.
pub(super) fn try_one(
    store: &dyn DynStore,
    check: &Check<'_>,
    context: CallContext<'_>,
) -> Result<Option<Outcome>, StoreError> {
    store.try_check(slice::from_ref(check), context)?.map(only).transpose()
}

/// Decides in memory, and records the decision.
#[inline]
fn measured<T>(
    group: &[Check<'_>],
    report: &Report,
    decide: impl FnOnce() -> T,
    outcomes: impl FnOnce(&T) -> &[Outcome],
) -> T {
    #[cfg(feature = "metrics")]
    let stopwatch = crate::metrics::Stopwatch::start();
    let decided = decide();
    #[cfg(feature = "metrics")]
    stopwatch.decided();
    report.decided(group, outcomes(&decided));
    decided
}

/// The outcome of a group of one.
pub(super) fn only(outcome: GroupOutcome) -> Result<Outcome, StoreError> {
    outcome.into_only().ok_or(StoreError::Protocol { expected: "one outcome for one check" })
}
