//! The store of a limiter: in memory, or a trait object that may take a round trip.

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
use crate::check::{Check, MAX_GROUP};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::fallback::Fallback;
use crate::observe::{Observer, Stopwatch};
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;
use crate::store::{Deadline, Store, Task};

/// What the clones of a limiter share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Backend,
    pub(super) fallback: Fallback,
    pub(super) observer: Observer,
    /// Whether every limit is a shadow limit.
    pub(super) shadow: bool,
    /// Clock by which requests wait.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) overrides: Arc<crate::overrides::Current>,
}

impl Inner {
    /// Refunds charges, and logs if that fails.
    pub(super) async fn refund(
        &self,
        reservation: &Reservation<'_>,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let result = match &self.store {
            _ if reservation.is_degraded() => self.fallback.refund(reservation),
            Backend::Memory(store) => store.refund_all(reservation),
            store => store.as_dyn().refund(reservation, timeout).await,
        };
        if let Err(error) = &result
            && !matches!(error, StoreError::TurnsNotDue)
        {
            self.fallback.outage.log_failed_refund(error);
        }
        result
    }

    /// Begins a refund for a value that is dropped. A store that needs a round trip goes on in the
    /// background. A turn that stays because of later turns is no failure.
    pub(super) fn begin_refund(&self, reservation: &Reservation<'_>, timeout: Duration) {
        match self.store.as_dyn().begin_refund(reservation, timeout) {
            Ok(()) | Err(StoreError::TurnsNotDue) => {}
            Err(error) => self.fallback.outage.log_failed_refund(&error),
        }
    }
}

/// The store of a limiter. The stores of this crate are named: decisions in memory need no virtual call, and
/// those of Redis are sent before anything awaits.
#[derive(Debug)]
pub(super) enum Backend {
    Memory(MemoryStore),
    #[cfg(feature = "redis")]
    Redis(RedisStore),
    Dyn(Box<dyn DynStore>),
}

impl Backend {
    pub(super) fn new<S: Store>(store: S) -> Self {
        let mut store = Some(store);
        // Type tests, so that a store that arrives through a generic function is recognized as well.
        let any = &mut store as &mut dyn Any;
        if let Some(memory) = any.downcast_mut::<Option<MemoryStore>>().and_then(Option::take) {
            return Self::Memory(memory);
        }
        #[cfg(feature = "redis")]
        if let Some(redis) = any.downcast_mut::<Option<RedisStore>>().and_then(Option::take) {
            return Self::Redis(redis);
        }
        match store {
            Some(store) => Self::Dyn(Box::new(store)),
            None => unreachable!("only a store that was returned is taken out"),
        }
    }

    /// The store as a trait object, for calls that are not on the hot path.
    pub(super) fn as_dyn(&self) -> &dyn DynStore {
        match self {
            Self::Memory(store) => store,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store,
            Self::Dyn(store) => &**store,
        }
    }
}

/// Future of a [`DynStore`].
pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A [`Store`] as a trait object, with boxed futures.
pub(super) trait DynStore: fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn is_ready(&self) -> bool;
    #[cfg(feature = "stats")]
    fn status(&self) -> crate::store::StoreStatus;
    fn set_instances(&self, instances: NonZeroU32);
    fn deadline(&self) -> Option<Duration>;
    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome>;
    fn decide<'a>(
        &'a self,
        group: &'a [Check<'a>],
        operation: Operation,
        deadline: Deadline,
    ) -> BoxFuture<'a, GroupOutcome>;
    fn reset<'a>(&'a self, group: &'a [Check<'a>], timeout: Duration) -> BoxFuture<'a, ()>;
    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, timeout: Duration) -> BoxFuture<'a, ()>;
    fn spawn(&self, task: Task) -> Result<(), Task>;
    /// Begins a refund without awaiting its end. An error if it fails at once.
    fn begin_refund(&self, reservation: &Reservation<'_>, timeout: Duration) -> Result<(), StoreError>;
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

    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        Store::try_decide(self, group, operation)
    }

    fn decide<'a>(
        &'a self,
        group: &'a [Check<'a>],
        operation: Operation,
        deadline: Deadline,
    ) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(Store::decide(self, group, operation, deadline))
    }

    fn reset<'a>(&'a self, group: &'a [Check<'a>], timeout: Duration) -> BoxFuture<'a, ()> {
        Box::pin(Store::reset(self, group, Deadline::after(timeout)))
    }

    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>, timeout: Duration) -> BoxFuture<'a, ()> {
        Box::pin(Store::refund(self, reservation, Deadline::after(timeout)))
    }

    fn spawn(&self, task: Task) -> Result<(), Task> {
        Store::spawn(self, task)
    }

    fn begin_refund(&self, reservation: &Reservation<'_>, timeout: Duration) -> Result<(), StoreError> {
        let refund = pin!(Store::refund(self, reservation, Deadline::after(timeout)));
        match refund.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(refunded) => refunded,
            Poll::Pending => Ok(()),
        }
    }
}

/// Verifies that a custom store returned one outcome for each check. A group without outcomes would count as
/// admitted.
#[inline]
pub(super) fn of_each(
    group: &[Check<'_>],
    answer: Result<GroupOutcome, StoreError>,
) -> Result<GroupOutcome, StoreError> {
    match answer {
        Ok(outcome) if outcome.outcomes().len() != group.len() => {
            Err(StoreError::Protocol { expected: "one outcome for each check" })
        }
        answer => answer,
    }
}

/// Verifies the size of a group.
pub(super) fn validate_size(group: &[Check<'_>]) -> Result<(), StoreError> {
    if group.len() > MAX_GROUP { Err(StoreError::GroupTooLarge { size: group.len() }) } else { Ok(()) }
}

/// Decides about one limit in memory, without a group, which would take as long as the decision itself.
#[inline]
pub(super) fn check_in_memory(store: &MemoryStore, check: &Check<'_>, observer: &Observer) -> Outcome {
    let group = slice::from_ref(check);
    measured(group, observer, || store.judge_one(check, Operation::Check), slice::from_ref)
}

#[inline]
pub(super) fn check_group_in_memory(
    store: &MemoryStore,
    group: &[Check<'_>],
    operation: Operation,
    observer: &Observer,
) -> GroupOutcome {
    if !operation.is_reported() {
        return store.judge_group(group, operation);
    }
    measured(group, observer, || store.judge_group(group, operation), GroupOutcome::outcomes)
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
    stopwatch.stop();
    observer.observe(group, outcomes(&decided));
    decided
}

/// The outcome of a group of one.
pub(crate) fn only(outcome: GroupOutcome) -> Result<Outcome, StoreError> {
    outcome.into_only().ok_or(StoreError::Protocol { expected: "one outcome for one check" })
}
