//! Cases about blocks.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::Tested;
use crate::conformance::setup::{MINUTE, Run};
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
            let policy = blocking("blocks", algorithm, 2);
            let group = [Check::new(&policy, "a")];
            let nothing = [Check::new(&policy, "a").with_cost(0)];
            let first = store.check(&group).await;
            assert!(store.check(&group).await.is_allowed(), "{algorithm}");
            assert!(store.peek(&group).await.retry_after() < Some(HOUR), "{algorithm}: a peek begins none");
            assert!(store.check(&nothing).await.is_allowed(), "{algorithm}");
            assert_eq!(store.check(&group).await.retry_after(), Some(HOUR), "{algorithm}");
            let rest = HOUR.saturating_sub(MINUTE);
            clock.advance(MINUTE);
            store.refund(&first.reservation(&group).unwrap()).await;
            for denied in [store.check(&group).await, store.check(&nothing).await, store.peek(&group).await] {
                let outcome = &denied.outcomes()[0];
                assert!(!denied.is_allowed(), "{algorithm}");
                assert_eq!((outcome.retry_after(), outcome.reset_after()), (Some(rest), rest), "{algorithm}");
                assert_eq!(outcome.next_unit_after(), Some(rest), "{algorithm}");
            }
            let micro = Duration::from_micros(1);
            clock.advance(rest.saturating_sub(micro));
            assert!(!store.check(&group).await.is_allowed(), "{algorithm}: one microsecond early");
            clock.advance(micro);
            let whole = [Check::new(&policy, "a").with_cost(2)];
            assert!(store.check(&whole).await.is_allowed(), "{algorithm}: the full quota");
            assert!(!store.check(&group).await.is_allowed(), "{algorithm}");
            store.reset(&group).await;
            assert!(store.check(&whole).await.is_allowed(), "{algorithm}: a reset ends it");
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
            let (tight, wide) = (blocking("tight", algorithm, 1), blocking("wide", algorithm, 2));
            let group = [Check::new(&tight, "a"), Check::new(&wide, "a")];
            assert!(store.check(&group).await.is_allowed(), "{algorithm}");
            assert!(!store.check(&[group[1].with_cost(3)]).await.is_allowed(), "{algorithm}");
            let denied = store.check(&group).await;
            assert_eq!(denied.outcomes()[0].retry_after(), Some(HOUR), "{algorithm}");
            assert!(denied.outcomes()[1].is_allowed(), "{algorithm}");
            assert!(store.check(&group[1..]).await.is_allowed(), "{algorithm}: not charged, not blocked");
            // Another policy of the same count obeys the block.
            let open = Policy::builder("tight").algorithm(algorithm).max(1).window(MINUTE).build();
            let denied = store.check(&[Check::new(&open, "a")]).await;
            assert_eq!(denied.retry_after(), Some(HOUR), "{algorithm}");
        }
    }));
}
