//! Cases about costs that are known late: as many units as fit, and charges beyond the limit.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::Tested;
use crate::conformance::setup::{MINUTE, Run, policy};
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
            let (tight, wide) = (policy("up-to", algorithm, 5), policy("up-to-wide", algorithm, 50));
            let group = [Check::new(&wide, "a"), Check::new(&tight, "a")];
            for (units, left) in [(3, 2), (2, 0)] {
                let outcome = store.check_up_to(&group, 3).await;
                assert!(outcome.is_allowed(), "{algorithm}");
                assert!(outcome.outcomes().iter().all(|one| one.cost() == units), "{algorithm}");
                assert_eq!(outcome.outcomes()[1].remaining(), left, "{algorithm}");
            }
            let denied = store.check_up_to(&group, 3).await;
            let unit = group.map(|check| check.with_cost(1));
            assert_eq!(denied, store.check(&unit).await, "{algorithm}");
            assert_eq!(denied.outcomes()[0].remaining(), 45, "{algorithm}");
            let twice = [group[0], group[0]];
            let outcome = store.check_up_to(&twice, 100).await;
            assert_eq!(outcome.outcomes()[1].cost(), 22, "{algorithm}: 44 of 45");
            assert_eq!(outcome.outcomes()[1].remaining(), 1, "{algorithm}");
        }
        assert!(store.check_up_to(&[], 3).await.is_allowed());
    }));
}

/// What is charged beyond a limit is a debt: nothing remains, and a request passes exactly when time has paid it.
pub fn a_debt_is_paid_by_time(store: &Tested<'_, impl Store>, clock: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("debt", algorithm, 4);
            let group = [Check::new(&policy, "a")];
            assert!(store.check(&group).await.is_allowed(), "{algorithm}");
            store.overdraw(&[group[0].with_cost(2)]).await;
            assert_eq!(
                store.peek(&group).await.outcomes()[0].remaining(),
                1,
                "{algorithm}: within the limit"
            );
            store.overdraw(&[group[0].with_cost(9)]).await;
            let denied = store.check(&group).await;
            assert_eq!(denied.outcomes()[0].remaining(), 0, "{algorithm}");
            assert!(!store.check(&[group[0].with_cost(0)]).await.is_allowed(), "{algorithm}: in debt");
            let wait = denied.retry_after().expect("a debt is paid some time");
            let micro = Duration::from_micros(1);
            clock.advance(wait.saturating_sub(micro));
            assert!(!store.check(&group).await.is_allowed(), "{algorithm}: one microsecond early");
            clock.advance(micro);
            assert!(store.check(&group).await.is_allowed(), "{algorithm}: paid");
            clock.advance(4 * MINUTE);
            assert_eq!(store.peek(&group).await.outcomes()[0].remaining(), 4, "{algorithm}: the full quota");
        }
    }));
}

/// The largest charge beyond a limit is one of 10^12 units, and a wait stays within a year.
pub fn the_largest_debt_is_bounded(store: &Tested<'_, impl Store>, clock: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let policy = policy("bounded", algorithm, 4);
            let group = [Check::new(&policy, "a")];
            for _ in 0..3 {
                store.overdraw(&[group[0].with_cost(1_000_000_000_000)]).await;
                clock.advance(MINUTE / 3);
            }
            let wait = store.check(&group).await.retry_after().expect("a wait");
            assert!(wait <= Duration::from_secs(366 * 86_400), "{algorithm}: {wait:?}");
            clock.advance(wait);
            assert!(store.check(&group).await.is_allowed(), "{algorithm}");
        }
    }));
}
