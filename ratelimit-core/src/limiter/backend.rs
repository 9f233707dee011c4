//! The kinds of stores that a limiter holds.

use std::time::Duration;

use crate::algorithm::Mode;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;
#[cfg(feature = "redis")]
use crate::store::redis::RedisStore;
use crate::store::{ErasedStore, Store};

/// The store of a limiter. The built-in stores are named, so that calls to the in-process store allocate nothing.
#[derive(Debug)]
pub(super) enum Backend {
    Memory(MemoryStore),
    #[cfg(feature = "redis")]
    Redis(Box<RedisStore>),
    Custom(Box<dyn ErasedStore>),
}

#[cfg_attr(not(feature = "redis"), allow(unused_variables, reason = "deadlines are for the Redis store"))]
impl Backend {
    /// `memory`, `redis` or `custom`.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
            Self::Custom(_) => "custom",
        }
    }

    /// Whether the store is ready; a custom store always is.
    pub(super) fn is_ready(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.is_connected(),
            Self::Memory(_) | Self::Custom(_) => true,
        }
    }

    /// The store's own deadline; `None` if it has none.
    pub(super) fn deadline(&self) -> Option<Duration> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(store) => Some(store.deadline()),
            Self::Memory(_) | Self::Custom(_) => None,
        }
    }

    /// The denial of this group, if it is in the denial cache, which only the Redis store has.
    pub(super) fn cached_denial(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.cached_denial(group),
            Self::Memory(_) | Self::Custom(_) => None,
        }
    }

    /// Decides about a group that is not in the denial cache.
    pub(super) async fn check(
        &self,
        group: &[Check<'_>],
        deadline: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.decide(group, Mode::Check)),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.check_within(group, deadline).await,
            Self::Custom(store) => store.check(group).await,
        }
    }

    pub(super) async fn peek(
        &self,
        group: &[Check<'_>],
        deadline: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        match self {
            Self::Memory(store) => Ok(store.decide(group, Mode::Peek)),
            #[cfg(feature = "redis")]
            // Boxed so that the in-memory future stays small.
            Self::Redis(store) => Box::pin(store.peek_within(group, deadline)).await,
            Self::Custom(store) => store.peek(group).await,
        }
    }

    pub(super) async fn reset(&self, group: &[Check<'_>], deadline: Duration) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => Store::reset(store, group).await,
            #[cfg(feature = "redis")]
            // Boxed so that the in-memory future stays small.
            Self::Redis(store) => Box::pin(store.reset_within(group, deadline)).await,
            Self::Custom(store) => store.reset(group).await,
        }
    }

    pub(super) async fn refund(
        &self,
        reservation: &Reservation<'_>,
        deadline: Duration,
    ) -> Result<(), StoreError> {
        match self {
            Self::Memory(store) => Store::refund(store, reservation).await,
            #[cfg(feature = "redis")]
            // Boxed so that the in-memory future stays small.
            Self::Redis(store) => Box::pin(store.refund_within(reservation, deadline)).await,
            Self::Custom(store) => store.refund(reservation).await,
        }
    }
}
