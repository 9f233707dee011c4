//! The cases of the conformance suite. Each takes an empty store, the store's clock, and a function that runs a future to its
//! end; each panics if the store breaks the contract.

mod blocks;
mod late_costs;
mod random;
mod shadow;

use std::time::Duration;

pub use self::blocks::{only_an_own_denial_begins_a_block, the_first_denial_blocks_until_its_end};
pub use self::late_costs::{
    a_debt_is_paid_by_time, as_many_units_as_fit_are_charged, the_largest_debt_is_bounded,
};
pub use self::random::every_decision_is_that_of_the_reference;
pub use self::shadow::a_shadow_limit_is_charged_and_denies_nothing;
use super::Tested;
pub use super::setup::Run;
use super::setup::{MINUTE, policy};
use crate::check::{Check, MAX_GROUP};
use crate::clock::FakeClock;
use crate::policy::{Algorithm, Policy};
use crate::store::Store;

/// Contract 5: a denial is an outcome. It charges nothing, so it does not delay the next request that passes.
pub fn denied_is_an_outcome_and_takes_nothing(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("denied", algorithm, 2);
            let group = [Check::new(&policy, "a")];
            for remaining in [1, 0] {
                let outcome = store.check(&group).await;
                assert!(outcome.is_allowed(), "{algorithm}");
                assert_eq!(outcome.outcomes()[0].remaining(), remaining, "{algorithm}");
            }
            let denied = store.check(&group).await;
            assert!(!denied.is_allowed(), "{algorithm}");
            let wait = denied.retry_after().expect("a cost within the limit can pass again");
            assert_eq!(store.check(&group).await, denied, "{algorithm}");
            let micro = Duration::from_micros(1);
            clock.advance(wait.saturating_sub(micro));
            assert!(!store.check(&group).await.is_allowed(), "{algorithm}: one microsecond early");
            clock.advance(micro);
            assert!(store.check(&group).await.is_allowed(), "{algorithm}: at the promised instant");
        }
    }));
}

/// Contract 2: if one limit of a group denies, none is charged, and the outcome reports which.
pub fn a_group_is_all_or_nothing(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let wide = policy("wide", Algorithm::SlidingWindowLog, 100);
        let tight = policy("tight", Algorithm::FixedWindow, 1);
        let group = [Check::new(&wide, "a"), Check::new(&tight, "b")];
        assert!(store.check(&group).await.is_allowed());
        let denied = store.check(&group).await;
        assert!(!denied.is_allowed());
        assert!(denied.outcomes()[0].is_allowed());
        assert!(!denied.outcomes()[1].is_allowed());
        assert_eq!(denied.retry_after(), denied.outcomes()[1].retry_after());
        assert_eq!(denied.outcomes()[0].remaining(), 99);
        let alone = store.peek(&group[..1]).await;
        assert_eq!(alone.outcomes()[0].remaining(), 99);
    }));
}

/// A state that occurs twice in a group is decided and charged as one sum.
pub fn a_count_that_occurs_twice_is_charged_the_sum(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("twice", algorithm, 5);
            let twice = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "a").with_cost(1)];
            let outcome = store.check(&twice).await;
            assert!(outcome.is_allowed(), "{algorithm}");
            assert_eq!(outcome.outcomes()[0].remaining(), 2, "{algorithm}");
            assert_eq!(outcome.outcomes()[1].remaining(), 2, "{algorithm}");
            assert!(!store.check(&twice).await.is_allowed(), "{algorithm}");
            assert!(store.check(&[Check::new(&policy, "a").with_cost(2)]).await.is_allowed(), "{algorithm}");
        }
    }));
}

/// Callers, keys, algorithms and windows have separate counts; another `max` alone keeps the count of a window.
pub fn callers_policies_and_windows_are_apart(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let one = Policy::new("one", 1, MINUTE);
        let fresh = [
            (Policy::new("one", 1, MINUTE), "other"),
            (Policy::new("two", 1, MINUTE), "caller"),
            (Policy::new("one", 1, Duration::from_secs(61)), "caller"),
            (policy("one", Algorithm::FixedWindow, 1), "caller"),
            (Policy::builder("one").max(1).window(MINUTE).sub_windows(2).build(), "caller"),
        ];
        assert!(store.check(&[Check::new(&one, "caller")]).await.is_allowed());
        for (policy, caller) in &fresh {
            assert!(store.check(&[Check::new(policy, caller)]).await.is_allowed(), "{policy:?}");
        }
        let raised = Policy::new("one", 3, MINUTE);
        let outcome = store.peek(&[Check::new(&raised, "caller")]).await;
        assert_eq!(outcome.outcomes()[0].remaining(), 2);
    }));
}

/// Any bytes are a partition, and different bytes are different partitions.
pub fn a_partition_may_be_any_bytes(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let policy = policy("bytes", Algorithm::FixedWindow, 1);
        let long = vec![b'x'; 1 << 20];
        let callers: [&[u8]; 13] =
            [b"", b"\0", b"\0\0", b"a:b", b"a", b"b", b"{", b"}", b"}{", b"\r\n", b"*", b"\xff\xfe", &long];
        for caller in callers {
            assert!(store.check(&[Check::new(&policy, caller)]).await.is_allowed(), "{caller:.9?}");
        }
        for caller in callers {
            assert!(!store.check(&[Check::new(&policy, caller)]).await.is_allowed(), "{caller:.9?}");
        }
    }));
}

