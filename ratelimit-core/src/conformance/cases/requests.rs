//! Cases about one limit.

use std::time::Duration;

use crate::check::Check;
use crate::clock::{Clock, FakeClock};
use crate::conformance::clause::{DENIAL, EQUAL, ONE_CLOCK};
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::conformance::tested::Tested;
use crate::policy::Algorithm;
use crate::store::Store;

/// Contract 4: decisions have the instant of the clock that the store was made with.
pub fn the_given_clock_is_used(store: &Tested<'_, impl Store>, clock: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let policy = policy("clock", Algorithm::FixedWindow, 10);
        for _ in 0..2 {
            let outcome = store.check(&[Check::new(&policy, "a")]).await;
            ONE_CLOCK.equal("instant of a check, by the clock of the suite", outcome.at(), clock.now());
            clock.advance(MINUTE);
        }
    }));
}

/// A group without limits passes.
pub fn an_empty_group_passes(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        let outcome = store.check(&[]).await;
        EQUAL.admitted("a group without limits", &outcome);
        EQUAL.equal("tightest limit of no limits", outcome.tightest(), None);
    }));
}

/// Contract 5: a denial is an outcome. It charges nothing, so it does not delay the next request that passes.
pub fn denied_is_an_outcome_and_takes_nothing(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (DENIAL.of(algorithm), policy("denied", algorithm, 2));
            let group = [Check::new(&policy, "a")];
            for remaining in [1, 0] {
                let outcome = store.check(&group).await;
                clause.admitted("a request within the limit of 2", &outcome);
                clause.remaining("after it", &outcome, 0, remaining);
            }
            let denied = store.check(&group).await;
            clause.denied("the third request", &denied);
            let Some(wait) = denied.retry_after() else {
                panic!("{algorithm}: a cost within the limit can pass again, so a denial has a wait")
            };
            clause.same("the fourth request", &group, &store.check(&group).await, &denied);
            let micro = Duration::from_micros(1);
            clock.advance(wait.saturating_sub(micro));
            clause.denied("one microsecond before the promised instant", &store.check(&group).await);
            clock.advance(micro);
            clause.admitted("at the promised instant", &store.check(&group).await);
        }
    }));
}

/// A peek has the outcome of a check, and charges nothing.
pub fn peek_takes_nothing(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), policy("peek", algorithm, 2));
            let group = [Check::new(&policy, "a")];
            for _ in 0..5 {
                let outcome = store.peek(&group).await;
                clause.admitted("a peek at a new caller", &outcome);
                clause.remaining("in a peek at a new caller", &outcome, 0, 2);
                clause.equal(
                    "reset_after of a new caller",
                    outcome.outcomes()[0].reset_after(),
                    Duration::ZERO,
                );
            }
            for _ in 0..2 {
                clause.admitted("a request within the limit of 2", &store.check(&group).await);
            }
            let peeked = store.peek(&group).await;
            clause.same("a peek before a denied check", &group, &peeked, &store.check(&group).await);
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
            let (clause, policy) = (EQUAL.of(algorithm), policy("cost", algorithm, 3));
            let cost = |cost| [Check::new(&policy, "a").with_cost(cost)];
            for too_high in [4, 1 << 40, u64::MAX] {
                let outcome = store.check(&cost(too_high)).await;
                clause.denied("a cost above the limit of 3", &outcome);
                clause.equal("wait of a cost above the limit", outcome.retry_after(), None);
            }
            clause.admitted("a cost of 0 by a new caller", &store.check(&cost(0)).await);
            let all = store.check(&cost(3)).await;
            clause.admitted("a cost of the whole limit", &all);
            clause.remaining("after the whole limit", &all, 0, 0);
            clause.admitted("a cost of 0 where nothing remains", &store.check(&cost(0)).await);
        }
    }));
}

/// A reset drops the state of one caller, and no other.
pub fn reset_forgets_one_caller(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), policy("reset", algorithm, 1));
            let (a, b) = ([Check::new(&policy, "a")], [Check::new(&policy, "b")]);
            for group in [&a, &b] {
                clause.admitted("the first request of a caller", &store.check(group).await);
            }
            store.reset(&a).await;
            clause.admitted("the caller that was reset", &store.check(&a).await);
            clause.denied("the other caller", &store.check(&b).await);
        }
        store.reset(&[]).await;
    }));
}
