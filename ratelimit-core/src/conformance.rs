//! The contract of [`Store`] as runnable tests, for the built-in stores and for your own.
//!
//! [`conformance_suite!`](crate::conformance_suite) stamps one `#[test]` for each of the [cases]. It needs two functions: one that
//! makes an empty store on a given clock, or `None` to skip, and one that runs a future to its end.
//!
//! ```
//! # mod block { pub fn on<F: Future>(future: F) -> F::Output {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
//! # } }
//! use ratelimit_core::MemoryStore;
//! use ratelimit_core::clock::FakeClock;
//!
//! fn memory(clock: &FakeClock) -> Option<MemoryStore> {
//!     Some(MemoryStore::new().with_clock(clock.clone()))
//! }
//!
//! mod memory_store {
//!     ratelimit_core::conformance_suite! { store: super::memory, block_on: super::block::on }
//! }
//! # fn main() {}
//! ```
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "every function here is a test and panics by design"
)]

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::algorithm::{Algorithm, Member, Mode, State, decide};
use crate::clock::{Clock, FakeClock, Timestamp};
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::store::{Check, Reservation, Store};

/// What a suite's store function makes: a store, or something that holds one together with what it needs.
pub trait Fixture: Sync {
    /// The store under test.
    type Store: Store;
    /// The store under test.
    fn store(&self) -> &Self::Store;
}

impl<S: Store> Fixture for S {
    type Store = S;

    fn store(&self) -> &S {
        self
    }
}

/// The specification as a store: [`decide`] over a map, under one lock, and nothing else.
///
/// It forgets nothing, so it is for comparing with and not for use.
pub struct Reference {
    clock: FakeClock,
    states: Mutex<HashMap<u128, State>>,
}

impl Reference {
    /// An empty one.
    pub fn new(clock: &FakeClock) -> Self {
        Self { clock: clock.clone(), states: Mutex::default() }
    }

    fn decide(&self, group: &[Check<'_>], mode: Mode) -> GroupOutcome {
        let mut kept = self.states.lock();
        let mut distinct: Vec<(u128, State)> = Vec::new();
        let mut members = Vec::new();
        for check in group {
            let digest = check.digest(&[0; 16]);
            let state = distinct.iter().position(|(other, _)| *other == digest).unwrap_or_else(|| {
                let state = kept.get(&digest).cloned().unwrap_or_else(|| State::new(check.policy()));
                distinct.push((digest, state));
                distinct.len() - 1
            });
            members.push(Member { policy: check.policy(), cost: check.units(), state });
        }
        let (digests, mut states): (Vec<_>, Vec<_>) = distinct.into_iter().unzip();
        let outcome = decide(&members, &mut states, self.clock.now(), mode);
        if mode == Mode::Check {
            kept.extend(digests.into_iter().zip(states));
        }
        outcome
    }
}

impl Store for Reference {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Check))
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        Ok(self.decide(group, Mode::Peek))
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        for check in group {
            self.states.lock().remove(&check.digest(&[0; 16]));
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        for taken in reservation.taken() {
            let check = taken.check();
            if let Some(state) = self.states.lock().get_mut(&check.digest(&[0; 16])) {
                state.refund(check.policy(), self.clock.now(), taken.at(), taken.until(), check.units());
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference").finish_non_exhaustive()
    }
}

/// Stamps one test for each case of the suite; see the [module](crate::conformance).
#[macro_export]
macro_rules! conformance_suite {
    (store: $store:path, block_on: $block_on:path $(,)?) => {
        $crate::conformance_suite! { @stamp $store, $block_on:
            denied_is_an_outcome_and_takes_nothing
            a_group_is_all_or_nothing
            a_count_that_occurs_twice_is_charged_the_sum
            callers_policies_and_windows_are_apart
            a_partition_may_be_any_bytes
            peek_takes_nothing
            reset_forgets_one_caller
            refund_gives_back_what_was_taken
            refund_does_not_reach_into_a_later_window
            cost_zero_takes_nothing_and_too_high_a_cost_never_passes
            an_empty_group_passes
            a_group_of_the_largest_size_is_judged
            racing_callers_get_exactly_the_limit
            a_flood_of_callers_frees_nobody
            every_decision_is_that_of_the_reference
        }
    };
    (@stamp $store:path, $block_on:path: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                let clock = $crate::conformance::clock();
                let Some(fixture) = $store(&clock) else { return };
                $crate::conformance::cases::$case(
                    $crate::conformance::Fixture::store(&fixture),
                    &clock,
                    |future| $block_on(future),
                );
            }
        )*
    };
}

