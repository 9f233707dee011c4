//! Cases about concurrency limits.

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::{ALL_OR_NOTHING, EQUAL};
use crate::conformance::tested::{MINUTE, Run, Tested};
use crate::policy::{Algorithm, Mode, Policy};
use crate::store::Store;

/// Peeks until as many slots remain by each handle in turn: a store may free slots in the background, and
/// its own handle may know of them earlier.
async fn until_remaining(store: &Tested<'_, impl Store>, group: &[Check<'_>], expected: u64) {
    let mut in_a_row = 0;
    for _ in 0..20_000 {
        let is_left = store.peek(group).await.outcomes()[0].remaining() == expected;
        in_a_row = if is_left { in_a_row + 1 } else { 0 };
        if in_a_row == 2 {
            return;
        }
    }
    let left = store.peek(group).await;
    EQUAL.remaining("after slots were freed", &left, 0, expected);
}

/// A request holds its slots until they are freed, however much time passes. While all are held, a request is
/// denied without a wait; under a lower `max` until enough are freed.
pub fn slots_are_held_until_they_are_freed(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let (two, one) = (Policy::concurrency("slots", 2), Policy::concurrency("slots", 1));
        let group = [Check::new(&two, "a")];
        let first = store.check(&group).await;
        EQUAL.admitted("the first of two slots", &first);
        EQUAL.remaining("after the first of two slots", &first, 0, 1);
        let second = store.check(&group).await;
        EQUAL.remaining("after the second of two slots", &second, 0, 0);
        clock.advance(std::time::Duration::from_secs(5));
        let busy = store.check(&group).await;
        EQUAL.denied("a third request", &busy);
        EQUAL.equal("whether the denial is busy", busy.is_busy(), true);
        EQUAL.equal("the wait of a busy denial", busy.retry_after(), None);
        EQUAL.equal("when one more passes", busy.outcomes()[0].next_unit_after(), None);
        EQUAL.equal("whether a peek is busy", store.peek(&group).await.is_busy(), true);
        EQUAL.admitted("another caller", &store.peek(&[Check::new(&two, "b")]).await);
        let never = store.check(&[group[0].with_cost(3)]).await;
        EQUAL.equal("more than all slots: whether the denial is busy", never.is_busy(), false);
        EQUAL.denied("more than all slots", &never);
        store.free(&group, first).await;
        until_remaining(store, &group, 1).await;
        let lowered = store.check(&[Check::new(&one, "a")]).await;
        EQUAL.denied("a request under a lower max, while one runs", &lowered);
        store.free(&group, second).await;
        until_remaining(store, &group, 2).await;
        let both = [group[0].with_cost(2)];
        let outcome = store.check(&both).await;
        EQUAL.admitted("two slots at once", &outcome);
        EQUAL.denied("a request beside them", &store.check(&group).await);
        store.free(&both, outcome).await;
        until_remaining(store, &group, 2).await;
    }));
}

/// A group takes slots and charges units, or neither. A shadow limit of slots denies nothing.
pub fn a_group_takes_its_slots_or_none(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let clause = ALL_OR_NOTHING.of(algorithm);
            let slots = Policy::concurrency("slots", 1);
            let rate = Policy::builder("rate").algorithm(algorithm).max(3).window(MINUTE).build();
            let caller = algorithm.as_str();
            let group = [Check::new(&slots, caller), Check::new(&rate, caller)];
            let first = store.check(&group).await;
            clause.admitted("a slot and a unit", &first);
            let busy = store.check(&group).await;
            clause.denied("a second slot", &busy);
            clause.remaining("of the rate after a busy denial", &busy, 1, 2);
            clause.remaining("of the rate after a busy denial", &store.peek(&group).await, 1, 2);
            store.free(&group, first).await;
            until_remaining(store, &group, 1).await;
            let units = [group[0], group[1].with_cost(3)];
            let denied = store.check(&units).await;
            clause.denied("a slot and three of two units", &denied);
            clause.equal("whether a denial by a rate is busy", denied.is_busy(), false);
            clause.equal("whether a slot is free", store.peek(&group).await.is_allowed(), true);
            let shadow =
                Policy::builder("slots").algorithm(Algorithm::Concurrency).max(1).mode(Mode::Shadow).build();
            let tried = [Check::new(&shadow, caller), group[1]];
            let holds = store.check(&tried).await;
            clause.admitted("a shadow limit of slots", &holds);
            let would_deny = store.check(&tried).await;
            clause.admitted("a shadow limit of which all slots are held", &would_deny);
            clause.equal("whether it would deny", would_deny.outcomes()[0].would_deny(), true);
            store.free(&tried, would_deny).await;
            clause.equal(
                "whether it would deny still",
                store.peek(&tried).await.outcomes()[0].would_deny(),
                true,
            );
            store.free(&tried, holds).await;
            until_remaining(store, &tried, 1).await;
        }
    }));
}
