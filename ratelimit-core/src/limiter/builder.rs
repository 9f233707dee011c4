//! Making a limiter over a store.

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
}
