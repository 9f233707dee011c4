//! Overrides: what files may have, what applies to a request, and what a watch does with each change of its
//! file.

mod applied;
mod at_once;
mod mistakes;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use super::check::KnownLimit;
use super::current::Current;
use super::{Overrides, OverridesError};
use crate::limiter::RateLimiter;
use crate::policy::{Algorithm, Policy};
use crate::store::memory::MemoryStore;

static SHOP: Policy = Policy::new("shop", 10, Duration::from_secs(60));
static BUCKET: Policy = Policy::builder("bucket").max(10).algorithm(Algorithm::TokenBucket).build();
static LOGIN: Policy = Policy::builder("login").max(5).block(Duration::from_secs(600)).build();

/// The policies that the overrides of these tests name.
fn known() -> [&'static Policy; 3] {
    [&SHOP, &BUCKET, &LOGIN]
}

/// A limiter with the overrides of a text.
fn limiter(text: &str) -> Result<RateLimiter, OverridesError> {
    let builder = RateLimiter::builder(MemoryStore::new()).policies(known());
    builder.overrides(text.parse()?).try_build()
}

/// The overrides in force of a limiter with some policies.
fn current() -> Arc<Current> {
    let current = Arc::new(Current::default());
    current.policies.add(known());
    current
}

/// A limit of an attribute.
fn declared(policy: &Policy) -> KnownLimit {
    KnownLimit {
        place: Some("shop::orders (src/shop.rs:12)".to_owned()),
        cost: Some(3),
        has_plan: false,
        ..KnownLimit::of_policy(policy)
    }
}

fn parsed(text: &str) -> Overrides {
    text.parse().unwrap()
}
