//! The parts of a limiter: its store, as a trait object where it may take a round trip, and the fallback behind it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::fallback::Fallback;
use crate::observe::{Observer, Stopwatch};
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;
use crate::store::{Deadline, Store};

/// What the clones of a limiter share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Backend,
    pub(super) fallback: Fallback,
    pub(super) report: Observer,
    /// Whether every limit is a shadow limit.
    pub(super) shadow: bool,
    /// By which waits sleep.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) overrides: Arc<crate::overrides::Current>,
}

impl Inner {
    /// Begins a refund for a value that is dropped. A store that has to wait for it goes on in the background. A turn that stays
    /// because of later ones is no failure.
    pub(super) fn begin_refund(&self, reservation: &Reservation<'_>, limit: Duration) {
        match self.store.as_dyn().begin_refund(reservation, limit) {
            Ok(()) | Err(StoreError::TurnsNotDue) => {}
            Err(error) => self.fallback.outage.log_failed_refund(&error),
        }
    }
}

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

/// What a call decides, how long it waits for the store, and what decides when the store does not.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) operation: Operation,
    pub(super) limit: Duration,
    pub(super) fallback: &'a Fallback,
    pub(super) report: &'a Observer,
}

/// A [`Store`] as a trait object. Each call is one box, with the fallback in it.
pub(super) trait DynStore: fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn is_ready(&self) -> bool;
    #[cfg(feature = "stats")]
    fn status(&self) -> crate::store::StoreStatus;
    fn set_instances(&self, instances: NonZeroU32);
    fn deadline(&self) -> Option<Duration>;
    /// Decides without awaiting, if the store can.
    fn try_decide(&self, group: &[Check<'_>], call: Call<'_>) -> Result<Option<GroupOutcome>, StoreError>;
    fn decide<'a>(&'a self, group: &'a [Check<'a>], call: Call<'a>) -> BoxFuture<'a, GroupOutcome>;
    /// Decides about one limit, in a box that holds the check.
    fn decide_one<'a>(&'a self, check: Check<'a>, call: Call<'a>) -> BoxFuture<'a, Outcome>;
    fn reset<'a>(&'a self, group: &'a [Check<'a>], limit: Duration) -> BoxFuture<'a, ()>;
    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, limit: Duration) -> BoxFuture<'a, ()>;
    /// Begins a refund whose end is not awaited. An error if it fails at once.
    fn begin_refund(&self, reservation: &Reservation<'_>, limit: Duration) -> Result<(), StoreError>;
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

    fn try_decide(&self, group: &[Check<'_>], call: Call<'_>) -> Result<Option<GroupOutcome>, StoreError> {
        let Some(outcome) = Store::try_decide(self, group, call.operation) else { return Ok(None) };
        call.finish(self, group, validated(Ok(outcome), group)).map(Some)
    }

    fn decide<'a>(&'a self, group: &'a [Check<'a>], call: Call<'a>) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(decide_in_store(self, group, call))
    }

    fn decide_one<'a>(&'a self, check: Check<'a>, call: Call<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { only(decide_in_store(self, &[check], call).await?) })
    }

    fn reset<'a>(&'a self, group: &'a [Check<'a>], limit: Duration) -> BoxFuture<'a, ()> {
        Box::pin(Store::reset(self, group, Deadline::after(limit)))
    }

    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, limit: Duration) -> BoxFuture<'a, ()> {
        Box::pin(Store::refund(self, reservation, Deadline::after(limit)))
    }

    fn begin_refund(&self, reservation: &Reservation<'_>, limit: Duration) -> Result<(), StoreError> {
        let refund = pin!(Store::refund(self, reservation, Deadline::after(limit)));
        match refund.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(refunded) => refunded,
            Poll::Pending => Ok(()),
        }
    }
}

