//! Building limiters: constructors and settings.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::backend::Backend;
use super::{Inner, RateLimiter};
use crate::fallback::Fallback;
use crate::store::Store;
use crate::store::memory::{DEFAULT_MAX_CALLERS, MemoryStore};
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;

/// Settings of a [`RateLimiter`] beside those of its store.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct RateLimiterBuilder {
    store: Backend,
    instances: NonZeroU32,
    fallback_callers: usize,
}

impl RateLimiterBuilder {
    /// Number of processes that share the limits; by default 1.
    ///
    /// During an outage of the store, each process enforces a limit with [`OnError::Local`](crate::OnError::Local) by
    /// itself, at `max` and burst divided by this number, rounded up.
    pub fn instances(mut self, instances: NonZeroU32) -> Self {
        self.instances = instances;
        self
    }

    /// Number of callers that this process counts during an outage of the store; by default 100,000. A caller counts once for
    /// each of its policies.
    pub fn fallback_callers(mut self, callers: usize) -> Self {
        self.fallback_callers = callers;
        self
    }

    /// Builds the limiter with these settings. Clone it to share its counts; it cannot fail, because stores check their
    /// settings when they are built.
    pub fn build(self) -> RateLimiter {
        let fallback = Fallback::new(self.instances, self.fallback_callers);
        RateLimiter { inner: Arc::new(Inner { store: self.store, fallback }), deadline: Duration::MAX }
    }
}

impl RateLimiter {
    /// Creates a limiter that counts in this process, for up to 100,000 callers.
    ///
    /// Create one and clone it: two limiters count separately.
    pub fn in_memory() -> Self {
        Self::with_memory(MemoryStore::new())
    }

    /// Creates a limiter over an in-process store with settings of its own.
    pub fn with_memory(store: MemoryStore) -> Self {
        Self::from_backend(Backend::Memory(store)).build()
    }

    /// Creates a limiter that shares its counts with every process that uses the same Redis server, Sentinel service or
    /// Cluster. [`RedisStore::builder`] lists the forms of the URL.
    ///
    /// Resolves the host on the calling thread, which blocks while DNS replies, and starts a thread that connects in the
    /// background and reconnects whenever the connection is lost. While there is no connection, every limit follows its
    /// [failure policy](crate::OnError) at once.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RedisUrl`](crate::ConfigError::RedisUrl) if the URL is invalid,
    /// [`ConfigError::RedisHost`](crate::ConfigError::RedisHost) if its host has no address, and
    /// [`ConfigError::Thread`](crate::ConfigError::Thread) if the thread does not start.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_core::RateLimiter;
    ///
    /// # fn main() -> Result<(), ratelimit_core::ConfigError> {
    /// let limiter = RateLimiter::redis("redis://127.0.0.1/")?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Result<Self, crate::error::ConfigError> {
        Ok(Self::with_redis(RedisStore::builder(url).build()?))
    }

    /// Creates a limiter over a Redis store with settings of its own:
    /// `RateLimiter::with_redis(RedisStore::builder(url).build()?)`.
    #[cfg(feature = "redis")]
    pub fn with_redis(store: RedisStore) -> Self {
        Self::redis_builder(store).build()
    }

    /// Starts a limiter over a Redis store.
    #[cfg(feature = "redis")]
    pub fn redis_builder(store: RedisStore) -> RateLimiterBuilder {
        Self::from_backend(Backend::Redis(Box::new(store)))
    }

    /// Creates a limiter over a store of your own: see [`Store`] for its contract, the
    /// [conformance suite](crate::conformance) for its tests, and `examples/custom_store.rs`.
    ///
    /// For the built-in stores use [`with_memory`](Self::with_memory) and `with_redis`: through this
    /// constructor [`check_now`](Self::check_now) never decides, and [`is_ready`](Self::is_ready) is always true.
    pub fn with_store(store: impl Store) -> Self {
        Self::store_builder(store).build()
    }

    /// Starts a limiter over a store of your own.
    pub fn store_builder(store: impl Store) -> RateLimiterBuilder {
        Self::from_backend(Backend::Custom(Box::new(store)))
    }

    fn from_backend(store: Backend) -> RateLimiterBuilder {
        RateLimiterBuilder { store, instances: NonZeroU32::MIN, fallback_callers: DEFAULT_MAX_CALLERS }
    }
}