/// A peek has the outcome of a check, and charges nothing.
pub fn peek_takes_nothing(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("peek", algorithm, 2);
            let group = [Check::new(&policy, "a")];
            for _ in 0..5 {
                let outcome = store.peek(&group).await;
                assert!(outcome.is_allowed());
                assert_eq!(outcome.outcomes()[0].remaining(), 2, "{algorithm}");
                assert_eq!(outcome.outcomes()[0].reset_after(), Duration::ZERO, "{algorithm}");
            }
            for _ in 0..2 {
                assert!(store.check(&group).await.is_allowed());
            }
            assert_eq!(store.peek(&group).await, store.check(&group).await, "{algorithm}");
        }
    }));
}

/// A reset drops the state of one caller, and no other.
pub fn reset_forgets_one_caller(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("reset", algorithm, 1);
            let (a, b) = ([Check::new(&policy, "a")], [Check::new(&policy, "b")]);
            for group in [&a, &b] {
                assert!(store.check(group).await.is_allowed());
            }
            store.reset(&a).await;
            assert!(store.check(&a).await.is_allowed(), "{algorithm}");
            assert!(!store.check(&b).await.is_allowed(), "{algorithm}");
        }
        store.reset(&[]).await;
    }));
}

/// A refund returns the units of its reservation, and never raises what remains above the full quota.
pub fn refund_gives_back_what_was_taken(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("refund", algorithm, 10);
            let (group, other) =
                ([Check::new(&policy, "a").with_cost(4)], [Check::new(&policy, "a").with_cost(3)]);
            let outcome = store.check(&group).await;
            clock.advance(Duration::from_micros(1));
            assert!(store.check(&other).await.is_allowed());
            let twice = outcome.reservation(&group).unwrap();
            store.refund(&twice).await;
            assert_eq!(store.peek(&other).await.outcomes()[0].remaining(), 7, "{algorithm}");
            // A wrong use, but what remains must not exceed the full quota.
            for _ in 0..3 {
                store.refund(&twice).await;
            }
            assert!(store.peek(&other).await.outcomes()[0].remaining() <= 10, "{algorithm}");
        }
    }));
}

/// A refund after the end of its window has no effect.
pub fn refund_does_not_reach_into_a_later_window(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("late", algorithm, 10);
            let group = [Check::new(&policy, "a").with_cost(4)];
            let early = store.check(&group).await;
            clock.advance(MINUTE * 2 + Duration::from_micros(1));
            assert!(store.check(&group).await.is_allowed());
            store.refund(&early.reservation(&group).unwrap()).await;
            assert_eq!(store.peek(&group).await.outcomes()[0].remaining(), 6, "{algorithm}");
        }
    }));
}

/// Costs of 0, of the whole limit and above it.
pub fn cost_zero_takes_nothing_and_too_high_a_cost_never_passes(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("cost", algorithm, 3);
            let cost = |cost| [Check::new(&policy, "a").with_cost(cost)];
            for too_high in [4, 1 << 40, u64::MAX] {
                let outcome = store.check(&cost(too_high)).await;
                assert!(!outcome.is_allowed(), "{algorithm}");
                assert_eq!(outcome.retry_after(), None, "{algorithm}");
            }
            assert!(store.check(&cost(0)).await.is_allowed(), "{algorithm}");
            let all = store.check(&cost(3)).await;
            assert!(all.is_allowed(), "{algorithm}");
            assert_eq!(all.outcomes()[0].remaining(), 0, "{algorithm}");
            assert!(store.check(&cost(0)).await.is_allowed(), "{algorithm}");
        }
    }));
}

/// A group without limits passes.
pub fn an_empty_group_passes(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let outcome = store.check(&[]).await;
        assert!(outcome.is_allowed());
        assert_eq!(outcome.tightest(), None);
    }));
}

/// A group of the largest size, with limits of all algorithms.
pub fn a_group_of_the_largest_size_is_judged(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let policies: Vec<Policy> =
            Algorithm::ALL.iter().map(|algorithm| policy("large", *algorithm, 2)).collect();
        let callers: Vec<String> = (0..MAX_GROUP).map(|i| format!("{i}")).collect();
        let group: Vec<_> =
            callers.iter().zip(policies.iter().cycle()).map(|(caller, p)| Check::new(p, caller)).collect();
        for remaining in [1, 0] {
            let outcome = store.check(&group).await;
            assert!(outcome.is_allowed());
            assert!(outcome.outcomes().iter().all(|one| one.remaining() == remaining));
        }
        assert!(!store.check(&group).await.is_allowed());
    }));
}

/// Contract 1: under any interleaving exactly `max` requests pass.
pub fn racing_callers_get_exactly_the_limit(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>) + Sync,
) {
    for &algorithm in Algorithm::ALL {
        let (shared, own) = (policy("race", algorithm, 50), policy("race-own", algorithm, 1000));
        let passed = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
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
                        let own_outcome = store.peek(&[Check::new(own, &caller)]).await;
                        assert_eq!(own_outcome.outcomes()[0].remaining(), 1000 - own_passed, "{algorithm}");
                        passed.fetch_add(own_passed, std::sync::atomic::Ordering::Relaxed);
                    }));
                });
            }
        });
        assert_eq!(passed.into_inner(), 50, "{algorithm}");
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
        assert!(store.check(&denied).await.is_allowed());
        for other in 0..5_000u32 {
            let caller = other.to_le_bytes();
            let _ = store.check(&[Check::new(&policy, &caller)]).await;
        }
        assert!(!store.check(&denied).await.is_allowed());
    }));
}
