//! The limits of all attributes, as overrides are checked against them.

use ratelimit_core::__private_0_1::{DeclaredLimits, KnownLimit};
use ratelimit_core::{InForce, RateLimiter};

use crate::address::Ipv6Prefix;
use crate::caller::Caller;
use crate::caller::notation::NotationError;
use crate::handler::registry::{DeclaredLimit, declared_limits};

inventory::submit! { DeclaredLimits { limits, caller: partition } }

fn limits() -> Vec<KnownLimit> {
    declared_limits().iter().map(known).collect()
}

/// The partition of the caller that a row names. An IPv6 address without a prefix is that of its /64.
fn partition(row: &str) -> Result<Vec<u8>, String> {
    let caller = Caller::from_notation(row, |address| Ipv6Prefix::DEFAULT.group(address));
    let partition = caller.and_then(|caller| Ok(caller.partition().ok_or(NotationError::Empty)?.to_vec()));
    partition.map_err(|error| error.to_string())
}

fn known(limit: &DeclaredLimit) -> KnownLimit {
    KnownLimit {
        policy: limit.policy().clone(),
        place: Some(format!("{}::{} ({}:{})", limit.module(), limit.handler(), limit.file(), limit.line())),
        cost: limit.cost(),
        computes_max: limit.max().is_none(),
        has_plan: limit.has_plan(),
        encodes_callers: true,
    }
}

impl DeclaredLimit {
    /// The numbers that are in force under this limiter, and where each comes from, for callers without a row of their own.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::core::overrides::{Field, Origin};
    /// use ratelimit_actix::{MemoryStore, Overrides, RateLimiter, declared_limits, rate_limit};
    ///
    /// #[rate_limit(max = 10, window = "60s", key = "shop")]
    /// async fn shop() -> &'static str {
    ///     "shop"
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let overrides: Overrides = "[limit.shop]\nmax = 20".parse()?;
    /// let limiter = RateLimiter::builder(MemoryStore::new()).overrides(overrides)?.build();
    /// let shop = declared_limits().into_iter().find(|limit| limit.key() == "shop").unwrap();
    /// let in_force = shop.in_force(&limiter);
    /// assert_eq!(in_force.policy().max(), 20);
    /// assert_eq!(in_force.origin_of(Field::Max), Origin::Limit);
    /// assert_eq!(in_force.origin_of(Field::Window), Origin::Program);
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_force(&self, limiter: &RateLimiter) -> InForce<'static> {
        limiter.in_force(self.policy())
    }

    /// The rows of plans and callers under this limiter; see [`RateLimiter::override_rows`].
    pub fn override_rows(&self, limiter: &RateLimiter) -> Vec<(String, InForce<'static>)> {
        limiter.override_rows(self.policy())
    }
}
