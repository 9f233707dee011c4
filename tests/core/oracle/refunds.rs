//! Refunds: what was charged comes back as far as it still counts, and nothing else does.

use std::time::Duration;

use ratelimit_core::{Algorithm, Check, GroupOutcome, Policy};
use tests::timed::MIDNIGHT;

use super::trial::{Cost, Limit, case, each_case};

tests::on_both_stores! {
    fn an_immediate_refund_restores_the_state_before_the_charge(store: &Timed) {
        each_case(store, case(true), 0.3, |trial| {
            let (refunded, twin) = (trial.callers("refunded"), trial.callers("twin"));
            for event in &trial.case.past {
                trial.pass(event);
                let outcome = trial.check(&event.group, &refunded);
                if !trial.agree(&outcome, &trial.check(&event.group, &twin), "the past") {
                    return false;
                }
            }
            let everything = trial.everything();
            let group = trial.checks(&trial.case.group, &refunded);
            let outcome = trial.store.check_all(&group);
            let Some(reservation) = outcome.reservation(&group) else {
                assert!(!outcome.is_allowed());
                return false;
            };
            // The twin takes nothing, but notices a clock that went back as well.
            let nothing: Vec<Limit> =
                trial.case.group.iter().map(|&(policy, caller, _)| (policy, caller, Cost::Units(0))).collect();
            let _ = trial.check(&nothing, &twin);
            trial.store.refund(reservation);
            if trial.rounds_refunds() {
                return false;
            }
            if !trial.agree(&trial.peek(&everything, &refunded), &trial.peek(&everything, &twin), "at once") {
                return false;
            }
            for event in trial.case.future.iter().filter(|event| event.step >= 0) {
                trial.go(trial.now.get() + event.step.unsigned_abs() * 1000);
                let outcome = trial.check(&event.group, &refunded);
                if !trial.agree(&outcome, &trial.check(&event.group, &twin), "later") {
                    return false;
                }
            }
            true
        });
    }

    fn a_refund_returns_only_what_still_counts(store: &Timed) {
        each_case(store, case(false), 0.1, |trial| {
            // The twin never takes what the other gives back, and otherwise takes the same.
            let (refunding, twin) = (trial.callers("refunding"), trial.callers("twin"));
            for event in &trial.case.past {
                trial.pass(event);
                assert_eq!(trial.check(&event.group, &refunding), trial.check(&event.group, &twin));
            }
            let group = trial.checks(&trial.case.group, &refunding);
            let Some(reservation) = trial.store.check_all(&group).reservation(&group) else { return false };
            for event in &trial.case.future {
                trial.pass(event);
                if trial.check(&event.group, &refunding).is_allowed() {
                    assert!(trial.check(&event.group, &twin).is_allowed(), "the twin has more left");
                }
            }
            let over = reservation.charges().map(|taken| taken.until().as_micros()).max();
            // In every third case at the very instant at which it is over, or a microsecond before.
            match (over, trial.id % 6) {
                (Some(over), early @ 0..=1) if over - early >= trial.now.get() => trial.go(over - early),
                _ => {}
            }
            let now = trial.now.get();
            let everything = trial.everything();
            let before = trial.peek(&everything, &refunding);
            trial.store.refund(reservation);
            let after = trial.peek(&everything, &refunding);
            let never = trial.peek(&everything, &twin);
            for i in 0..everything.len() {
                let remaining = |outcome: &GroupOutcome| outcome.outcomes()[i].remaining();
                assert!(remaining(&before) <= remaining(&after), "a refund takes nothing");
                assert!(remaining(&after) <= remaining(&never), "a refund gives back more than was taken");
                assert!(remaining(&after) <= after.outcomes()[i].capacity());
            }
            if over.is_none_or(|over| now >= over) {
                assert_eq!(before, after, "what was taken no longer counts");
                return false;
            }
            before != after
        });
    }

    fn a_refund_is_bounded_even_when_the_clock_goes_back(store: &Timed) {
        each_case(store, case(true), 0.1, |trial| {
            let callers = trial.callers("");
            trial.run_events(&trial.case.past, &callers);
            let group = trial.checks(&trial.case.group, &callers);
            let Some(reservation) = trial.store.check_all(&group).reservation(&group) else { return false };
            trial.run_events(&trial.case.future, &callers);
            let everything = trial.everything();
            let before = trial.peek(&everything, &callers);
            trial.store.refund(reservation);
            let after = trial.peek(&everything, &callers);
            let taken: u64 = group.iter().map(Check::cost).sum();
            for (before, after) in before.outcomes().iter().zip(after.outcomes()) {
                assert!((before.remaining()..=before.remaining() + taken).contains(&after.remaining()));
                assert!(after.remaining() <= after.capacity());
            }
            before != after
        });
    }

    fn a_refund_adds_no_tokens_that_were_already_refilled(store: &Timed) {
        let builder = Policy::builder("refund").algorithm(Algorithm::TokenBucket).max(1);
        let policy = builder.window(Duration::from_secs(1)).burst(10).build();
        let group = [Check::new(&policy, "a").with_cost(5)];
        let reservation = store.check_all(&group).reservation(&group).unwrap();
        store.advance(Duration::from_secs(4));
        // Four of the five have refilled; had they never been taken, the bucket would have been full all
        // along.
        assert!(store.check_all(&[Check::new(&policy, "a").with_cost(9)]).is_allowed());
        store.refund(reservation);
        assert!(store.peek(&policy, "a").remaining() <= 1, "ten in all at one instant");
    }

    fn a_refund_reaches_charges_at_both_ends_of_a_sub_window(store: &Timed) {
        let window = Duration::from_secs(60);
        let policy = Policy::builder("refund").max(10).window(window).sub_windows(6).build();
        let length = u64::try_from(window.as_micros()).unwrap() / 6;
        for (i, place) in [0, 1, length - 1].into_iter().enumerate() {
            for later in 0..=6 {
                let caller = format!("{place}, {later} later");
                let start = MIDNIGHT.as_micros() + (i as u64 * 10 + later) * 3_600_000_000;
                store.set(start + place);
                let group = [Check::new(&policy, &caller).with_cost(7)];
                let reservation = store.check_all(&group).reservation(&group).unwrap();
                // The first instant of a later sub-window, up to the one in which it is the oldest with all
                // its weight.
                store.set(start + place.max(later * length));
                assert!(store.check_all(&[Check::new(&policy, &caller)]).is_allowed());
                assert_eq!(store.peek(&policy, &caller).remaining(), 2);
                store.refund(reservation);
                assert_eq!(store.peek(&policy, &caller).remaining(), 9, "{caller}");
            }
        }
    }

    fn a_group_that_charged_a_count_twice_refunds_it_exactly(store: &Timed) {
        let builder = Policy::builder("refund").algorithm(Algorithm::TokenBucket).max(1);
        let policy = builder.window(Duration::from_secs(1)).burst(10).build();
        let group = [Check::new(&policy, "a").with_cost(3), Check::new(&policy, "a").with_cost(3)];
        let reservation = store.check_all(&group).reservation(&group).unwrap();
        assert_eq!(reservation.charges().len(), 1);
        assert_eq!(store.peek(&policy, "a").remaining(), 4);
        store.refund(reservation);
        assert_eq!(store.peek(&policy, "a").remaining(), 10);
    }
}
