//! Random policies and histories: what an outcome promises comes true, on both stores.
//!
//! Every property runs over random groups and histories; `ORACLE_CASES` sets their number. Random numbers
//! are the same in every run.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

mod kept;
mod lives;
mod rates;
mod refunds;
mod trial;

use std::time::Duration;

use ratelimit_core::{Algorithm, Check, Outcome, Policy};
use tests::timed::MIDNIGHT;

use self::trial::{Cost, case, each_case};

/// A microsecond less; no wait is shorter than one.
fn earlier(wait: Duration) -> Duration {
    wait.checked_sub(Duration::from_micros(1)).expect("a wait of a microsecond at least")
}

tests::on_both_stores! {
    fn a_denied_group_passes_after_its_wait_and_not_a_microsecond_earlier(store: &Timed) {
        each_case(store, case(true), 0.3, |trial| {
            let callers = trial.callers("");
            trial.run_events(&trial.case.past, &callers);
            let now = trial.now.get();
            let peek = |wait: Duration| {
                trial.go(now + u64::try_from(wait.as_micros()).unwrap());
                trial.peek(&trial.case.group, &callers)
            };
            // Only a check notices for good that the clock went back, so it is not a peek that is denied.
            let mut denied = trial.check(&trial.case.group, &callers);
            for _ in 0..2 {
                if denied.is_allowed() {
                    assert_eq!(denied.retry_after(), None);
                    assert!(denied.outcomes().iter().all(|outcome| outcome.retry_after().is_none()));
                    denied = trial.check(&trial.case.group, &callers);
                }
            }
            if denied.is_allowed() {
                return false;
            }
            let waits = denied.outcomes().iter().map(Outcome::retry_after);
            let limits = waits.enumerate().filter_map(|(i, wait)| Some((wait?, Some(i))));
            let waits = limits.chain(denied.retry_after().map(|wait| (wait, None)));
            let mut looks: Vec<_> =
                waits.flat_map(|(wait, limit)| [(earlier(wait), limit, false), (wait, limit, true)]).collect();
            // In the order of time: the store in memory may drop what has expired.
            looks.sort_unstable();
            for (wait, limit, passes) in looks {
                let outcome = peek(wait);
                let passed = limit.map_or(outcome.is_allowed(), |i| outcome.outcomes()[i].is_allowed());
                assert_eq!(passed, passes, "limit {limit:?}, or the group, after {wait:?}");
            }
            if denied.retry_after().is_some() {
                assert!(trial.check(&trial.case.group, &callers).is_allowed(), "in time, and for good");
            } else {
                let never = denied.outcomes().iter().any(|o| !o.is_allowed() && o.retry_after().is_none());
                assert!(never && !peek(Duration::from_secs(800 * 86_400)).is_allowed(), "never");
            }
            true
        });
    }

    fn a_debt_is_paid_after_its_wait_and_not_a_microsecond_earlier(store: &Timed) {
        each_case(store, case(true), 0.3, |trial| {
            let callers = trial.callers("");
            trial.run_events(&trial.case.past, &callers);
            let group = trial.checks(&[trial.case.group[0]], &callers);
            let charged = trial.store.check_all(&group);
            let Some(reservation) = charged.reservation(&group) else { return false };
            let capacity = group[0].policy().capacity();
            let actual = capacity.saturating_mul(1 + trial.id % 4).saturating_add(trial.id % 3).min(1_000_000_000_000);
            trial.store.run(trial.store.limiter.settle(reservation, actual)).unwrap();
            let now = trial.now.get();
            let outcome = |wait: Duration, cost: u64| {
                trial.go(now + u64::try_from(wait.as_micros()).unwrap());
                trial.store.peek_all(&[group[0].with_cost(cost)]).outcomes()[0].clone()
            };
            let mut exercised = false;
            for cost in [0, 1, capacity] {
                let denied = outcome(Duration::ZERO, cost);
                let Some(wait) = denied.retry_after() else { continue };
                exercised = true;
                assert_eq!((denied.remaining(), denied.capacity()), (0, capacity));
                assert!(!outcome(earlier(wait), cost).is_allowed(), "a cost of {cost}, early");
                assert!(outcome(wait, cost).is_allowed(), "a cost of {cost}, in time");
                if cost == 1 {
                    assert_eq!(denied.next_unit_after(), Some(wait));
                }
                let reset = denied.reset_after();
                assert!(outcome(earlier(reset), cost).remaining() < capacity, "the full quota, early");
                assert_eq!(outcome(reset, cost).remaining(), capacity, "the full quota, in time");
            }
            exercised
        });
    }

    fn as_many_as_fit_are_all_that_fit(store: &Timed) {
        each_case(store, case(true), 0.5, |trial| {
            let (taking, twin) = (trial.callers("taking"), trial.callers("twin"));
            for event in &trial.case.past {
                trial.pass(event);
                let outcome = trial.check(&event.group, &taking);
                if !trial.agree(&outcome, &trial.check(&event.group, &twin), "the past") {
                    return false;
                }
            }
            let most = 1 + trial.id % 50;
            let (group, of_twin) = (trial.checks(&trial.case.group, &taking), trial.checks(&trial.case.group, &twin));
            let up_to = trial.store.limiter.check_up_to_all(&group, most);
            let (units, outcome) = trial.store.run(up_to).unwrap();
            assert!(units <= most && outcome.is_allowed() == (units > 0));
            let at_cost = |units| of_twin.iter().map(|check| check.with_cost(units)).collect::<Vec<_>>();
            let one_more_fits = units < most && trial.store.peek_all(&at_cost(units + 1)).is_allowed();
            if !trial.agree(&outcome, &trial.store.check_all(&at_cost(units.max(1))), "a check of as many") {
                return false;
            }
            assert!(!one_more_fits, "one more fits");
            units > 0
        });
    }

    fn remaining_is_the_number_of_unit_requests_that_pass_now(store: &Timed) {
        each_case(store, case(true), 0.5, |trial| {
            let callers = trial.callers("");
            trial.run_events(&trial.case.past, &callers);
            let unit = [(0, 0, Cost::Units(1))];
            let remaining = trial.peek(&unit, &callers).outcomes()[0].remaining();
            if remaining > 300 {
                return false;
            }
            for left in (0..remaining).rev() {
                let outcome = trial.check(&unit, &callers);
                assert!(outcome.is_allowed(), "{left} should be left");
                assert_eq!(outcome.outcomes()[0].remaining(), left);
            }
            assert!(!trial.check(&unit, &callers).is_allowed(), "one more than {remaining}");
            true
        });
    }

    fn the_full_quota_is_back_at_the_reset_and_not_a_microsecond_earlier(store: &Timed) {
        each_case(store, case(true), 0.5, |trial| {
            let callers = trial.callers("");
            trial.run_events(&trial.case.past, &callers);
            let now = trial.now.get();
            let mut exercised = false;
            // Only a check notices for good that the clock went back.
            let _ = trial.check(&trial.everything(), &callers);
            for limit in trial.everything() {
                let outcome = |at| {
                    trial.go(at);
                    trial.peek(&[limit], &callers).outcomes()[0].clone()
                };
                let first = outcome(now);
                let reset_after = u64::try_from(first.reset_after().as_micros()).unwrap();
                if reset_after == 0 {
                    assert_eq!(first.remaining(), first.capacity());
                    continue;
                }
                exercised = true;
                assert!(first.remaining() < first.capacity());
                assert!(outcome(now + reset_after - 1).remaining() < first.capacity(), "early");
                assert_eq!(outcome(now + reset_after).remaining(), first.capacity(), "in time");
                assert_eq!(outcome(now + reset_after).reset_after(), Duration::ZERO);
            }
            exercised
        });
    }

    fn a_peek_predicts_the_check_and_changes_nothing(store: &Timed) {
        each_case(store, case(true), 0.5, |trial| {
            let (peeking, twin) = (trial.callers("peeking"), trial.callers("twin"));
            let mut denied = false;
            for event in trial.case.past.iter().chain(&trial.case.future) {
                trial.pass(event);
                let _ = trial.peek(&trial.case.group, &peeking);
                let predicted = trial.peek(&event.group, &peeking);
                let outcome = trial.check(&event.group, &peeking);
                assert_eq!(predicted.is_allowed(), outcome.is_allowed());
                if !outcome.is_allowed() {
                    denied = true;
                    let single_units = outcome.outcomes().iter().all(|one| one.cost() == 1);
                    for (predicted, outcome) in predicted.outcomes().iter().zip(outcome.outcomes()) {
                        if single_units {
                            assert_eq!(predicted, outcome, "a denial is the same, peeked or checked");
                        } else {
                            // A denial of a larger cost may be a remembered one, since when units have left.
                            assert_eq!(predicted.decision(), outcome.decision());
                            assert_eq!(predicted.reset_after(), outcome.reset_after());
                            assert!(predicted.remaining() >= outcome.remaining());
                        }
                    }
                }
                let without_peek = trial.check(&event.group, &twin);
                if !trial.agree(&outcome, &without_peek, "the twin that did not peek") {
                    return denied;
                }
            }
            denied
        });
    }

    fn a_denied_group_changes_nothing(store: &Timed) {
        each_case(store, case(false), 0.5, |trial| {
            let (insisting, twin) = (trial.callers("insisting"), trial.callers("twin"));
            let mut denied = false;
            for event in trial.case.past.iter().chain(&trial.case.future) {
                trial.pass(event);
                let outcome = trial.check(&event.group, &insisting);
                if outcome.is_allowed() {
                    assert_eq!(outcome, trial.check(&event.group, &twin), "the twin that sends only checks that pass");
                }
                denied |= !outcome.is_allowed();
                let everything = trial.everything();
                assert_eq!(trial.peek(&everything, &insisting), trial.peek(&everything, &twin));
            }
            denied
        });
    }

    fn a_long_log_waits_for_the_right_entry_and_drops_only_expired_ones(store: &Timed) {
        // More entries than the script reads at a time, at odd places: the square of their number.
        let (max, window) = (350, Duration::from_secs(60));
        let policy =
            Policy::builder("log").algorithm(Algorithm::SlidingWindowLog).max(max).window(window).build();
        let start = MIDNIGHT.as_micros();
        let life = u64::try_from(window.as_micros()).unwrap() + 1;
        for entry in 0..max {
            store.set(start + entry * entry);
            assert!(store.check(&policy, "a").is_allowed());
        }
        let wait = |now, cost| {
            store.set(now);
            let outcome = store.peek_all(&[Check::new(&policy, "a").with_cost(cost)]);
            outcome.retry_after().map(|wait| now + u64::try_from(wait.as_micros()).unwrap())
        };
        for cost in 1..=max {
            let leaves = start + (cost - 1).pow(2) + life;
            assert_eq!(wait(start + max * max, cost), Some(leaves), "cost {cost}");
        }
        // Jumps over more and more entries at once, one microsecond before and at the instant they have left.
        for gone in [1, 2, 100, 203, 204, 349] {
            let leaves = start + (gone - 1_u64).pow(2) + life;
            store.set(leaves - 1);
            assert_eq!(store.peek(&policy, "a").remaining(), gone - 1);
            store.set(leaves);
            // A check that takes nothing: it drops them for good.
            let outcome = store.check_all(&[Check::new(&policy, "a").with_cost(0)]);
            assert_eq!(outcome.outcomes()[0].remaining(), gone);
            assert_eq!(wait(leaves, gone + 1), Some(start + gone.pow(2) + life));
        }
    }
}
