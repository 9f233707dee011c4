//! The limiter: the facade through which an application checks limits.

mod backend;
mod builder;
mod global;
#[cfg(test)]
mod tests;

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use self::backend::Backend;
pub use self::builder::RateLimiterBuilder;
use crate::algorithm::Mode;
use crate::check::{Check, MAX_GROUP};
use crate::error::StoreError;
use crate::fallback::Fallback;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::reservation::Reservation;

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

#[derive(Debug)]
struct Inner {
    store: Backend,
    fallback: Fallback,
}

impl RateLimiter {
    /// Kind of the store, for a log line at start: `memory`, `redis` or `custom`.
    pub fn store_kind(&self) -> &'static str {
        self.inner.store.kind()
    }

    /// Whether the store is ready, for a readiness probe: a Redis store is ready while it is connected. The in-process store
    /// is always ready, and so is a custom store.
    ///
    /// Requests need not wait for it: until then limits follow their [failure policies](crate::OnError).
    pub fn is_ready(&self) -> bool {
        self.inner.store.is_ready()
    }

    /// Returns a limiter whose calls wait for the store no longer than `deadline`, nor than the store's own deadline.
    ///
    /// For work with several calls and one deadline in total. It applies to a Redis store: the in-process store never waits,
    /// and a custom store keeps its own deadline. Counts and settings are shared with this limiter.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: Arc::clone(&self.inner), deadline: deadline.min(self.deadline) }
    }

    /// Longest wait of a call for the store. `None` for the in-process store, which never waits, and for a custom store.
    pub fn deadline(&self) -> Option<Duration> {
        self.inner.store.deadline().map(|deadline| deadline.min(self.deadline))
    }

    /// Charges one unit of `policy` to the caller `partition`, if the request passes.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot decide and the policy [fails closed](crate::OnError::Deny). A denial is an
    /// outcome, not an error.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped has charged the unit or not; it never charges a part of a group.
    pub fn check(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> {
        // Returned as is: wrapping it in another future would copy it once more.
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
        if let Some(outcome) = self.try_one(&Check::new(policy, &partition).with_cost(cost)) {
            return Ok(outcome);
        }
        // Boxed so that the in-memory future stays small: a future is copied until it is polled, and copying a large one
        // takes longer than a decision in memory.
        let check = async move {
            let group = [Check::new(policy, &partition).with_cost(cost)];
            only(self.check_store(&group).await?)
        };
        Box::pin(check).await
    }

    /// Decides about several limits at once: all pass and all are charged, or none is.
    ///
    /// The checks may differ in policy, caller and cost. A state that occurs twice is charged the sum.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check), and [`StoreError::GroupTooLarge`] if the group has more than [`MAX_GROUP`] limits.
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
        validate_size(group)?;
        match self.try_all(group) {
            Some(outcome) => Ok(outcome),
            // Boxed so that the in-memory future stays small.
            None => Box::pin(self.check_store(group)).await,
        }
    }

    /// Decides without awaiting. Returns `None`, and charges nothing, if a round trip is needed.
    ///
    /// Always decides in memory; with Redis only for callers in the denial cache; never with a custom store.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static PACKETS: Policy = Policy::new("packets", 2, Duration::from_secs(1));
    ///
    /// let limiter = RateLimiter::in_memory();
    /// let is_allowed = || limiter.check_now(&PACKETS, "192.0.2.1").is_some_and(|outcome| outcome.is_allowed());
    /// assert!(is_allowed());
    /// assert!(is_allowed());
    /// assert!(!is_allowed());
    /// ```
    pub fn check_now(&self, policy: &Policy, partition: impl AsRef<[u8]>) -> Option<Outcome> {
        self.try_one(&Check::new(policy, &partition))
    }

    /// Decides about a group without awaiting, like [`check_now`](Self::check_now). Returns `None`, and charges nothing, if a
    /// round trip is needed.
    ///
    /// Also returns `None` for a group of more than [`MAX_GROUP`] limits. So never take `None` as allowed: call
    /// [`check_all`](Self::check_all) then, which reports the error.
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
    /// let outcome = match limiter.check_all_now(&group) {
    ///     Some(outcome) => outcome,
    ///     None => limiter.check_all(&group).await?,
    /// };
    /// assert!(outcome.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn check_all_now(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if group.len() > MAX_GROUP { None } else { self.try_all(group) }
    }

    /// Decides about one limit without awaiting, if possible.
    fn try_one(&self, check: &Check<'_>) -> Option<Outcome> {
        let group = slice::from_ref(check);
        if let Backend::Memory(store) = &self.inner.store {
            // Without a group, which would take as long as the decision itself.
            return Some(measured(group, || store.decide_one(check, Mode::Check), slice::from_ref));
        }
        self.cached_denial(group)?.into_only()
    }

    /// Decides about a group without awaiting, if possible.
    fn try_all(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if let Backend::Memory(store) = &self.inner.store {
            return Some(measured(group, || store.decide(group, Mode::Check), GroupOutcome::outcomes));
        }
        self.cached_denial(group)
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
    /// As with [`check`](Self::check), and [`StoreError::GroupTooLarge`] if the group has more than [`MAX_GROUP`] limits.
    pub async fn peek_all(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        validate_size(group)?;
        match self.inner.store.peek(group, self.deadline).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => self.decide_without_store(group, Mode::Peek, error).await,
        }
    }

    /// The denial of this group, if it is in the denial cache.
    fn cached_denial(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let denial = self.inner.store.cached_denial(group)?;
        #[cfg(all(feature = "metrics", feature = "redis"))]
        {
            crate::metrics::denial_cache_hit();
            crate::metrics::decided(group, denial.outcomes());
        }
        Some(denial)
    }

    /// Decides by a store that may take a round trip.
    async fn check_store(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        #[cfg(feature = "metrics")]
        let stopwatch = crate::metrics::Stopwatch::start();
        match self.inner.store.check(group, self.deadline).await {
            Ok(outcome) => {
                #[cfg(feature = "metrics")]
                {
                    stopwatch.decided();
                    crate::metrics::decided(group, outcome.outcomes());
                }
                self.inner.fallback.record_reply();
                Ok(outcome)
            }
            Err(error) => self.decide_without_store(group, Mode::Check, error).await,
        }
    }

    async fn decide_without_store(
        &self,
        group: &[Check<'_>],
        mode: Mode,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        // The timeout of a request with less time than the store's deadline says nothing about the store.
        let is_outage = match (&error, self.inner.store.deadline()) {
            (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
            _ => true,
        };
        Box::pin(self.inner.fallback.decide(group, mode, error, is_outage)).await
    }

    /// Drops the state of one caller under one policy, in the store and in the fallback of this process.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached; it is then unknown whether the state was dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static LOGIN: Policy = Policy::new("login", 1, Duration::from_secs(900));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let _ = limiter.check(&LOGIN, "alice").await?;
    /// assert!(!limiter.peek(&LOGIN, "alice").await?.is_allowed());
    /// // After a talk with support:
    /// limiter.reset(&LOGIN, "alice").await?;
    /// assert!(limiter.peek(&LOGIN, "alice").await?.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn reset(&self, policy: &Policy, partition: impl AsRef<[u8]>) -> Result<(), StoreError> {
        let group = [Check::new(policy, &partition)];
        self.inner.fallback.reset(&group[0]).await?;
        self.inner.store.reset(&group, self.deadline).await
    }

    /// Refunds the charges of a decision, as far as they still count.
    ///
    /// A refund never touches units of a later window, and never raises what remains above the full quota. See
    /// [`GroupOutcome::reservation`].
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store cannot be reached in time; it is then unknown whether the units were refunded. A warning
    /// is logged, at most once per second.
    pub async fn refund(&self, reservation: Reservation<'_>) -> Result<(), StoreError> {
        if reservation.is_degraded() {
            return self.inner.fallback.refund(&reservation).await;
        }
        let result = self.inner.store.refund(&reservation, self.deadline).await;
        if let Err(error) = &result {
            self.inner.fallback.log_failed_refund(error);
        }
        result
    }
}

/// Checks the size of a group.
fn validate_size(group: &[Check<'_>]) -> Result<(), StoreError> {
    if group.len() > MAX_GROUP { Err(StoreError::GroupTooLarge { size: group.len() }) } else { Ok(()) }
}

/// Decides in memory, and records metrics.
#[cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "for the metrics"))]
fn measured<T>(
    group: &[Check<'_>],
    decide: impl FnOnce() -> T,
    outcomes: impl FnOnce(&T) -> &[Outcome],
) -> T {
    #[cfg(feature = "metrics")]
    let stopwatch = crate::metrics::Stopwatch::start();
    let decided = decide();
    #[cfg(feature = "metrics")]
    {
        stopwatch.decided();
        crate::metrics::decided(group, outcomes(&decided));
    }
    decided
}

/// The outcome of a group of one.
fn only(outcome: GroupOutcome) -> Result<Outcome, StoreError> {
    outcome.into_only().ok_or(StoreError::Protocol { expected: "one outcome for one check" })
}
