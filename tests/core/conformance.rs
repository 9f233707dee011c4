//! The published suite of the store contract, on the built-in stores and on a store as a user would write
//! one.
#![allow(clippy::unnecessary_wraps, clippy::unwrap_used, reason = "tests; the suite wants an option")]

mod broken;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_core::Timestamp;
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::conformance::{Fixture, Tested, cases, clock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, GroupOutcome, MemoryStore, RedisStore, Reservation, StoreError};
use tests::redis::Server;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn memory(clock: &FakeClock) -> Option<MemoryStore> {
    // Small enough for a flood to fill it.
    Some(MemoryStore::with_max_callers(1_000).with_clock(clock.clone()))
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

/// Two stores on one server, as two processes have. Without denial caches: a reset by one ends no entry of
/// the other.
struct TwoOnRedis([RedisStore; 2], #[allow(dead_code, reason = "kept alive")] Server);

impl Fixture for TwoOnRedis {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.0[0]
    }

    fn second(&self) -> Option<&RedisStore> {
        Some(&self.0[1])
    }
}

fn two_on_redis(clock: &FakeClock) -> Option<TwoOnRedis> {
    let server = tests::redis::server()?;
    let store = || server.builder_at(clock).denial_cache_ttl(Duration::ZERO).build().unwrap();
    Some(TwoOnRedis([store(), store()], server))
}

/// A store that keeps bytes, as a file does: it reads the states of a decision, and writes only those that
/// were changed.
#[derive(Debug)]
struct OfBytes {
    clock: FakeClock,
    states: Arc<Mutex<HashMap<u128, Vec<u8>>>>,
}

const DIGEST_KEY: [u8; 16] = [3; 16];

impl OfBytes {
    fn transaction<'a, T>(
        &self,
        checks: impl Iterator<Item = (Check<'a>, Timestamp)>,
        decide: impl FnOnce(&mut HashMap<u128, State>) -> (T, Vec<u128>),
    ) -> Result<T, StoreError> {
        let mut rows = self.states.lock().unwrap();
        let mut states = HashMap::new();
        for (check, at) in checks {
            let digest = check.digest(&DIGEST_KEY, at);
            if let Some(bytes) = rows.get(&digest) {
                states.insert(digest, State::from_bytes(check.policy(), bytes)?);
            }
        }
        let (result, changed) = decide(&mut states);
        rows.extend(changed.iter().map(|digest| (*digest, states[digest].to_bytes())));
        Ok(result)
    }
}

impl Store for OfBytes {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let now = self.clock.now();
        self.transaction(group.iter().map(|check| (*check, now)), |states| {
            let decided = decide_with(group, operation, now, &DIGEST_KEY, states);
            (decided.outcome, decided.changed)
        })
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        let (mut rows, now) = (self.states.lock().unwrap(), self.clock.now());
        rows.retain(|digest, _| group.iter().all(|check| check.digest(&DIGEST_KEY, now) != *digest));
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        self.transaction(reservation.charges().map(|charge| (charge.check(), charge.at())), |states| {
            let refunded = refund_with(reservation, self.clock.now(), &DIGEST_KEY, states);
            (refunded.result, refunded.changed)
        })?
    }
}

/// Two handles on the same bytes.
struct TwoOfBytes([OfBytes; 2]);

impl Fixture for TwoOfBytes {
    type Store = OfBytes;

    fn store(&self) -> &OfBytes {
        &self.0[0]
    }

    fn second(&self) -> Option<&OfBytes> {
        Some(&self.0[1])
    }
}

fn of_bytes(clock: &FakeClock) -> Option<TwoOfBytes> {
    let states = Arc::default();
    Some(TwoOfBytes([(), ()].map(|()| OfBytes { clock: clock.clone(), states: Arc::clone(&states) })))
}

mod memory_store {
    ratelimit_core::conformance_suite! { store: super::memory, block_on: super::block_on }
}

mod redis_store {
    ratelimit_core::conformance_suite! { store: super::redis, block_on: super::block_on }
}

/// Slots and races; in the histories, of one call after another, two stores are as one.
#[test]
fn two_redis_stores_share_their_counts() {
    let clock = clock();
    let Some(stores) = two_on_redis(&clock) else { return };
    let store = Tested::new(&stores);
    cases::slots_are_held_until_they_are_freed(&store, &clock, |future| block_on(future));
    cases::a_group_takes_its_slots_or_none(&store, &clock, |future| block_on(future));
    cases::one_of_those_that_race_for_a_unit_gets_it(&store, &clock, |future| block_on(future));
    cases::racing_callers_get_exactly_the_limit(&store, &clock, |future| block_on(future));
}

mod store_of_bytes {
    ratelimit_core::conformance_suite! { store: super::of_bytes, block_on: super::block_on }
}
