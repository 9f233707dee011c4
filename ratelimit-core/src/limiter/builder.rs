//! Building limiters: constructors and settings.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::backend::Backend;
use super::{Inner, RateLimiter};
use crate::clock::{Clock, SystemClock};
use crate::fallback::Fallback;
use crate::observe::Observer;
use crate::store::Store;
use crate::store::memory::{DEFAULT_MAX_CALLERS, MemoryStore};

/// Settings of a [`RateLimiter`], except the settings of its store.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimiterBuilder {
    store: Backend,
    instances: NonZeroU32,
    fallback_callers: usize,
    shadow: bool,
    near_limit_ratio: f64,
    clock: Arc<dyn Clock>,
    /// The overrides in force, and the policies that they may name.
    pub(super) current: Arc<crate::overrides::Current>,
    #[cfg(feature = "overrides")]
    pub(super) overrides: Option<crate::overrides::Overrides>,
}

impl RateLimiterBuilder {
    /// Number of processes that share the limits; by default 1.
    ///
    /// During an outage of the store, each process enforces a limit with
    /// [`OnError::Local`](crate::OnError::Local) by itself, at `max` and burst divided by this number,
    /// rounded up. A request that costs more is denied until the store is back. With more processes,
    /// the Redis store also makes [leases](crate::PolicyBuilder::lease) smaller.
    pub fn instances(mut self, instances: NonZeroU32) -> Self {
        self.instances = instances;
        self
    }

    /// Number of callers that this process counts during an outage of the store; by default 100,000. A caller
    /// counts once for each of its policies.
    pub fn fallback_callers(mut self, callers: usize) -> Self {
        self.fallback_callers = callers;
        self
    }

    /// Makes every limit of this limiter a [shadow limit](crate::Mode::Shadow), which denies nothing and
    /// reports what it would deny; by default `false`.
    ///
    /// The policies keep their modes, and with them their counts: a limiter that enforces them over the same
    /// store finds what this one has counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{MemoryStore, Policy, RateLimiter};
    ///
    /// static SEARCH: Policy = Policy::new("search", 1, Duration::from_secs(60));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::builder(MemoryStore::new()).shadow(true).build();
    /// assert!(!limiter.check(&SEARCH, "tenant-42").await?.would_deny());
    /// let outcome = limiter.check(&SEARCH, "tenant-42").await?;
    /// assert!(outcome.is_allowed() && outcome.would_deny());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Sets the share of a limit below which an admitted request counts as near the limit, in the metric
    /// `ratelimit_near_limit_total` and in the statistics; by default 0.1. With 0 no request does.
    #[cfg(any(feature = "metrics", feature = "stats"))]
    pub fn near_limit_ratio(mut self, ratio: f64) -> Self {
        self.near_limit_ratio = ratio;
        self
    }

    /// Sets the clock by which requests [wait](RateLimiter::wait); by default the clock of a [`MemoryStore`],
    /// and the system's for any other store.
    #[cfg(any(test, feature = "test-util"))]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the limiter with these settings. Clone it to share its counts.
    ///
    /// # Panics
    ///
    /// If an attribute of the program names a time zone that does not exist, and if `overrides` are wrong:
    /// with these call `try_build`.
    pub fn build(self) -> RateLimiter {
        #[cfg(feature = "overrides")]
        let built = self.try_build().unwrap_or_else(|error| panic!("{error}"));
        #[cfg(not(feature = "overrides"))]
        let built = self.finish();
        built
    }

    /// Builds the limiter with these settings, as [`build`](Self::build) does.
    ///
    /// # Errors
    ///
    /// If the overrides name what the program does not have, set numbers out of their bounds, or would let no
    /// request pass. One error lists the mistakes, up to 100. Also if their file is
    /// [watched](crate::Overrides::watch), and its thread does not start.
    ///
    /// # Panics
    ///
    /// If an attribute of the program names a time zone that does not exist.
    #[cfg(feature = "overrides")]
    pub fn try_build(mut self) -> Result<RateLimiter, crate::OverridesError> {
        if let Some(overrides) = self.overrides.take() {
            overrides.start(&self.current)?;
        }
        Ok(self.finish())
    }

