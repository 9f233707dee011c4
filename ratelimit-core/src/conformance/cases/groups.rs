//! Cases about groups, about what tells counts apart, and about refunds.

use std::time::Duration;

use crate::check::{Check, MAX_GROUP};
use crate::clock::FakeClock;
use crate::conformance::clause::{ALL_OR_NOTHING, EQUAL};
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::conformance::tested::Tested;
use crate::policy::{Algorithm, Policy};
use crate::store::Store;

/// Contract 2: if one limit of a group denies, none is charged, and the outcome reports which.
pub fn a_group_is_all_or_nothing(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let clause = ALL_OR_NOTHING;
        let wide = policy("wide", Algorithm::SlidingWindowLog, 100);
        let tight = policy("tight", Algorithm::FixedWindow, 1);
        let group = [Check::new(&wide, "a"), Check::new(&tight, "b")];
        clause.admitted("the first group", &store.check(&group).await);
        let denied = store.check(&group).await;
        clause.denied("the second group", &denied);
        let allowed = [0, 1].map(|limit: usize| denied.outcomes()[limit].is_allowed());
        clause.equal("which limits admit the second group", allowed, [true, false]);
        clause.equal(
            "wait of the group, that of the limit that denies",
            denied.retry_after(),
            denied.outcomes()[1].retry_after(),
        );
        clause.remaining("of the limit that admits, in the denial", &denied, 0, 99);
        clause.remaining("of the limit that admits, after the denial", &store.peek(&group[..1]).await, 0, 99);
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
            let (clause, policy) = (ALL_OR_NOTHING.of(algorithm), policy("twice", algorithm, 5));
            let twice = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "a").with_cost(1)];
            let outcome = store.check(&twice).await;
            clause.admitted("costs of 2 and 1 of one count, under a limit of 5", &outcome);
            clause.remaining("after 2 and 1 units, in the first outcome", &outcome, 0, 2);
            clause.remaining("after 2 and 1 units, in the second outcome", &outcome, 1, 2);
            clause.denied("2 and 1 units where 2 remain", &store.check(&twice).await);
            clause.admitted("2 units where 2 remain", &store.check(&twice[..1]).await);
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
        EQUAL.admitted("the first request", &store.check(&[Check::new(&one, "caller")]).await);
        for (policy, caller) in &fresh {
            let outcome = store.check(&[Check::new(policy, caller)]).await;
            EQUAL.admitted(
                &format!("caller `{caller}` under {policy:?}, which has a count of its own"),
                &outcome,
            );
        }
        let raised = Policy::new("one", 3, MINUTE);
        let outcome = store.peek(&[Check::new(&raised, "caller")]).await;
        EQUAL.remaining("of 3 after one unit under a `max` of 1", &outcome, 0, 2);
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
            let outcome = store.check(&[Check::new(&policy, caller)]).await;
            EQUAL.admitted(&format!("the first request of {caller:.9?}"), &outcome);
        }
        for caller in callers {
            let outcome = store.check(&[Check::new(&policy, caller)]).await;
            EQUAL.denied(&format!("the second request of {caller:.9?}"), &outcome);
        }
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
            ALL_OR_NOTHING.admitted("a group within all its limits", &outcome);
            for (limit, check) in group.iter().enumerate() {
                ALL_OR_NOTHING
                    .of(check.policy().algorithm())
                    .remaining("after it", &outcome, limit, remaining);
            }
        }
        ALL_OR_NOTHING.denied("the third group under limits of 2", &store.check(&group).await);
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
            let (clause, policy) = (EQUAL.of(algorithm), policy("refund", algorithm, 10));
            let [group, other] = [4, 3].map(|cost| [Check::new(&policy, "a").with_cost(cost)]);
            let outcome = store.check(&group).await;
            clock.advance(Duration::from_micros(1));
            clause.admitted("3 units after 4 of 10", &store.check(&other).await);
            let twice = outcome.reservation(&group).unwrap();
            store.refund(&twice).await;
            clause.remaining("of 10 after 4 and 3 units and a refund of 4", &store.peek(&other).await, 0, 7);
            // A wrong use, but what remains must not exceed the full quota.
            for _ in 0..3 {
                store.refund(&twice).await;
            }
            let remaining = store.peek(&other).await.outcomes()[0].remaining();
            clause.equal(
                "remaining of 10 at most, after the same refund again",
                remaining.min(10),
                remaining,
            );
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
            let (clause, policy) = (EQUAL.of(algorithm), policy("late", algorithm, 10));
            let group = [Check::new(&policy, "a").with_cost(4)];
            let early = store.check(&group).await;
            clock.advance(MINUTE * 2 + Duration::from_micros(1));
            clause.admitted("4 units in a later window", &store.check(&group).await);
            store.refund(&early.reservation(&group).unwrap()).await;
            clause.remaining("of 10 after a refund of an earlier window", &store.peek(&group).await, 0, 6);
        }
    }));
}