/// Decides by a store that may take a round trip, or by the fallback.
async fn decide_in_store<S: Store>(
    store: &S,
    group: &[Check<'_>],
    call: Call<'_>,
) -> Result<GroupOutcome, StoreError> {
    let stopwatch = Stopwatch::start();
    let answer = store.decide(group, call.operation, Deadline::after(call.limit)).await;
    let answer = validated(answer, group);
    if answer.is_ok() && call.operation.charges() {
        stopwatch.decided();
    }
    // Units that this process holds may settle a limit without the server, which then may still be out.
    if answer.is_ok() && call.operation != Operation::Overdraw {
        call.fallback.outage.record_reply();
    }
    call.finish(store, group, answer)
}

/// Checks that a custom store returned one outcome for each check. A group without outcomes would count as admitted.
fn validated(
    answer: Result<GroupOutcome, StoreError>,
    group: &[Check<'_>],
) -> Result<GroupOutcome, StoreError> {
    match answer {
        Ok(outcome) if outcome.outcomes().len() != group.len() => {
            Err(StoreError::Protocol { expected: "one outcome for each check" })
        }
        answer => answer,
    }
}

impl Call<'_> {
    /// Reports a decision of the store. Without one, decides by the failure policies.
    fn finish<S: Store>(
        self,
        store: &S,
        group: &[Check<'_>],
        answer: Result<GroupOutcome, StoreError>,
    ) -> Result<GroupOutcome, StoreError> {
        let outcome = match answer {
            Ok(outcome) => outcome,
            // Nothing takes the place of a settlement.
            Err(error) if self.operation == Operation::Overdraw => return Err(error),
            Err(error) => return self.decide_without_store(Store::deadline(store), group, error),
        };
        if self.operation.charges() {
            self.report.decided(group, outcome.outcomes());
        }
        Ok(outcome)
    }

    /// Not inlined, because its locals would enlarge the futures of decisions by the store.
    #[cold]
    #[inline(never)]
    fn decide_without_store(
        self,
        deadline: Option<Duration>,
        group: &[Check<'_>],
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        // The timeout of a request with less time than the store's deadline says nothing about the store.
        let is_outage = match (&error, deadline) {
            (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
            (StoreError::NoTimeLeft, _) => false,
            _ => true,
        };
        self.fallback.decide(group, self.operation, error, is_outage, self.report)
    }
}

/// Decides about one limit in memory, without a group, which would take as long as the decision itself.
#[inline]
pub(super) fn decide_in_memory(store: &MemoryStore, check: &Check<'_>, report: &Observer) -> Outcome {
    let group = slice::from_ref(check);
    measured(group, report, || store.decide_one(check, Operation::Check), slice::from_ref)
}

/// Decides about a group in memory.
#[inline]
pub(super) fn decide_group_in_memory(
    store: &MemoryStore,
    group: &[Check<'_>],
    operation: Operation,
    report: &Observer,
) -> GroupOutcome {
    if !operation.charges() {
        return store.decide_group(group, operation);
    }
    measured(group, report, || store.decide_group(group, operation), GroupOutcome::outcomes)
}

/// Decides about one limit without awaiting, if the store can.
pub(super) fn try_one(
    store: &dyn DynStore,
    check: &Check<'_>,
    call: Call<'_>,
) -> Result<Option<Outcome>, StoreError> {
    store.try_decide(slice::from_ref(check), call)?.map(only).transpose()
}

/// Decides in memory, and records the decision.
#[inline]
pub(super) fn measured<T>(
    group: &[Check<'_>],
    report: &Observer,
    decide: impl FnOnce() -> T,
    outcomes: impl FnOnce(&T) -> &[Outcome],
) -> T {
    let stopwatch = Stopwatch::start();
    let decided = decide();
    stopwatch.decided();
    report.decided(group, outcomes(&decided));
    decided
}

/// The outcome of a group of one.
pub(super) fn only(outcome: GroupOutcome) -> Result<Outcome, StoreError> {
    outcome.into_only().ok_or(StoreError::Protocol { expected: "one outcome for one check" })
}