/// A clock at a fixed instant in 2026, on no round number.
pub fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_790_000_000_123_456))
}

const MINUTE: Duration = Duration::from_secs(60);

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::FixedWindow,
    Algorithm::SlidingWindowCounter,
    Algorithm::SlidingWindowLog,
    Algorithm::TokenBucket,
];

fn policy(key: &'static str, algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder(key).algorithm(algorithm).max(max).window(MINUTE).build()
}

/// The cases. Each takes an empty store, the clock that it reads, and how to run a future; each panics when the store
/// breaks the contract.
pub mod cases {
    use super::{
        ALGORITHMS, Algorithm, Check, Duration, FakeClock, MINUTE, Policy, Reference, Store, policy,
    };

    /// A future of a case, to be run to its end.
    pub type Run<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Contract 5: a denial is an outcome; and it takes nothing, so it does not put off the next pass.
    pub fn denied_is_an_outcome_and_takes_nothing(
        store: &impl Store,
        clock: &FakeClock,
        run: impl Fn(Run<'_>),
    ) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("denied", algorithm, 2);
                let group = [Check::new(&policy, "a")];
                for remaining in [1, 0] {
                    let outcome = store.check(&group).await.unwrap();
                    assert!(outcome.is_allowed(), "{algorithm}");
                    assert_eq!(outcome.outcomes()[0].remaining(), remaining, "{algorithm}");
                }
                let denied = store.check(&group).await.unwrap();
                assert!(!denied.is_allowed(), "{algorithm}");
                let wait = denied.retry_after().expect("a cost within the limit can pass again");
                assert_eq!(store.check(&group).await.unwrap(), denied, "{algorithm}");
                let micro = Duration::from_micros(1);
                clock.advance(wait.saturating_sub(micro));
                assert!(
                    !store.check(&group).await.unwrap().is_allowed(),
                    "{algorithm}: one microsecond early"
                );
                clock.advance(micro);
                assert!(
                    store.check(&group).await.unwrap().is_allowed(),
                    "{algorithm}: at the promised instant"
                );
            }
        }));
    }

    /// Contract 2: when one of a group is denied, none is charged; and the outcome tells which.
    pub fn a_group_is_all_or_nothing(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let wide = policy("wide", Algorithm::SlidingWindowLog, 100);
            let tight = policy("tight", Algorithm::FixedWindow, 1);
            let group = [Check::new(&wide, "a"), Check::new(&tight, "b")];
            assert!(store.check(&group).await.unwrap().is_allowed());
            let denied = store.check(&group).await.unwrap();
            assert!(!denied.is_allowed());
            assert!(denied.outcomes()[0].is_allowed());
            assert!(!denied.outcomes()[1].is_allowed());
            assert_eq!(denied.retry_after(), denied.outcomes()[1].retry_after());
            assert_eq!(denied.outcomes()[0].remaining(), 99);
            let alone = store.peek(&group[..1]).await.unwrap();
            assert_eq!(alone.outcomes()[0].remaining(), 99);
        }));
    }

    /// The same count twice in a group is judged and charged as one sum.
    pub fn a_count_that_occurs_twice_is_charged_the_sum(
        store: &impl Store,
        _: &FakeClock,
        run: impl Fn(Run<'_>),
    ) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("twice", algorithm, 5);
                let twice = [Check::new(&policy, "a").cost(2), Check::new(&policy, "a").cost(1)];
                let outcome = store.check(&twice).await.unwrap();
                assert!(outcome.is_allowed(), "{algorithm}");
                assert_eq!(outcome.outcomes()[0].remaining(), 2, "{algorithm}");
                assert_eq!(outcome.outcomes()[1].remaining(), 2, "{algorithm}");
                assert!(!store.check(&twice).await.unwrap().is_allowed(), "{algorithm}");
                assert!(
                    store.check(&[Check::new(&policy, "a").cost(2)]).await.unwrap().is_allowed(),
                    "{algorithm}"
                );
            }
        }));
    }

    /// Counts are one per caller, key, algorithm and window; `max` alone makes no other count of a window.
    pub fn callers_policies_and_windows_are_apart(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let one = Policy::new("one", 1, MINUTE);
            let fresh = [
                (Policy::new("one", 1, MINUTE), "other"),
                (Policy::new("two", 1, MINUTE), "caller"),
                (Policy::new("one", 1, Duration::from_secs(61)), "caller"),
                (policy("one", Algorithm::FixedWindow, 1), "caller"),
                (Policy::builder("one").max(1).window(MINUTE).sub_windows(2).build(), "caller"),
            ];
            assert!(store.check(&[Check::new(&one, "caller")]).await.unwrap().is_allowed());
            for (policy, caller) in &fresh {
                assert!(store.check(&[Check::new(policy, caller)]).await.unwrap().is_allowed(), "{policy:?}");
            }
            let raised = Policy::new("one", 3, MINUTE);
            let outcome = store.peek(&[Check::new(&raised, "caller")]).await.unwrap();
            assert_eq!(outcome.outcomes()[0].remaining(), 2);
        }));
    }

    /// Any bytes are a caller, and different bytes are different callers.
    pub fn a_partition_may_be_any_bytes(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let policy = policy("bytes", Algorithm::FixedWindow, 1);
            let long = vec![b'x'; 1 << 20];
            let callers: [&[u8]; 13] = [
                b"",
                b"\0",
                b"\0\0",
                b"a:b",
                b"a",
                b"b",
                b"{",
                b"}",
                b"}{",
                b"\r\n",
                b"*",
                b"\xff\xfe",
                &long,
            ];
            for caller in callers {
                assert!(
                    store.check(&[Check::new(&policy, caller)]).await.unwrap().is_allowed(),
                    "{caller:.9?}"
                );
            }
            for caller in callers {
                assert!(
                    !store.check(&[Check::new(&policy, caller)]).await.unwrap().is_allowed(),
                    "{caller:.9?}"
                );
            }
        }));
    }

    /// A peek tells what a check would, and takes nothing.
    pub fn peek_takes_nothing(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("peek", algorithm, 2);
                let group = [Check::new(&policy, "a")];
                for _ in 0..5 {
                    let outcome = store.peek(&group).await.unwrap();
                    assert!(outcome.is_allowed());
                    assert_eq!(outcome.outcomes()[0].remaining(), 2, "{algorithm}");
                    assert_eq!(outcome.outcomes()[0].reset_after(), Duration::ZERO, "{algorithm}");
                }
                for _ in 0..2 {
                    assert!(store.check(&group).await.unwrap().is_allowed());
                }
                assert_eq!(
                    store.peek(&group).await.unwrap(),
                    store.check(&group).await.unwrap(),
                    "{algorithm}"
                );
            }
        }));
    }

    /// A reset forgets one caller's count, and no other's.
    pub fn reset_forgets_one_caller(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("reset", algorithm, 1);
                let (a, b) = ([Check::new(&policy, "a")], [Check::new(&policy, "b")]);
                for group in [&a, &b] {
                    assert!(store.check(group).await.unwrap().is_allowed());
                }
                store.reset(&a).await.unwrap();
                assert!(store.check(&a).await.unwrap().is_allowed(), "{algorithm}");
                assert!(!store.check(&b).await.unwrap().is_allowed(), "{algorithm}");
            }
            store.reset(&[]).await.unwrap();
        }));
    }

    /// A refund gives back what its reservation took, never more than there was.
    pub fn refund_gives_back_what_was_taken(store: &impl Store, clock: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("refund", algorithm, 10);
                let (group, other) = ([Check::new(&policy, "a").cost(4)], [Check::new(&policy, "a").cost(3)]);
                let outcome = store.check(&group).await.unwrap();
                clock.advance(Duration::from_micros(1));
                assert!(store.check(&other).await.unwrap().is_allowed());
                let twice = outcome.reservation(&group).unwrap();
                store.refund(&twice).await.unwrap();
                assert_eq!(store.peek(&other).await.unwrap().outcomes()[0].remaining(), 7, "{algorithm}");
                // Against the rules, but it must not make more than the full quota of it.
                for _ in 0..3 {
                    store.refund(&twice).await.unwrap();
                }
                assert!(store.peek(&other).await.unwrap().outcomes()[0].remaining() <= 10, "{algorithm}");
            }
        }));
    }

    /// A refund that comes when its window is over gives back nothing.
    pub fn refund_does_not_reach_into_a_later_window(
        store: &impl Store,
        clock: &FakeClock,
        run: impl Fn(Run<'_>),
    ) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("late", algorithm, 10);
                let group = [Check::new(&policy, "a").cost(4)];
                let early = store.check(&group).await.unwrap();
                clock.advance(MINUTE * 2 + Duration::from_micros(1));
                assert!(store.check(&group).await.unwrap().is_allowed());
                store.refund(&early.reservation(&group).unwrap()).await.unwrap();
                assert_eq!(store.peek(&group).await.unwrap().outcomes()[0].remaining(), 6, "{algorithm}");
            }
        }));
    }

    /// Costs at and beyond the ends of their range.
    pub fn cost_zero_takes_nothing_and_too_high_a_cost_never_passes(
        store: &impl Store,
        _: &FakeClock,
        run: impl Fn(Run<'_>),
    ) {
        run(Box::pin(async {
            for algorithm in ALGORITHMS {
                let policy = policy("cost", algorithm, 3);
                let cost = |cost| [Check::new(&policy, "a").cost(cost)];
                for too_high in [4, 1 << 40, u64::MAX] {
                    let outcome = store.check(&cost(too_high)).await.unwrap();
                    assert!(!outcome.is_allowed(), "{algorithm}");
                    assert_eq!(outcome.retry_after(), None, "{algorithm}");
                }
                assert!(store.check(&cost(0)).await.unwrap().is_allowed(), "{algorithm}");
                let all = store.check(&cost(3)).await.unwrap();
                assert!(all.is_allowed(), "{algorithm}");
                assert_eq!(all.outcomes()[0].remaining(), 0, "{algorithm}");
                assert!(store.check(&cost(0)).await.unwrap().is_allowed(), "{algorithm}");
            }
        }));
    }

    /// No limits deny nothing.
    pub fn an_empty_group_passes(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let outcome = store.check(&[]).await.unwrap();
            assert!(outcome.is_allowed());
            assert_eq!(outcome.tightest(), None);
        }));
    }

    /// As many limits as a group can have, of all algorithms.
    pub fn a_group_of_the_largest_size_is_judged(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let policies = ALGORITHMS.map(|algorithm| policy("large", algorithm, 2));
            let callers: Vec<String> = (0..crate::MAX_GROUP).map(|i| format!("{i}")).collect();
            let group: Vec<_> = callers
                .iter()
                .zip(policies.iter().cycle())
                .map(|(caller, p)| Check::new(p, caller))
                .collect();
            for remaining in [1, 0] {
                let outcome = store.check(&group).await.unwrap();
                assert!(outcome.is_allowed());
                assert!(outcome.outcomes().iter().all(|one| one.remaining() == remaining));
            }
            assert!(!store.check(&group).await.unwrap().is_allowed());
        }));
    }

    /// Contract 1: whatever the interleaving, exactly as many pass as may.
    pub fn racing_callers_get_exactly_the_limit(
        store: &impl Store,
        _: &FakeClock,
        run: impl Fn(Run<'_>) + Sync,
    ) {
        for algorithm in ALGORITHMS {
            let (shared, own) = (policy("race", algorithm, 50), policy("race-own", algorithm, 1000));
            let passed = std::sync::atomic::AtomicU64::new(0);
            std::thread::scope(|scope| {
                for thread in 0..8u8 {
                    let (shared, own, passed, run) = (&shared, &own, &passed, &run);
                    scope.spawn(move || {
                        run(Box::pin(async move {
                            let caller = [thread];
                            // Every other thread names its limits in another order.
                            let mut group = [Check::new(shared, "all"), Check::new(own, &caller)];
                            if thread % 2 == 0 {
                                group.reverse();
                            }
                            let mut mine = 0;
                            for _ in 0..20 {
                                mine += u64::from(store.check(&group).await.unwrap().is_allowed());
                            }
                            let left = store.peek(&[Check::new(own, &caller)]).await.unwrap();
                            assert_eq!(left.outcomes()[0].remaining(), 1000 - mine, "{algorithm}");
                            passed.fetch_add(mine, std::sync::atomic::Ordering::Relaxed);
                        }));
                    });
                }
            });
            assert_eq!(passed.into_inner(), 50, "{algorithm}");
        }
    }

    /// Contract 6: many others make nobody who is denied pass.
    pub fn a_flood_of_callers_frees_nobody(store: &impl Store, _: &FakeClock, run: impl Fn(Run<'_>)) {
        run(Box::pin(async {
            let policy = policy("flood", Algorithm::SlidingWindowCounter, 1);
            let denied = [Check::new(&policy, "denied")];
            assert!(store.check(&denied).await.unwrap().is_allowed());
            for other in 0..5_000u32 {
                let caller = other.to_le_bytes();
                let _ = store.check(&[Check::new(&policy, &caller)]).await.unwrap();
            }
            assert!(!store.check(&denied).await.unwrap().is_allowed());
        }));
    }

    /// Contract 3: a long random story, compared field by field with [`Reference`].
    pub fn every_decision_is_that_of_the_reference(
        store: &impl Store,
        clock: &FakeClock,
        run: impl Fn(Run<'_>),
    ) {
        run(Box::pin(async {
            let policies = [
                policy("random", Algorithm::FixedWindow, 5),
                policy("random", Algorithm::SlidingWindowCounter, 7),
                Policy::builder("random").max(9).window(MINUTE).sub_windows(6).build(),
                policy("random", Algorithm::SlidingWindowLog, 6),
                Policy::builder("random")
                    .algorithm(Algorithm::TokenBucket)
                    .max(7)
                    .window(MINUTE)
                    .burst(3)
                    .build(),
            ];
            let reference = Reference::new(clock);
            // A linear congruential generator (Knuth's MMIX), so that every run is the same.
            let mut seed = 2026u64;
            let mut random = |below: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) % below
            };
            let callers = [[0u8], [1]];
            let everything = |cost: u64| -> Vec<Check<'_>> {
                let checks =
                    policies.iter().flat_map(|policy| callers.iter().map(move |c| Check::new(policy, c)));
                checks.map(|check| check.cost(cost)).collect()
            };
            // What was taken, to be given back at once or later.
            let mut reservations = Vec::new();
            // Until an instant at which a limit frees something, as the last outcomes promise.
            let mut waits = Vec::new();
            for step in 0..2_000 {
                let micro = Duration::from_micros(1);
                let promised: Option<&Duration> = waits.get(usize::try_from(random(6)).unwrap());
                clock.advance(match (random(4), promised) {
                    (0, Some(wait)) => wait.saturating_sub(micro) + micro * u32::try_from(random(3)).unwrap(),
                    (1, _) => Duration::ZERO,
                    _ => Duration::from_micros(random(12_000_000)),
                });
                let group: Vec<Check<'_>> = (0..=random(3))
                    .map(|_| {
                        let policy = &policies[usize::try_from(random(policies.len() as u64)).unwrap()];
                        Check::new(policy, &callers[usize::try_from(random(2)).unwrap()]).cost(random(4))
                    })
                    .collect();
                let expected = reference.check(&group).await.unwrap();
                let outcome = store.check(&group).await.unwrap();
                assert_eq!(outcome, expected, "step {step}: {group:?}");
                let told = expected.outcomes().iter();
                waits = told
                    .flat_map(|one| [Some(one.reset_after()), one.retry_after()])
                    .flatten()
                    .collect::<Vec<_>>();
                // What this step stored may differ only at the next: an outcome is about one instant.
                let all = everything(random(4));
                let (stored, model) = (store.peek(&all).await.unwrap(), reference.peek(&all).await.unwrap());
                assert_eq!(stored, model, "step {step}: after {group:?}");
                reservations.extend(outcome.reservation(&group));
                if random(2) == 0 && !reservations.is_empty() {
                    let which = usize::try_from(random(reservations.len() as u64)).unwrap();
                    let reservation = reservations.remove(which);
                    store.refund(&reservation).await.unwrap();
                    reference.refund(&reservation).await.unwrap();
                    let (stored, model) =
                        (store.peek(&all).await.unwrap(), reference.peek(&all).await.unwrap());
                    assert_eq!(stored, model, "step {step}: after a refund");
                }
                if reservations.len() > 3 {
                    reservations.remove(0);
                }
            }
        }));
    }
}
