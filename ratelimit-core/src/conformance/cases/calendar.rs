//! The case about windows of a calendar, which the feature `calendar` has.

use crate::clock::FakeClock;
use crate::conformance::setup::Run;
use crate::conformance::tested::Tested;
use crate::store::Store;

/// Contract 3: a calendar window lasts until its edge, whatever its length, and the next one begins with a new count. Tests nothing
/// without the feature `calendar`.
pub fn a_calendar_window_lasts_until_its_edge(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    #[cfg(feature = "calendar")]
    run(Box::pin(edge(store, clock)));
    #[cfg(not(feature = "calendar"))]
    let _ = (store, clock, run);
}

#[cfg(feature = "calendar")]
async fn edge(store: &Tested<'_, impl Store>, clock: &FakeClock) {
    use std::time::Duration;

    use crate::check::Check;
    use crate::clock::Timestamp;
    use crate::conformance::clause::EQUAL;
    use crate::policy::{Calendar, Policy};

    // February and March 2027 in Berlin: the second has 743 hours, since summer time begins in it.
    let (february, march, april) = (1_801_436_400, 1_803_855_600, 1_806_530_400);
    let calendar = Calendar::month(1).in_zone("Europe/Berlin");
    let policy = Policy::builder("month").calendar(calendar).max(2).build();
    let group = [Check::new(&policy, "a")];
    let at = |seconds: u64| clock.set(Timestamp::from_micros(seconds * 1_000_000));
    for (from, before) in [(february, march), (march, april)] {
        at(from);
        let first = store.check(&group).await;
        EQUAL.admitted("at the first instant of a month", &first);
        let reset = first.outcomes()[0].reset_after();
        EQUAL.equal("reset_after there", reset, Duration::from_secs(before - from));
        at(before - 1);
        let last = store.check(&group).await;
        EQUAL.admitted("within a limit of 2, a second before the edge", &last);
        EQUAL.remaining("after it", &last, 0, 0);
        let denied = store.check(&group).await;
        EQUAL.denied("the third request of a month", &denied);
        EQUAL.equal("its wait", denied.retry_after(), Some(Duration::from_secs(1)));
        if let Some(charges) = last.reservation(&group) {
            store.refund(&charges).await;
        }
        EQUAL.admitted("after a refund before the edge", &store.check(&group).await);
    }
    at(april);
    EQUAL.remaining("after the next edge", &store.check(&group).await, 0, 1);
}
