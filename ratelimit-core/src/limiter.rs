//! The limiter: what an application holds and asks.

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

/// Decides whether requests pass; cheap to clone, and clones share their counts.
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
    /// How long a call waits for the store at most; the store's own deadline holds in any case.
    deadline: Duration,
}

#[derive(Debug)]
struct Inner {
    store: Backend,
    fallback: Fallback,
}

impl RateLimiter {
    /// What kind of store it is, for a line at start: `memory`, `redis` or `custom`.
    pub fn store_kind(&self) -> &'static str {
        self.inner.store.kind()
    }

    /// Whether the store can be asked, for a readiness probe: a Redis store is connected. Requests need not wait for it;
    /// until then limits follow their failure policies.
    pub fn is_ready(&self) -> bool {
        self.inner.store.is_ready()
    }

    /// This limiter with less time: a call waits for the store no longer than `deadline`, nor than the store's own deadline.
    ///
    /// For work that asks several times and has one deadline in all. It holds for a store in Redis; memory never waits, and
    /// a store of your own keeps its own time. Counts and settings are shared with this limiter.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: Arc::clone(&self.inner), deadline: deadline.min(self.deadline) }
    }

    /// How long a call waits for the store at most; `None` in memory, which never waits, and with a store of your own.
    pub fn deadline(&self) -> Option<Duration> {
        self.inner.store.deadline().map(|deadline| deadline.min(self.deadline))
    }

    /// Takes one unit of `policy` for the caller `partition`, if it passes.
    ///
    /// # Errors
    ///
    /// When the store cannot decide and the policy is [`OnError::Deny`](crate::policy::OnError::Deny). A denial is not an
    /// error.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped has taken the unit or not; it never takes a part of a group.
    pub fn check(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> {
        // The very future, since another one around it would be moved once more.
        self.check_n(policy, partition, 1)
    }

    /// Takes `cost` units, all or none; 0 takes nothing, and more than the limit never passes.
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
        if let Some(outcome) = self.one_now(&Check::new(policy, &partition).cost(cost)) {
            return Ok(outcome);
        }
        // In a box with all that it needs: a future is copied until it is polled, and copying a large one takes longer
        // than a decision in memory.
        let ask = async move {
            let group = [Check::new(policy, &partition).cost(cost)];
            only(self.ask(&group).await?)
        };
        Box::pin(ask).await
    }

    /// Judges several limits at once: all pass and all are charged, or nothing is.
    ///
    /// They may differ in policy, caller and cost. A count that occurs twice is charged the sum.
    ///
    /// # Errors
    ///
    /// When the store cannot decide, or the group has more than [`MAX_GROUP`] limits.
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
    /// let group = [Check::new(&BURST, "tenant-42"), Check::new(&DAILY, "tenant-42").cost(5)];
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
        bounded(group)?;
        match self.all_now(group) {
            Some(outcome) => Ok(outcome),
            // In a box, so that whoever asks the memory carries nothing of it around.
            None => Box::pin(self.ask(group)).await,
        }
    }

    /// [`check`](Self::check) without a future, for callers that are not async or want the last nanoseconds: `None` when
    /// that has to ask a server, and then nothing has been taken.
    ///
    /// In memory it always decides. With Redis it knows of those who were denied a moment ago, and nothing else. With a
    /// store of your own it knows of nobody.
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
        self.one_now(&Check::new(policy, &partition))
    }

    /// [`check_all`](Self::check_all) without a future, as [`check_now`](Self::check_now): `None` when that has to ask a
    /// server, and for a group of more than [`MAX_GROUP`] limits; then nothing has been taken.
    ///
    /// # Examples
    ///
    /// Works with any store, and waits only when it must:
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Check, Policy, RateLimiter};
    ///
    /// static BYTES: Policy = Policy::new("bytes", 1_000_000, Duration::from_secs(60));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let group = [Check::new(&BYTES, "tenant-42").cost(600_000)];
    /// let outcome = match limiter.check_all_now(&group) {
    ///     Some(outcome) => outcome,
    ///     None => limiter.check_all(&group).await?,
    /// };
    /// assert!(outcome.is_allowed());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn check_all_now(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if group.len() > MAX_GROUP { None } else { self.all_now(group) }
    }

    /// What can be decided about one limit without waiting.
    fn one_now(&self, check: &Check<'_>) -> Option<Outcome> {
        let group = slice::from_ref(check);
        if let Backend::Memory(store) = &self.inner.store {
            // Without the detour over a group, which takes as long as the decision.
            return Some(measured(group, || store.decide_one(check, Mode::Check), slice::from_ref));
        }
        self.cached_denial(group)?.into_only()
    }

    /// What can be decided about a group without waiting.
    fn all_now(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if let Backend::Memory(store) = &self.inner.store {
            return Some(measured(group, || store.decide(group, Mode::Check), GroupOutcome::outcomes));
        }
        self.cached_denial(group)
    }

    /// What would be decided now about one unit; takes nothing.
    ///
    /// # Errors
    ///
    /// When the store cannot decide.
    pub async fn peek(&self, policy: &Policy, partition: impl AsRef<[u8]>) -> Result<Outcome, StoreError> {
        only(self.peek_all(&[Check::new(policy, &partition)]).await?)
    }

    /// What would be decided now about a group; takes nothing.
    ///
    /// # Errors
    ///
    /// When the store cannot decide, or the group has more than [`MAX_GROUP`] limits.
    pub async fn peek_all(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        bounded(group)?;
        match self.inner.store.peek(group, self.deadline).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => self.decide_without_store(group, Mode::Peek, error).await,
        }
    }

    /// A decision of the denial cache.
    fn cached_denial(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let denial = self.inner.store.cached_denial(group)?;
        #[cfg(all(feature = "metrics", feature = "redis"))]
        {
            crate::metrics::refused_locally();
            crate::metrics::decided(group, denial.outcomes());
        }
        Some(denial)
    }

    /// Asks a store that may take its time.
    async fn ask(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        #[cfg(feature = "metrics")]
        let stopwatch = crate::metrics::Stopwatch::start();
        match self.inner.store.check(group, self.deadline).await {
            Ok(outcome) => {
                #[cfg(feature = "metrics")]
                {
                    stopwatch.decided();
                    crate::metrics::decided(group, outcome.outcomes());
                }
                self.inner.fallback.store_answered();
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
        // A request that had less time than the store is given says nothing about the store.
        let is_outage = match (&error, self.inner.store.deadline()) {
            (StoreError::Timeout { after }, Some(deadline)) => *after >= deadline,
            _ => true,
        };
        Box::pin(self.inner.fallback.decide(group, mode, error, is_outage)).await
    }

    /// Forgets what was counted for one caller under one policy, in the store and, for an outage, in this process.
    ///
    /// # Errors
    ///
    /// When the store cannot be reached; whether it has forgotten is then unknown.
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
    /// // Support has talked to her:
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

    /// Gives back what a decision took, as far as it still counts.
    ///
    /// It cannot reach into a later window, and never raises what is left above the full quota. See
    /// [`GroupOutcome::reservation`].
    ///
    /// # Errors
    ///
    /// When the store cannot be reached in time; whether it was given back is then unknown, and the log says so, once a
    /// second at most.
    pub async fn refund(&self, reservation: Reservation<'_>) -> Result<(), StoreError> {
        if reservation.is_degraded() {
            return self.inner.fallback.refund(&reservation).await;
        }
        let result = self.inner.store.refund(&reservation, self.deadline).await;
        if let Err(error) = &result {
            self.inner.fallback.refund_failed(error);
        }
        result
    }
}

fn bounded(group: &[Check<'_>]) -> Result<(), StoreError> {
    if group.len() > MAX_GROUP { Err(StoreError::GroupTooLarge { size: group.len() }) } else { Ok(()) }
}

/// Decides in memory, and tells the metrics.
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
