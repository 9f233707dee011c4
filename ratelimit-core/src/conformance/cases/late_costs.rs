//! Cases about costs that are known late: as many units as fit, and charges beyond the limit.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::EQUAL;
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::conformance::tested::Tested;
use crate::policy::Algorithm;
use crate::store::Store;

/// As many units as fit are charged to every limit of a group; if none fits, the outcome is the denial of one.
pub fn as_many_units_as_fit_are_charged(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let clause = EQUAL.of(algorithm);
            let (tight, wide) = (policy("up-to", algorithm, 5), policy("up-to-wide", algorithm, 50));
            let group = [Check::new(&wide, "a"), Check::new(&tight, "a")];
            for (units, left) in [(3, 2), (2, 0)] {
                let outcome = store.check_up_to(&group, 3).await;
                clause.admitted("up to 3 units", &outcome);
                let costs = [0, 1].map(|limit: usize| outcome.outcomes()[limit].cost());
                clause.equal("units of 3 that were charged to each limit", costs, [units; 2]);
                clause.remaining("of 5", &outcome, 1, left);
            }
            let denied = store.check_up_to(&group, 3).await;
            let unit = group.map(|check| check.with_cost(1));
            clause.same(
                "up to 3 units where none fits, and a check of one",
                &unit,
                &denied,
                &store.check(&unit).await,
            );
            clause.remaining("of 50, in a denial by the other limit", &denied, 0, 45);
            let twice = [group[0], group[0]];
            let outcome = store.check_up_to(&twice, 100).await;
            clause.equal(
                "units charged to each of two limits with one count of 45",
                outcome.outcomes()[1].cost(),
                22,
            );
            clause.remaining("of 45 after twice 22", &outcome, 1, 1);
        }
        EQUAL.admitted("up to 3 units of a group without limits", &store.check_up_to(&[], 3).await);
    }));
}

/// What is charged beyond a limit is a debt: nothing remains, and a request passes exactly when time has paid it.
pub fn a_debt_is_paid_by_time(store: &Tested<'_, impl Store>, clock: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), policy("debt", algorithm, 4));
            let group = [Check::new(&policy, "a")];
            clause.admitted("the first request", &store.check(&group).await);
            store.overdraw(&[group[0].with_cost(2)]).await;
            clause.remaining("of 4 after 1 unit and an overdraft of 2", &store.peek(&group).await, 0, 1);
            store.overdraw(&[group[0].with_cost(9)]).await;
            let denied = store.check(&group).await;
            clause.denied("a request after an overdraft of 9", &denied);
            clause.remaining("in debt", &denied, 0, 0);
            clause.denied("a cost of 0 in debt", &store.check(&[group[0].with_cost(0)]).await);
            let wait = denied.retry_after();
            let Some(wait) = wait else {
                panic!("{algorithm}: a debt is paid some time, so a denial has a wait")
            };
            let micro = Duration::from_micros(1);
            clock.advance(wait.saturating_sub(micro));
            clause.denied("one microsecond before the debt is paid", &store.check(&group).await);
            clock.advance(micro);
            clause.admitted("when the debt is paid", &store.check(&group).await);
            clock.advance(4 * MINUTE);
            clause.remaining("of 4, four windows later", &store.peek(&group).await, 0, 4);
        }
    }));
}

/// The largest charge beyond a limit is one of 10^12 units, and a wait stays within a year.
pub fn the_largest_debt_is_bounded(store: &Tested<'_, impl Store>, clock: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), policy("bounded", algorithm, 4));
            let group = [Check::new(&policy, "a")];
            for _ in 0..3 {
                store.overdraw(&[group[0].with_cost(1_000_000_000_000)]).await;
                clock.advance(MINUTE / 3);
            }
            let wait = store.check(&group).await.retry_after();
            let year = Duration::from_secs(366 * 86_400);
            let bounded = wait.filter(|wait| *wait <= year);
            clause.equal("wait for the largest debt, at most 366 days", wait, bounded.or(Some(year)));
            clock.advance(wait.unwrap_or_default());
            clause.admitted("after this wait", &store.check(&group).await);
        }
    }));
}
