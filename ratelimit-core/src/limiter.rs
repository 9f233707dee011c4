//! The limiter: the facade through which an application checks limits.

#![cfg_attr(
    not(feature = "redis"),
    allow(clippy::match_wildcard_for_single_variants, reason = "without Redis there is one other store")
)]

mod backend;
pub(crate) mod begun;
mod builder;
pub(crate) mod decision;
pub(crate) mod global;
mod look;
mod overrides;
mod refund;
mod settle;
#[cfg(test)]
mod tests;
mod wait;

use std::slice;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::backend::only;
use self::backend::{Backend, Inner, check_in_memory, validate_size};
use self::begun::Begun;
pub use self::builder::RateLimiterBuilder;
use self::decision::Waiting;
pub use self::global::InstallError;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::{Mode, Policy};
use crate::slots::operation_of_one;

/// Decides whether requests pass. Cheap to clone; clones share their counts.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Policy, RateLimiter};
///
/// static EMAILS: Policy = Policy::new("emails", 2, Duration::from_secs(60));
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = RateLimiter::in_memory();
/// assert!(limiter.check(&EMAILS, "tenant-42").await?.is_allowed());
/// assert!(limiter.check(&EMAILS, "tenant-42").await?.is_allowed());
///
/// let outcome = limiter.check(&EMAILS, "tenant-42").await?;
/// assert!(!outcome.is_allowed());
/// println!("try again in {:?}", outcome.retry_after());
/// # Ok::<(), ratelimit_core::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct RateLimiter {
    inner: Arc<Inner>,
    /// Longest wait for the store; the store's own deadline applies as well.
    deadline: Duration,
}

