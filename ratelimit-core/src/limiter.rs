//! The limiter: what an application holds and asks.

use std::num::NonZeroU32;
use std::slice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::algorithm::Mode;
use crate::error::StoreError;
use crate::fallback::{Ask, Fallback};
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::store::memory::{DEFAULT_MAX_CALLERS, MemoryStore};
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;
use crate::store::{Check, ErasedStore, Reservation, Store};

/// Most limits in one group.
pub const MAX_GROUP: usize = 64;

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

/// The memory is named so that asking it allocates nothing.
#[derive(Debug)]
enum Backend {
    Memory(MemoryStore),
    #[cfg(feature = "redis")]
    Redis(Box<RedisStore>),
    Custom(Box<dyn ErasedStore>),
}

/// Calls a method of whichever store it is; the store in Redis has one that takes a deadline.
macro_rules! ask {
    ($limiter:expr, $method:ident, $within:ident, $argument:expr) => {
        match &$limiter.inner.store {
            Backend::Memory(store) => Store::$method(store, $argument).await,
            #[cfg(feature = "redis")]
            // In a box, so that whoever asks the memory carries nothing of it around.
            Backend::Redis(store) => Box::pin(store.$within($argument, $limiter.deadline)).await,
            Backend::Custom(store) => store.$method($argument).await,
        }
    };
}

static DEFAULT: OnceLock<RateLimiter> = OnceLock::new();

/// Settings of a [`RateLimiter`] that are not those of its store.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimiterBuilder {
    store: Backend,
    instances: NonZeroU32,
    fallback_callers: usize,
}

impl RateLimiterBuilder {
    /// How many processes share the limits; 1 unless set.
    ///
    /// While the store cannot answer, a limit with [`OnError::Local`](crate::policy::OnError::Local) is enforced by each
    /// process alone, at this part of `max` and burst, rounded up.
    pub fn instances(mut self, instances: NonZeroU32) -> Self {
        self.instances = instances;
        self
    }

    /// Callers that are counted in this process while the store cannot answer; 100,000 unless set.
    pub fn fallback_callers(mut self, callers: usize) -> Self {
        self.fallback_callers = callers;
        self
    }

    /// The limiter.
    pub fn build(self) -> RateLimiter {
        let fallback = Fallback::new(self.instances, self.fallback_callers);
        RateLimiter { inner: Arc::new(Inner { store: self.store, fallback }), deadline: Duration::MAX }
    }
}

impl RateLimiter {
    /// Counts in this process.
    ///
    /// Make one and clone it: two of them count apart.
    pub fn in_memory() -> Self {
        Self::with_memory(MemoryStore::new())
    }

    /// Counts in this process, in a store with its own settings.
    pub fn with_memory(store: MemoryStore) -> Self {
        Self::from_backend(Backend::Memory(store)).build()
    }

    /// Shares the counts with every process that uses the same Redis server, Sentinel service or Cluster; see
    /// [`RedisStore::builder`] for the URLs.
    ///
    /// Returns as soon as the host's address is known; the connection is made, and made again whenever it is lost, in the background. While there is
    /// none, every limit follows its own [failure policy](crate::policy::OnError), at once.
    ///
    /// # Errors
    ///
    /// When the URL is not one, or its host has no address.
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Result<Self, crate::error::ConfigError> {
        Ok(Self::with_redis(RedisStore::builder(url).build()?))
    }

    /// Shares the counts through Redis, with settings: `RateLimiter::with_redis(RedisStore::builder(url).build()?)`.
    #[cfg(feature = "redis")]
    pub fn with_redis(store: RedisStore) -> Self {
        Self::redis_builder(store).build()
    }

    /// Settings for a limiter over a store in Redis.
    #[cfg(feature = "redis")]
    pub fn redis_builder(store: RedisStore) -> RateLimiterBuilder {
        Self::from_backend(Backend::Redis(Box::new(store)))
    }

    /// Counts in a store of your own.
    pub fn with_store(store: impl Store) -> Self {
        Self::store_builder(store).build()
    }

