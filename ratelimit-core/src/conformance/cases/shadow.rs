//! Cases about shadow limits.

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::EQUAL;
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::conformance::tested::Tested;
use crate::outcome::Outcome;
use crate::policy::{Algorithm, Mode, Policy};
use crate::store::Store;

/// A shadow limit is charged like an enforced one, in a count of its own also beside an enforced limit with the same key, but
/// never denies: what it would deny is neither charged to it nor kept from the enforced limits of its group.
pub fn a_shadow_limit_is_charged_and_denies_nothing(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let shadow = Policy::builder("limit").algorithm(algorithm).max(2).window(MINUTE);
            let shadow = shadow.mode(Mode::Shadow).build();
            let clause = EQUAL.of(algorithm);
            let enforced = policy("limit", algorithm, 3);
            let group = [Check::new(&shadow, "a"), Check::new(&enforced, "a")];
            let mut reservation = None;
            for (would_deny, left) in [(false, [1, 2]), (false, [0, 1]), (true, [0, 0])] {
                let outcome = store.check(&group).await;
                clause.admitted("a group with a shadow limit", &outcome);
                let [counts, limits] = [0, 1].map(|limit: usize| &outcome.outcomes()[limit]);
                clause.equal(
                    "which limits are shadow limits",
                    [counts, limits].map(Outcome::is_shadow),
                    [true, false],
                );
                clause.equal("whether the shadow limit would deny", counts.would_deny(), would_deny);
                clause.equal("what remains of 2 and 3", [counts, limits].map(Outcome::remaining), left);
                reservation = outcome.reservation(&group);
            }
            let denied = store.check(&group).await;
            clause.denied("a group above its enforced limit", &denied);
            clause.equal("whether the shadow limit would deny", denied.outcomes()[0].would_deny(), true);
            // The last request was charged to the enforced limit only.
            store.refund(&reservation.unwrap()).await;
            let left = store.peek(&group).await;
            clause.remaining(
                "of the shadow limit after the refund of a request that it would deny",
                &left,
                0,
                0,
            );
            clause.remaining("of the enforced limit after the refund", &left, 1, 1);
            let alone = store.check(&group[..1]).await;
            clause.admitted("the shadow limit alone", &alone);
            clause.equal("whether the shadow limit alone would deny", alone.outcomes()[0].would_deny(), true);
        }
    }));
}