    fn finish(self) -> RateLimiter {
        #[cfg(feature = "calendar")]
        crate::policy::calendar::DeclaredZones::check_all();
        self.store.as_dyn().set_instances(self.instances);
        let fallback = Fallback::new(self.instances, self.fallback_callers);
        let observer = Observer::new(self.near_limit_ratio);
        if !matches!(self.store, Backend::Memory(_)) {
            observer.store_made();
        }
        let deadline = self.store.as_dyn().deadline().unwrap_or(Duration::MAX);
        let Self { store, shadow, clock, current, .. } = self;
        let inner = Inner { store, fallback, observer, shadow, clock, overrides: current };
        RateLimiter { inner: Arc::new(inner), deadline }
    }
}

impl RateLimiter {
    /// Creates a limiter over a store: a [`MemoryStore`] or a `RedisStore` with settings of its own, or a
    /// custom [`Store`].
    ///
    /// Create one and clone it. See [`Store`] for the contract of a custom store, the
    /// conformance suite of the feature `test-util` for its tests, and `examples/custom_store.rs`.
    /// [`builder`](Self::builder) has further settings.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{MemoryStore, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(MemoryStore::with_max_callers(1_000_000));
    /// assert_eq!(limiter.store_kind(), "memory");
    /// ```
    pub fn new(store: impl Store) -> Self {
        Self::builder(store).build()
    }

    /// Starts a limiter over a store, with further settings.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::num::NonZeroU32;
    /// use ratelimit_core::{RateLimiter, RedisStore};
    ///
    /// # fn main() -> Result<(), ratelimit_core::RedisConfigError> {
    /// let store = RedisStore::builder("redis://127.0.0.1/").build()?;
    /// // During an outage each of the four processes enforces a quarter of a limit.
    /// let limiter = RateLimiter::builder(store).instances(const { NonZeroU32::new(4).unwrap() }).build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(store: impl Store) -> RateLimiterBuilder {
        let store = Backend::new(store);
        let clock: Arc<dyn Clock> = match &store {
            Backend::Memory(store) => Arc::clone(store.clock()),
            _ => Arc::new(SystemClock::new()),
        };
        RateLimiterBuilder {
            store,
            clock,
            instances: NonZeroU32::MIN,
            fallback_callers: DEFAULT_MAX_CALLERS,
            shadow: false,
            near_limit_ratio: 0.1,
            current: Arc::default(),
            #[cfg(feature = "overrides")]
            overrides: None,
        }
    }

    /// Creates a limiter that counts in this process, for up to 100,000 callers:
    /// `RateLimiter::new(MemoryStore::new())`.
    ///
    /// Create one and clone it: two limiters count separately.
    pub fn in_memory() -> Self {
        Self::new(MemoryStore::new())
    }

    /// Creates a limiter that shares its counts with every process that uses the same Redis server, Sentinel
    /// service or Cluster: `RateLimiter::new(RedisStore::builder(url).build()?)`.
    /// [`RedisStore::builder`](crate::RedisStore::builder) lists the forms of the URL.
    ///
    /// Returns at once: neither a DNS look-up nor a connection is made on the calling thread. Starts a thread
    /// that connects in the background and reconnects whenever the connection is lost. An attempt that fails
    /// is logged with its cause, such as a host that does not resolve. While there is no connection, every
    /// limit follows its [failure policy](crate::OnError) at once. [`is_ready`](Self::is_ready) reports the
    /// connection.
    ///
    /// # Errors
    ///
    /// [`RedisConfigError::Url`](crate::RedisConfigError::Url) if the URL is invalid, and
    /// [`RedisConfigError::Thread`](crate::RedisConfigError::Thread) if the thread does not start.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_core::RateLimiter;
    ///
    /// # fn main() -> Result<(), ratelimit_core::RedisConfigError> {
    /// let limiter = RateLimiter::redis("redis://127.0.0.1/")?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Result<Self, crate::store::redis::RedisConfigError> {
        Ok(Self::new(crate::store::redis::RedisStore::builder(url).build()?))
    }
}