impl RateLimiter {
    /// Kind of the store, for a log line at start: `memory`, `redis`, or the
    /// [kind](crate::store::Store::kind) of a custom store.
    pub fn store_kind(&self) -> &'static str {
        self.inner.store.as_dyn().kind()
    }

    /// Whether every limit of this limiter is a [shadow limit](crate::Mode::Shadow); see
    /// [`RateLimiterBuilder::shadow`].
    pub fn is_shadow(&self) -> bool {
        self.inner.shadow
    }

    /// Whether a limit may deny requests: neither its policy nor this limiter is in shadow mode.
    pub(crate) fn enforces(&self, policy: &Policy) -> bool {
        !self.is_shadow() && policy.mode() == Mode::Enforce
    }

    /// Whether the [store is ready](crate::store::Store::is_ready), for a readiness probe.
    ///
    /// A Redis store is ready while it is connected; a part of a cluster may be out. The in-process store is
    /// always ready. A custom store reports it itself, and is always ready by default.
    ///
    /// Requests need not wait for it: until then limits follow their [failure policies](crate::OnError).
    pub fn is_ready(&self) -> bool {
        self.inner.store.as_dyn().is_ready()
    }

    /// What this limiter has decided in this process since it was built: a count for each limit, and the
    /// callers that were denied most.
    #[cfg(feature = "stats")]
    pub fn stats(&self) -> &crate::stats::Stats {
        &self.inner.observer.stats
    }

    /// State of the store: its connection, circuit breaker, calls, denial cache and leases. For a page or a
    /// log line, not for every request: it takes locks.
    #[cfg(feature = "stats")]
    pub fn store_status(&self) -> crate::store::StoreStatus {
        let Inner { store, fallback, .. } = &*self.inner;
        let status = store.as_dyn().status();
        crate::store::StoreStatus {
            fallback_callers: fallback.callers(),
            is_out: fallback.outage.is_out(),
            ..status
        }
    }

    /// Returns a limiter whose calls wait for the store no longer than `deadline`, nor than the store's own
    /// deadline.
    ///
    /// Each call has the whole `deadline`. For work with several calls and one deadline in total, pass what
    /// is left to each. It applies to every store with a [deadline](crate::store::Store::deadline): the
    /// in-process store has none, because it never waits. Counts and settings are shared with this limiter.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: Arc::clone(&self.inner), deadline: deadline.min(self.deadline) }
    }

    /// Longest wait of a call for the store. `None` for a store without a
    /// [deadline](crate::store::Store::deadline), such as the in-process store, which never waits.
    pub fn deadline(&self) -> Option<Duration> {
        self.inner.store.as_dyn().deadline().map(|deadline| deadline.min(self.deadline))
    }

    /// Charges one unit of `policy` to the caller `partition`, if the request passes. For a
    /// [concurrency limit](Policy::concurrency) it decides whether a slot is free, and takes none:
    /// [`acquire`](Self::acquire) does.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot decide and the policy [fails closed](crate::OnError::Deny). A
    /// denial is an outcome, not an error.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped has charged the unit or not.
    pub fn check(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> {
        // An `async` block around this future would copy it once more.
        self.check_n(policy, partition, 1)
    }

    /// Charges `cost` units, all or none. A cost of 0 charges nothing; a cost above the limit never passes.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Algorithm, Policy, RateLimiter};
    ///
    /// static BYTES: Policy = Policy::builder("bytes")
    ///     .algorithm(Algorithm::TokenBucket)
    ///     .max(1_000_000)
    ///     .window(Duration::from_secs(1))
    ///     .build();
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// assert!(limiter.check_n(&BYTES, "tenant-42", 600_000).await?.is_allowed());
    /// assert!(!limiter.check_n(&BYTES, "tenant-42", 600_000).await?.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn check_n(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
        cost: u64,
    ) -> Result<Outcome, StoreError> {
        let check = self.check_of(policy, &partition, cost);
        if let Backend::Memory(store) = &self.inner.store {
            return Ok(check_in_memory(store, &check, &self.inner.observer));
        }
        let operation = || operation_of_one(policy);
        match self.inner.begin(slice::from_ref(&check), operation, self.deadline, false)? {
            Begun::Decided(outcome) => only(outcome),
            // The check is in a box, so that the in-memory future stays small: a future is copied until it is
            // polled, and copying a large one takes longer than a decision in memory.
            Begun::Waits(mut waiting) => {
                let check = self.check_of(policy, &partition, cost);
                Box::pin(async move { only(self.inner.end(&[check], &mut waiting).await?) }).await
            }
        }
    }

    /// Decides about several limits at once: all pass and all are charged, or none is.
    ///
    /// The checks may differ in policy, caller and cost. A state that occurs twice is charged the sum. Slots
    /// of [concurrency limits](Policy::concurrency) are held by the outcome: [take](GroupOutcome::take_slots)
    /// them for the time of the work.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check), and [`StoreError::GroupTooLarge`] if the group has more than
    /// [`MAX_GROUP`](crate::MAX_GROUP) limits.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped has charged the whole group or nothing. A Redis cluster charges a group with
    /// several callers caller by caller. Dropping that future may leave the first callers charged.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Check, Policy, RateLimiter};
    ///
    /// static BURST: Policy = Policy::new("burst", 10, Duration::from_secs(1));
    /// static DAILY: Policy = Policy::new("daily", 1000, Duration::from_secs(86_400));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let group = [Check::new(&BURST, "tenant-42"), Check::new(&DAILY, "tenant-42").with_cost(5)];
    /// let outcome = limiter.check_all(&group).await?;
    /// assert!(outcome.is_allowed());
    /// assert_eq!(outcome.outcomes()[1].remaining(), 995);
    ///
    /// // The work was not needed after all:
    /// if let Some(reservation) = outcome.reservation(&group) {
    ///     limiter.refund(reservation).await?;
    /// }
    /// assert_eq!(limiter.peek(&DAILY, "tenant-42").await?.remaining(), 1000);
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn check_all(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.inner.outcome(group, || Operation::Check, self.deadline, false).await
    }

    /// Charges one unit like [`check`](Self::check), without awaiting. Returns `Ok(None)`, and charges
    /// nothing, if the decision needs a round trip.
    ///
    /// Always decides in memory; with Redis only for callers in the denial cache, and for callers with unused
    /// units of a [lease](crate::PolicyBuilder::lease); with a custom store as far as it implements
    /// [`Store::try_decide`](crate::store::Store::try_decide).
    ///
    /// **Warning:** `None` is no admission. A caller that takes it as one fails open with every store but the
    /// in-process one. Call [`check`](Self::check) then, or reject the request.
    ///
    /// # Errors
    ///
    /// [`StoreError::Protocol`] if a custom store does not return one outcome, and the policy
    /// [fails closed](crate::OnError::Deny).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter, StoreError};
    ///
    /// static PACKETS: Policy = Policy::new("packets", 2, Duration::from_secs(1));
    ///
    /// let limiter = RateLimiter::in_memory();
    /// let is_allowed = || {
    ///     // Without a decision the packet is dropped.
    ///     Ok::<_, StoreError>(limiter.try_check(&PACKETS, "192.0.2.1")?.is_some_and(|outcome| outcome.is_allowed()))
    /// };
    /// assert!(is_allowed()?);
    /// assert!(is_allowed()?);
    /// assert!(!is_allowed()?);
    /// # Ok::<(), StoreError>(())
    /// ```
    #[inline]
    pub fn try_check(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> Result<Option<Outcome>, StoreError> {
        let check = self.check_of(policy, &partition, 1);
        if let Backend::Memory(store) = &self.inner.store {
            return Ok(Some(check_in_memory(store, &check, &self.inner.observer)));
        }
        let operation = || operation_of_one(policy);
        self.inner.at_once(slice::from_ref(&check), operation, self.deadline)?.map(only).transpose()
    }

    /// Decides about a group like [`check_all`](Self::check_all), without awaiting. Returns `Ok(None)`, and
    /// charges nothing, if the decision needs a round trip.
    ///
    /// **Warning:** `None` is no admission; see [`try_check`](Self::try_check).
    ///
    /// # Errors
    ///
    /// [`StoreError::GroupTooLarge`] if the group has more than [`MAX_GROUP`](crate::MAX_GROUP) limits, and
    /// [`StoreError::Protocol`] if a custom store does not return one outcome per check, and a policy of the
    /// group [fails closed](crate::OnError::Deny).
    ///
    /// # Examples
    ///
    /// With any store, awaiting only if a round trip is needed:
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Check, Policy, RateLimiter};
    ///
    /// static BYTES: Policy = Policy::new("bytes", 1_000_000, Duration::from_secs(60));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let group = [Check::new(&BYTES, "tenant-42").with_cost(600_000)];
    /// let outcome = match limiter.try_check_all(&group)? {
    ///     Some(outcome) => outcome,
    ///     None => limiter.check_all(&group).await?,
    /// };
    /// assert!(outcome.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn try_check_all(&self, group: &[Check<'_>]) -> Result<Option<GroupOutcome>, StoreError> {
        self.inner.at_once(group, || Operation::Check, self.deadline)
    }

    /// [`check_all`](Self::check_all) by a worker.
    pub(crate) fn check_all_on_worker(
        &self,
        group: &[Check<'_>],
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> {
        self.inner.outcome(group, || Operation::Check, self.deadline, true)
    }

    /// The first half of [`check_all_on_worker`](Self::check_all_on_worker), which does not await.
    #[inline]
    pub(crate) fn begin_on_worker(&self, group: &[Check<'_>]) -> Result<Begun, StoreError> {
        self.inner.begin(group, || Operation::Check, self.deadline, true)
    }

    /// The second half.
    pub(crate) fn end(
        &self,
        group: &[Check<'_>],
        waiting: &mut Waiting,
    ) -> impl Future<Output = Result<GroupOutcome, StoreError>> {
        self.inner.end(group, waiting)
    }

    /// A check by this limiter.
    #[inline]
    fn check_of<'a>(
        &self,
        policy: &'a Policy,
        partition: &'a (impl AsRef<[u8]> + ?Sized),
        cost: u64,
    ) -> Check<'a> {
        Check::new(policy, partition).with_cost(cost).in_shadow_if(self.inner.shadow)
    }

    /// Decides about one unit, and charges nothing.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check).
    pub async fn peek(&self, policy: &Policy, partition: impl AsRef<[u8]>) -> Result<Outcome, StoreError> {
        only(self.peek_all(&[Check::new(policy, &partition)]).await?)
    }

    /// Decides about a group, and charges nothing.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check), and [`StoreError::GroupTooLarge`] if the group has more than
    /// [`MAX_GROUP`](crate::MAX_GROUP) limits.
    pub fn peek_all(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> {
        self.inner.outcome(group, || Operation::Peek, self.deadline, false)
    }
}
