//! The published suite of the store contract, on the built-in stores and on a store as a user would write one.
#![allow(clippy::unnecessary_wraps, clippy::unwrap_used, reason = "tests; the suite wants an option")]

use std::future::Future;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::conformance::{Fixture, Reference};
use ratelimit_core::{MemoryStore, RedisStore};
use tests::redis::Server;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn memory(clock: &FakeClock) -> Option<MemoryStore> {
    // Small enough for a flood to fill it.
    Some(MemoryStore::with_max_callers(1_000).with_clock(clock.clone()))
}

fn custom(clock: &FakeClock) -> Option<Reference> {
    Some(Reference::new(clock))
}

/// A store, and the server that it needs.
struct OnRedis(RedisStore, #[allow(dead_code, reason = "kept alive")] Server);

impl Fixture for OnRedis {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.0
    }
}

fn redis(clock: &FakeClock) -> Option<OnRedis> {
    tests::redis::server().map(|server| OnRedis(server.store_at(clock), server))
}

fn redis_with_leases(clock: &FakeClock) -> Option<OnRedis> {
    let server = tests::redis::server()?;
    let store =
        server.builder_at(clock).default_lease(std::time::Duration::from_millis(100)).build().unwrap();
    Some(OnRedis(store, server))
}

/// Most of its limits are too small for leases; the others must not differ.
mod redis_store_with_leases {
    ratelimit_core::conformance_suite! { store: super::redis_with_leases, block_on: super::block_on }
}

mod memory_store {
    ratelimit_core::conformance_suite! { store: super::memory, block_on: super::block_on }
}

mod redis_store {
    ratelimit_core::conformance_suite! { store: super::redis, block_on: super::block_on }
}

mod custom_store {
    ratelimit_core::conformance_suite! { store: super::custom, block_on: super::block_on }
}
