//! Cases about requests at the same time, and about many callers.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::{ATOMIC, BOUNDED};
use crate::conformance::tested::{Run, Tested, policy};
use crate::policy::{Algorithm, Policy};
use crate::store::Store;

const THREADS: u8 = 8;

/// Where all threads wait before each round. Unlike a barrier of std it does not hang when one of them
/// panics.
#[derive(Default)]
struct StartLine {
    arrived: AtomicUsize,
    has_failed: AtomicBool,
}

impl StartLine {
    /// Waits until all threads begin this round, or until one has failed.
    fn wait(&self, round: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (round + 1) * usize::from(THREADS);
        while self.arrived.load(Ordering::Acquire) < all && !self.has_failed.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}

/// Shows the other threads that this one panics.
struct Runner<'a>(&'a StartLine);

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.has_failed.store(true, Ordering::Relaxed);
        }
    }
}

/// Contract 1: of callers that race for one unit, one gets it. Each round has a fresh caller, and all threads
/// begin it at once.
pub fn one_of_those_that_race_for_a_unit_gets_it(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>) + Sync,
) {
    let policies: Vec<Policy> =
        Algorithm::ALL.iter().map(|&algorithm| policy("race-for-one", algorithm, 1)).collect();
    let passed: [AtomicU64; 100] = [const { AtomicU64::new(0) }; 100];
    let start = StartLine::default();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let _runner = Runner(&start);
                run(Box::pin(async {
                    for (round, (passed, policy)) in passed.iter().zip(policies.iter().cycle()).enumerate() {
                        let caller = round.to_le_bytes();
                        start.wait(round);
                        let outcome = store.check(&[Check::new(policy, &caller)]).await;
                        passed.fetch_add(outcome.is_allowed().into(), Ordering::Relaxed);
                    }
                }));
            });
        }
    });
    for (round, (passed, policy)) in passed.into_iter().zip(policies.iter().cycle()).enumerate() {
        let what = format!("requests of {THREADS} at once that passed under a limit of 1, in round {round}");
        ATOMIC.of(policy.algorithm()).equal(&what, passed.into_inner(), 1);
    }
}

/// Contract 1: under any interleaving exactly `max` requests pass.
pub fn racing_callers_get_exactly_the_limit(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>) + Sync,
) {
    for &algorithm in Algorithm::ALL {
        let clause = ATOMIC.of(algorithm);
        let (shared, own) = (policy("race", algorithm, 50), policy("race-own", algorithm, 1000));
        let passed = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, own, passed, run) = (&shared, &own, &passed, &run);
                scope.spawn(move || {
                    run(Box::pin(async move {
                        let caller = [thread];
                        // Every other thread has its limits in another order.
                        let mut group = [Check::new(shared, "all"), Check::new(own, &caller)];
                        if thread % 2 == 0 {
                            group.reverse();
                        }
                        let mut own_passed = 0;
                        for _ in 0..20 {
                            own_passed += u64::from(store.check(&group).await.is_allowed());
                        }
                        let outcome = store.peek(&[Check::new(own, &caller)]).await;
                        clause.remaining("of a thread's own 1000", &outcome, 0, 1000 - own_passed);
                        passed.fetch_add(own_passed, Ordering::Relaxed);
                    }));
                });
            }
        });
        clause.equal("requests of 160 that passed under a limit of 50", passed.into_inner(), 50);
    }
}

/// Contract 6: a flood of callers does not free a denied one.
pub fn a_flood_of_callers_frees_no_denied_caller(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let policy = policy("flood", Algorithm::SlidingWindowCounter, 1);
        let denied = [Check::new(&policy, "denied")];
        BOUNDED.admitted("the first request", &store.check(&denied).await);
        for other in 0..5_000u32 {
            let _ = store.check(&[Check::new(&policy, &other.to_le_bytes())]).await;
        }
        BOUNDED.denied("the second request, after 5,000 other callers", &store.check(&denied).await);
    }));
}
