//! Cases about shadow limits.

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::Tested;
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::policy::{Algorithm, Mode, Policy};
use crate::store::Store;

/// A shadow limit is charged like an enforced one, but never denies: what it would deny is neither charged to it nor kept
/// from the enforced limits of its group.
pub fn a_shadow_limit_is_charged_and_denies_nothing(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let shadow = Policy::builder("shadow").algorithm(algorithm).max(2).window(MINUTE);
            let shadow = shadow.mode(Mode::Shadow).build();
            let enforced = policy("enforced", algorithm, 3);
            let group = [Check::new(&shadow, "a"), Check::new(&enforced, "a")];
            let mut reservation = None;
            for (would_deny, left) in [(false, [1, 2]), (false, [0, 1]), (true, [0, 0])] {
                let outcome = store.check(&group).await;
                assert!(outcome.is_allowed(), "{algorithm}");
                assert!(
                    outcome.outcomes()[0].is_shadow() && !outcome.outcomes()[1].is_shadow(),
                    "{algorithm}"
                );
                assert_eq!(outcome.outcomes()[0].would_deny(), would_deny, "{algorithm}");
                assert_eq!([0, 1].map(|i: usize| outcome.outcomes()[i].remaining()), left, "{algorithm}");
                reservation = outcome.reservation(&group);
            }
            let denied = store.check(&group).await;
            assert!(!denied.is_allowed() && denied.outcomes()[0].would_deny(), "{algorithm}");
            // The last request was charged to the enforced limit only.
            store.refund(&reservation.unwrap()).await;
            let left = store.peek(&group).await;
            assert_eq!([0, 1].map(|i: usize| left.outcomes()[i].remaining()), [0, 1], "{algorithm}");
            let alone = store.check(&group[..1]).await;
            assert!(alone.is_allowed() && alone.outcomes()[0].would_deny(), "{algorithm}");
        }
    }));
}