    /// Settings for a limiter over a store of your own.
    pub fn store_builder(store: impl Store) -> RateLimiterBuilder {
        Self::from_backend(Backend::Custom(Box::new(store)))
    }

    fn from_backend(store: Backend) -> RateLimiterBuilder {
        RateLimiterBuilder { store, instances: NonZeroU32::MIN, fallback_callers: DEFAULT_MAX_CALLERS }
    }

    /// What kind of store it is, for a line at start: `memory`, `redis` or `custom`.
    pub fn store_kind(&self) -> &'static str {
        match self.inner.store {
            Backend::Memory(_) => "memory",
            #[cfg(feature = "redis")]
            Backend::Redis(_) => "redis",
            Backend::Custom(_) => "custom",
        }
    }

    /// Whether the store can be asked, for a readiness probe: a Redis store is connected. Requests need not wait for it;
    /// until then limits follow their failure policies.
    pub fn is_ready(&self) -> bool {
        match &self.inner.store {
            #[cfg(feature = "redis")]
            Backend::Redis(store) => store.is_connected(),
            _ => true,
        }
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
        match &self.inner.store {
            #[cfg(feature = "redis")]
            Backend::Redis(store) => Some(store.deadline().min(self.deadline)),
            _ => None,
        }
    }

    /// Makes this the limiter of the process, for handlers that find no other.
    ///
    /// # Errors
    ///
    /// When there is one already; it is given back.
    pub fn install(self) -> Result<(), Self> {
        DEFAULT.set(self)
    }

    /// The limiter of the process, if one was [installed](Self::install).
    pub fn installed() -> Option<&'static Self> {
        DEFAULT.get()
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
        self.refused(group)?.into_only()
    }

    /// What can be decided about a group without waiting.
    fn all_now(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if let Backend::Memory(store) = &self.inner.store {
            return Some(measured(group, || store.decide(group, Mode::Check), GroupOutcome::outcomes));
        }
        self.refused(group)
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
        match ask!(self, peek, peek_within, group) {
            Ok(outcome) => Ok(outcome),
            Err(error) => self.decide_without_store(group, Ask::Peek, error).await,
        }
    }

    /// The answer to what was denied a moment ago.
    #[cfg(feature = "redis")]
    fn refused(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        let Backend::Redis(store) = &self.inner.store else { return None };
        let refused = store.refused(group)?;
        #[cfg(feature = "metrics")]
        {
            crate::metrics::refused_locally();
            crate::metrics::decided(group, refused.outcomes());
        }
        Some(refused)
    }

    /// The answer to what was denied a moment ago, which only the store in Redis keeps.
    #[cfg(not(feature = "redis"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    fn refused(&self, _group: &[Check<'_>]) -> Option<GroupOutcome> {
        None
    }

    /// Asks a store that may take its time.
    async fn ask(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        #[cfg(feature = "metrics")]
        let stopwatch = crate::metrics::Stopwatch::start();
        let answer = match &self.inner.store {
            Backend::Memory(store) => Store::check(store, group).await,
            #[cfg(feature = "redis")]
            // What was refused a moment ago has been looked for.
            Backend::Redis(store) => store.check_within(group, self.deadline).await,
            Backend::Custom(store) => store.check(group).await,
        };
        match answer {
            Ok(outcome) => {
                #[cfg(feature = "metrics")]
                {
                    stopwatch.decided();
                    crate::metrics::decided(group, outcome.outcomes());
                }
                self.inner.fallback.store_answered();
                Ok(outcome)
            }
            Err(error) => self.decide_without_store(group, Ask::Check, error).await,
        }
    }

    async fn decide_without_store(
        &self,
        group: &[Check<'_>],
        ask: Ask,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        // A request that had less time than the store is given says nothing about the store.
        let is_outage = match (&error, &self.inner.store) {
            #[cfg(feature = "redis")]
            (StoreError::Timeout { after }, Backend::Redis(store)) => *after >= store.deadline(),
            _ => true,
        };
        Box::pin(self.inner.fallback.decide(group, ask, error, is_outage)).await
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
        ask!(self, reset, reset_within, &group)
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
        let result = ask!(self, refund, refund_within, &reservation);
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

#[cfg(test)]
mod tests;
