//! Stores: where counts are kept, and the contract of every store.

pub(crate) mod deadline;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
pub mod toolkit;

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

pub use self::deadline::Deadline;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
pub use crate::observe::status::{ConnectionStatus, LeaseStatus, Percentiles, StoreStatus};
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;

#[cfg(feature = "redis")]
pub(crate) use self::redis::Sent;

/// A request that was sent. Without a server there is none.
#[cfg(not(feature = "redis"))]
pub(crate) type Sent = std::convert::Infallible;

/// A settlement for which nothing waits; see [`Store::spawn`].
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps counts, and changes them atomically.
///
/// A store of your own is one `decide` over a table: [`toolkit`] has the decision itself, and a store in a
/// few lines. The conformance suite of the feature `test-util` tests clauses 1 to 5, and of 6 that a denied
/// caller is not dropped.
///
/// 1. **Atomic.** No other decision about the same states comes between a decision and its charge, in any
///    process: decide under a lock, or in a transaction.
/// 2. **All or nothing.** Every check of a group passes and all are charged, or none is.
/// 3. **Equal.** Every decision is that of [`decide_with`](toolkit::decide_with).
/// 4. **One clock.** All instants come from one clock of the store, never from the caller's. Read it under
///    the lock, so that decisions have the order of their instants. Stores in several processes agree on one
///    clock: the server's, or the latest instant that any of them has stored.
/// 5. **A denial is an outcome.** An error means that nothing was decided, or, for a timeout, that it is
///    unknown.
/// 6. **Bounded.** Expired states are dropped. A state that still counts is never dropped to make room for
///    another.
/// 7. **Opaque.** Partitions are kept as [digests](Check::digest), whose key lives as long as the states do.
///    A digest is that of an instant: the present one, and for a refund that of the charge.
///
/// * **Blocking.** [`try_decide`](Self::try_decide) must not block. `decide` runs on the thread of the
///   request, so it may block for as long as a local disk takes, and no longer. A store that calls a server
///   awaits it, and keeps the [`Deadline`]. Checks borrow, so another thread needs copies of their policies
///   and partitions.
/// * **Writing.** A store outside of this process writes the states that
///   [`Decided::changed`](toolkit::Decided::changed) names: those that were charged or blocked. Any other
///   denial writes nothing.
/// * **Cancelling.** A future that is dropped has charged all of a group or nothing. The exception is a group
///   with several callers in a Redis cluster: the first callers may stay charged.
/// * **Waiting.** [`Operation::Wait`] never waits: it takes a turn, and the limiter sleeps until it is due. A
///   store that decides by itself has to give turns in the order of its decisions, report them by
///   [`Outcome::with_due_after`](crate::Outcome::with_due_after), and refund nothing but the last charge of a
///   bucket of which turns are not due, as [`State::refund_charge`](toolkit::State::refund_charge) does. For
///   an operation that it does not know, it returns an error, such as
///   [`StoreError::rejected`]: the failure policy decides then.
/// * **Slots.** An admitted group with a [concurrency limit](crate::Policy::concurrency) takes slots. A store
///   that is made of the [`toolkit`] knows nothing of them: the limiter frees them by a
///   [`refund`](Self::refund) when the work ends. When a process crashes, its slots stay taken until a
///   reset. The built-in stores hold slots themselves, and return them with the outcome.
/// * **Dropped values.** The refund of slots, and that of a turn, begins where a value is dropped, so the
///   limiter polls it once: a refund that takes a round trip, or waits for a lock, has to go on by itself,
///   such as in a task. A settlement on drop is a task for [`spawn`](Self::spawn).
/// * **Left to the limiter.** It answers [`StoreError::GroupTooLarge`] itself, and decides by the
///   [failure policies](crate::OnError) if `decide` returns an error.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Decides about a group. `operation` says what is charged. Waits no longer than until `deadline`, nor
    /// than the store's own [`deadline`](Self::deadline).
    ///
    /// Of [`Operation::Overdraw`] only an error matters; its outcomes may be less exact.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached, does not reply in time, or has corrupt state for a
    /// caller of the group. Nothing was decided then; after [`StoreError::Timeout`] it is unknown whether the
    /// group was charged. [`StoreError::SeveralCallers`] for [`Operation::UpTo`], if the store cannot decide
    /// about the callers of the group together.
    fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Drops the state of each check; the costs do not matter.
    ///
    /// # Errors
    ///
    /// As with [`decide`](Self::decide); it is then unknown which states were dropped.
    fn reset(
        &self,
        group: &[Check<'_>],
        deadline: Deadline,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Refunds the charges of a reservation, as far as they still count. The refund may take longer than
    /// until `deadline`, and end in the background.
    ///
    /// # Errors
    ///
    /// [`StoreError::TurnsNotDue`] if a charge that still counts stays, because [turns](Operation::Wait)
    /// behind it are not due, and all others were refunded. Otherwise as with [`decide`](Self::decide); it is
    /// then unknown which charges were refunded.
    fn refund(
        &self,
        reservation: &Reservation<'_>,
        deadline: Deadline,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Decides like [`decide`](Self::decide), without awaiting. Returns `None`, and changes nothing, if the
    /// decision needs a round trip; by default always.
    ///
    /// A limiter calls this first, and `decide` if it returns `None`. Must not block.
    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        let _ = (group, operation);
        None
    }

    /// Longest time that a call waits; `None`, the default, for a store that never waits or has no deadline.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Runs a task that calls the store, and for whose end nothing waits: the settlement of a response that
    /// has ended. Returns the task if the store cannot run it.
    ///
    /// A store with a thread of its own runs it there, because the runtime of the caller may be ending, or
    /// there is none. By default a store without a [`deadline`](Self::deadline) polls it once. A task that is
    /// returned, perhaps begun, runs on the tokio runtime of the caller.
    ///
    /// # Errors
    ///
    /// The task, unless it has ended or the store runs it.
    fn spawn(&self, mut task: Task) -> Result<(), Task> {
        let never_waits = self.deadline().is_none();
        let has_ended = never_waits && task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if has_ended { Ok(()) } else { Err(task) }
    }

    /// Whether the store can decide now, for [`RateLimiter::is_ready`](crate::RateLimiter::is_ready); by
    /// default `true`.
    fn is_ready(&self) -> bool {
        true
    }

    /// Kind of the store in one word, for [`RateLimiter::store_kind`](crate::RateLimiter::store_kind); by
    /// default `custom`.
    fn kind(&self) -> &'static str {
        "custom"
    }

    /// State of the store, for `RateLimiter::store_status` of the feature `stats`; by default nothing is
    /// known.
    fn status(&self) -> StoreStatus {
        StoreStatus::new()
    }

    /// Sets how many processes share the counts of the store. A limiter calls it once, when it is
    /// [built](crate::RateLimiterBuilder::instances). By default it has no effect.
    fn set_instances(&self, instances: NonZeroU32) {
        let _ = instances;
    }
}
