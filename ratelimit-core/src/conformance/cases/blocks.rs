//! Cases about blocks.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::EQUAL;
use crate::conformance::setup::{MINUTE, Run};
use crate::conformance::tested::Tested;
use crate::policy::{Algorithm, Policy};
use crate::store::Store;

const HOUR: Duration = Duration::from_secs(3600);

fn blocking(key: &'static str, algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder(key).algorithm(algorithm).max(max).window(MINUTE).block(HOUR).build()
}

/// The first denial under a limit with a block denies everything for that time, and attempts do not prolong it. A peek sees a
/// block, a refund does not change it, and then the full quota is available.
pub fn the_first_denial_blocks_until_its_end(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), blocking("blocks", algorithm, 2));
            let group = [Check::new(&policy, "a")];
            let nothing = [Check::new(&policy, "a").with_cost(0)];
            let first = store.check(&group).await;
            clause.admitted("the first request", &first);
            clause.admitted("the second request", &store.check(&group).await);
            let peeked = store.peek(&group).await.retry_after();
            clause.equal("whether a peek begins a block", peeked >= Some(HOUR), false);
            clause.admitted("a cost of 0 before the block", &store.check(&nothing).await);
            let begun = store.check(&group).await.retry_after();
            clause.equal("wait of the denial that begins a block of an hour", begun, Some(HOUR));
            let rest = HOUR.saturating_sub(MINUTE);
            clock.advance(MINUTE);
            store.refund(&first.reservation(&group).unwrap()).await;
            for (which, denied) in [
                ("a check during the block", store.check(&group).await),
                ("a cost of 0 during the block", store.check(&nothing).await),
                ("a peek during the block", store.peek(&group).await),
            ] {
                clause.denied(which, &denied);
                let outcome = &denied.outcomes()[0];
                let waits = (outcome.retry_after(), outcome.reset_after(), outcome.next_unit_after());
                clause.equal(&format!("waits of {which}"), waits, (Some(rest), rest, Some(rest)));
            }
            let micro = Duration::from_micros(1);
            clock.advance(rest.saturating_sub(micro));
            clause.denied("one microsecond before the end of the block", &store.check(&group).await);
            clock.advance(micro);
            let whole = [Check::new(&policy, "a").with_cost(2)];
            clause.admitted("the full quota at the end of the block", &store.check(&whole).await);
            clause.denied("a request beyond it, which begins a block", &store.check(&group).await);
            store.reset(&group).await;
            clause.admitted("the full quota after a reset", &store.check(&whole).await);
        }
    }));
}

/// A block begins when the limit itself is exceeded: not by another limit of the group, and not by a cost that never passes.
pub fn only_an_own_denial_begins_a_block(
    store: &Tested<'_, impl Store>,
    _: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let clause = EQUAL.of(algorithm);
            let (tight, wide) = (blocking("tight", algorithm, 1), blocking("wide", algorithm, 2));
            let group = [Check::new(&tight, "a"), Check::new(&wide, "a")];
            clause.admitted("the first group", &store.check(&group).await);
            clause.denied("a cost above the limit of 2", &store.check(&[group[1].with_cost(3)]).await);
            let denied = store.check(&group).await;
            let wait = denied.outcomes()[0].retry_after();
            clause.equal("wait of the limit that denies the second group", wait, Some(HOUR));
            clause.equal("whether the other limit admits it", denied.outcomes()[1].is_allowed(), true);
            let alone = store.check(&group[1..]).await;
            clause.admitted("the other limit alone, neither charged nor blocked", &alone);
            // Another policy of the same count obeys the block.
            let open = Policy::builder("tight").algorithm(algorithm).max(1).window(MINUTE).build();
            let denied = store.check(&[Check::new(&open, "a")]).await;
            clause.equal("wait under another policy of the blocked count", denied.retry_after(), Some(HOUR));
        }
    }));
}
