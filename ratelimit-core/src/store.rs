//! Stores: where counts are kept, and the contract of every store.

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "stats")]
mod status;
pub mod toolkit;
mod up_to;

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

#[cfg(feature = "stats")]
pub use self::status::{ConnectionStatus, LeaseStatus, StoreStatus};
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;

/// Keeps counts, and changes them atomically.
///
/// The contract. The conformance suite of the feature `test-util` tests 1, 2, 3 and 5, also of [`try_check`](Self::try_check) and
/// [`check_within`](Self::check_within), and of 6 that a denied caller is not dropped:
///
/// 1. **Atomic.** No other decision about the same states comes between a decision and its charge, in any process.
/// 2. **All or nothing.** Every check of a group passes and all are charged, or none is.
/// 3. **Equal.** Every decision is that of [`decide_with`](toolkit::decide_with).
/// 4. **One clock.** All instants come from one clock of the store, never from the caller's.
/// 5. **A denial is an outcome.** An error means that nothing was decided, or, for a timeout, that it is unknown.
/// 6. **Bounded.** Expired states are dropped. A state that still counts is never dropped to make room for another.
/// 7. **Opaque.** Partitions are kept as digests.
///
/// A store that calls a server must also be *cancel safe*: a future that is dropped has charged all of a group or nothing.
/// The exception is a group with several callers in a Redis cluster: the first callers may stay charged.
///
/// The [`toolkit`] has the decision itself, so that a store in this process is five short methods: the required ones and
/// [`overdraw_within`](Self::overdraw_within). A store that calls a server also implements:
///
/// * [`deadline`](Self::deadline), [`check_within`](Self::check_within) and its relatives, so that one HTTP request keeps one
///   deadline over all its calls;
/// * [`check_up_to_within`](Self::check_up_to_within), in one round trip;
/// * [`is_ready`](Self::is_ready), for readiness probes;
/// * [`try_check`](Self::try_check), if it can decide some groups without a round trip;
/// * [`kind`](Self::kind), for log lines.
///
/// A store that wraps another one passes these on.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Decides about a group, and charges it if every limit passes.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached, does not reply in time, or holds corrupt state for a caller of the
    /// group. Nothing was decided then; after [`StoreError::Timeout`] it is unknown whether the group was charged.
    fn check(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Decides about a group, and changes nothing.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check).
    fn peek(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Drops the state of each check; the costs do not matter.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached or does not reply in time; it is then unknown which states were
    /// dropped.
    fn reset(&self, group: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Refunds the charges of a reservation, as far as they still count.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached, does not reply in time, or holds corrupt state for a caller; it is
    /// then unknown which charges were refunded.
    fn refund(&self, reservation: &Reservation<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Decides about a group without awaiting, like [`check`](Self::check). Returns `None`, and charges nothing, if the
    /// decision needs a round trip; by default always.
    ///
    /// A limiter calls this first, and [`check_within`](Self::check_within) if it returns `None`. Must not block.
    fn try_check(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let _ = group;
        None
    }

    /// Tells the store how many processes share its counts. A limiter calls it once, when it is
    /// [built](crate::RateLimiterBuilder::instances). By default it has no effect.
    fn set_instances(&self, instances: NonZeroU32) {
        let _ = instances;
    }

    /// Whether the store can decide now, for [`RateLimiter::is_ready`](crate::RateLimiter::is_ready); by default `true`.
    fn is_ready(&self) -> bool {
        true
    }

    /// Kind of the store in one word, for [`RateLimiter::store_kind`](crate::RateLimiter::store_kind); by default `custom`.
    fn kind(&self) -> &'static str {
        "custom"
    }

    /// State of the store, for [`RateLimiter::store_status`](crate::RateLimiter::store_status); by default nothing is told.
    #[cfg(feature = "stats")]
    fn status(&self) -> StoreStatus {
        StoreStatus::new()
    }

    /// Longest time that a call waits; `None`, the default, for a store that never waits or has no deadline.
    ///
    /// A store that returns a deadline implements [`check_within`](Self::check_within), [`peek_within`](Self::peek_within),
    /// [`reset_within`](Self::reset_within) and [`refund_within`](Self::refund_within).
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Decides like [`check`](Self::check), and waits no longer than `limit`, nor than [`deadline`](Self::deadline). By
    /// default `limit` has no effect.
    ///
    /// `limit` is what one request has left for all its calls, and may be zero. A limiter calls this after
    /// [`try_check`](Self::try_check) has returned `None` for the group.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check); [`StoreError::Timeout`] with `limit` if the call has waited for that time.
    fn check_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send {
        let _ = limit;
        self.check(group)
    }

    /// Decides like [`peek`](Self::peek), and waits no longer than `limit`; see [`check_within`](Self::check_within).
    ///
    /// # Errors
    ///
    /// As with [`check_within`](Self::check_within).
    fn peek_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send {
        let _ = limit;
        self.peek(group)
    }

    /// Charges every limit of a group the same number of units: as many of `units` as fit every limit. The costs of the checks
    /// do not matter; a state that occurs twice is charged twice as many. Waits no longer than `limit`; see
    /// [`check_within`](Self::check_within).
    ///
    /// The outcome is that of a check with the units that were charged as cost. If not even one unit fits, it is the denial of
    /// one unit.
    ///
    /// By default a loop of peeks and checks, which wait no longer than `limit` in total, and in which fewer units are charged
    /// if other requests come between. With the [`toolkit`], [`Operation::UpTo`](toolkit::Operation::UpTo) decides it.
    ///
    /// # Errors
    ///
    /// As with [`check_within`](Self::check_within).
    fn check_up_to_within(
        &self,
        group: &[Check<'_>],
        units: u64,
        limit: Duration,
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send {
        up_to::check(self, group, units, limit)
    }

    /// Charges each check of a group although its limit may not admit it, for [`RateLimiter::settle`]. What is counted beyond
    /// the limit is a debt, for which later requests wait. Charges nothing during a block. Waits no longer than `limit`; see
    /// [`check_within`](Self::check_within).
    ///
    /// By default charges only what the limits admit, so that debts are forgiven, which breaks rule 3. With the [`toolkit`],
    /// [`Operation::Overdraw`](toolkit::Operation::Overdraw) charges all.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached, does not reply in time, or holds corrupt state for a caller; it is
    /// then unknown what was charged.
    ///
    /// [`RateLimiter::settle`]: crate::RateLimiter::settle
    fn overdraw_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move {
            for check in group {
                let _ = self.check_up_to_within(&[*check], check.cost(), limit).await?;
            }
            Ok(())
        }
    }

    /// Drops states like [`reset`](Self::reset), and waits no longer than `limit`; see
    /// [`check_within`](Self::check_within).
    ///
    /// # Errors
    ///
    /// As with [`reset`](Self::reset), and [`StoreError::Timeout`] with `limit`.
    fn reset_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = limit;
        self.reset(group)
    }

    /// Refunds like [`refund`](Self::refund), and waits no longer than `limit`; see [`check_within`](Self::check_within).
    /// The refund itself may take longer, and end in the background.
    ///
    /// # Errors
    ///
    /// As with [`refund`](Self::refund), and [`StoreError::Timeout`] with `limit`.
    fn refund_within(
        &self,
        reservation: &Reservation<'_>,
        limit: Duration,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let _ = limit;
        self.refund(reservation)
    }
}
