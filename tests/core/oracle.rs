//! Random policies and histories: what an outcome promises comes true, on both stores.
//!
//! Every property runs over random groups and histories; `ORACLE_CASES` sets their number. Random numbers
//! are the same in every run.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Check, GroupOutcome, Outcome, Policy, Timestamp};
use tests::random::Random;
use tests::strategies::{cases, policy, step_back, step_forward};
use tests::timed::{MIDNIGHT, Timed, report};

/// A limit in a group: number of its policy, number of the caller, cost.
type Limit = (usize, usize, Cost);

/// Units, or a share of the policy's capacity in percent, and how many more.
#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    Share(u64, u64),
}

/// Some time passes, and a group is checked.
#[derive(Clone, Debug)]
struct Event {
    /// Share of the first policy's window by which the clock moves, in percent; negative when it goes back.
    step: i64,
    /// Microseconds more.
    jitter: i64,
    group: Vec<Limit>,
}

/// A history, and what the property then tries.
#[derive(Clone, Debug)]
struct Case {
    policies: Vec<Policy>,
    past: Vec<Event>,
    group: Vec<Limit>,
    future: Vec<Event>,
}

fn group(policies: usize, sizes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<Limit>> {
    let cost = prop_oneof![
        6 => (0u64..4).prop_map(Cost::Units),
        6 => (0u64..=100, 0u64..2).prop_map(|(share, more)| Cost::Share(share, more)),
    ];
    prop::collection::vec((0..policies, 0usize..2, cost), sizes)
}

fn events(policies: usize, back: bool) -> impl Strategy<Value = Vec<Event>> {
    let step = prop_oneof![
        15 => step_forward(),
        u32::from(back) => step_back(),
    ];
    let event = (step, -2i64..3, prop_oneof![2 => group(policies, 1..=1), 1 => group(policies, 1..=4)]);
    let event = event.prop_map(move |(step, jitter, group)| Event {
        step,
        jitter: if back { jitter } else { jitter.abs() },
        group,
    });
    prop::collection::vec(event, 0..16)
}

fn case(back: bool) -> impl Strategy<Value = Case> {
    prop::collection::vec(policy(), 1..=3).prop_flat_map(move |policies| {
        let n = policies.len();
        (Just(policies), events(n, back), group(n, 1..=4), events(n, back))
            .prop_map(|(policies, past, group, future)| Case { policies, past, group, future })
    })
}

/// A case on a store, where the callers have names of their own.
struct Trial<'a> {
    store: &'a Timed,
    case: &'a Case,
    now: Cell<u64>,
    /// Whether the clock went back.
    went_back: Cell<bool>,
    id: u64,
}

/// The two callers of a case; a twin has two others, with a history of their own.
type Callers = [String; 2];

impl Trial<'_> {
    fn callers(&self, twin: &str) -> Callers {
        [0, 1].map(|caller| format!("{}/{twin}/{caller}", self.id))
    }

    fn checks<'c>(&'c self, group: &[Limit], callers: &'c Callers) -> Vec<Check<'c>> {
        let check = |&(policy, caller, cost): &Limit| {
            let policy = &self.case.policies[policy];
            let units = match cost {
                Cost::Units(units) => units,
                Cost::Share(percent, more) => policy.capacity() * percent / 100 + more,
            };
            Check::new(policy, &callers[caller]).with_cost(units)
        };
        group.iter().map(check).collect()
    }

    fn check(&self, group: &[Limit], callers: &Callers) -> GroupOutcome {
        self.store.check_all(&self.checks(group, callers))
    }

    fn peek(&self, group: &[Limit], callers: &Callers) -> GroupOutcome {
        self.store.peek_all(&self.checks(group, callers))
    }

    /// Every policy of every caller, at no cost.
    fn everything(&self) -> Vec<Limit> {
        let all = (0..self.case.policies.len()).flat_map(|policy| [0, 1].map(|caller| (policy, caller)));
        all.map(|(policy, caller)| (policy, caller, Cost::Units(0))).collect()
    }

    fn go(&self, now: u64) {
        self.now.set(now);
        self.store.set(now);
    }

    fn pass(&self, event: &Event) {
        let window = i64::try_from(self.case.policies[0].window().as_micros()).unwrap();
        // Far from both ends of what an instant can be.
        let moved = self.now.get().saturating_add_signed(window / 100 * event.step + event.jitter);
        let moved = moved.clamp(1_500_000_000_000_000, 3_000_000_000_000_000);
        self.went_back.set(self.went_back.get() || moved < self.now.get());
        self.go(moved);
    }

    /// Whether the store may have dropped a state that counts again because the clock went back. The memory store drops
    /// expired states of a shard when the shard needs room, so one of two callers may lose a state that the other keeps.
    fn may_have_dropped_a_state(&self) -> bool {
        self.went_back.get() && self.store.limiter.store_kind() == "memory"
    }

    /// Asserts that two callers with the same past see the same. Returns false if they differ because one lost a state.
    fn agree(&self, one: &GroupOutcome, twin: &GroupOutcome, what: &str) -> bool {
        if one != twin && self.may_have_dropped_a_state() {
            return false;
        }
        assert_eq!(one, twin, "{what}");
        true
    }

    fn run_events(&self, events: &[Event], callers: &Callers) {
        for event in events {
            self.pass(event);
            let _ = self.check(&event.group, callers);
        }
    }
}

/// A microsecond less; no wait is shorter than one.
fn earlier(wait: Duration) -> Duration {
    wait.checked_sub(Duration::from_micros(1)).expect("a wait of a microsecond at least")
}

/// Tries a property on many cases. The property returns whether the case exercised it, and at least this share must do so.
fn each_case(
    store: &Timed,
    strategy: impl Strategy<Value = Case>,
    at_least: f64,
    property: impl Fn(&Trial<'_>) -> bool,
) {
    let wanted = cases("ORACLE_CASES", 2_000);
    let config = Config { cases: wanted, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (id, exercised) = (Cell::new(0u64), Cell::new(0u32));
    let result = runner.run(&strategy, |case| {
        id.set(id.get() + 1);
        let trial =
            Trial { store, case: &case, now: Cell::new(0), went_back: Cell::new(false), id: id.get() };
        trial.go(MIDNIGHT.as_micros() + 123_456);
        exercised.set(exercised.get() + u32::from(property(&trial)));
        Ok(())
    });
    result.unwrap();
    let test = std::thread::current().name().unwrap_or("property").to_owned();
    report(&format!("{test}: {wanted} cases, {} of them exercise the property", exercised.get()));
    assert!(
        f64::from(exercised.get()) >= at_least * f64::from(wanted),
        "too few cases that exercise the property: {}",
        exercised.get()
    );
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
                assert_eq!((denied.remaining(), denied.limit()), (0, capacity));
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
                    assert_eq!(first.remaining(), first.limit());
                    continue;
                }
                exercised = true;
                assert!(first.remaining() < first.limit());
                assert!(outcome(now + reset_after - 1).remaining() < first.limit(), "early");
                assert_eq!(outcome(now + reset_after).remaining(), first.limit(), "in time");
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
                assert!(remaining(&after) <= after.outcomes()[i].limit());
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
                assert!(after.remaining() <= after.limit());
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
        // Four of the five have refilled; had they never been taken, the bucket would have been full all along.
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
                // The first instant of a later sub-window, up to the one in which it is the oldest with all its weight.
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

    fn a_token_bucket_in_a_store_gains_and_loses_nothing(store: &Timed) {
        for (i, rate) in RATES.into_iter().enumerate() {
            drain(rate, u64::MAX, 1_000, |policy, cost, now| {
                store.set(now);
                let caller = i.to_string();
                store.check_all(&[Check::new(policy, &caller).with_cost(cost)]).outcomes()[0].clone()
            });
        }
    }
}

/// Max, window in microseconds and burst of buckets whose tokens mostly take no whole number of microseconds.
const RATES: [(u64, u64, u64); 10] = [
    (7, 1_000_000, 7),
    (7, 1_000_000, 2),
    (3, 7_000, 3),
    (1_000_000, 86_400_000_000, 1_000_000),
    (1_000_000, 86_400_000_000, 3),
    (999_983, 61_000_000, 999_983),
    (999_983, 61_000_000, 100),
    (1_000_000_007, 3_600_000_001, 10_000),
    (1_000_000_000_000, 1_000_000, 1_000_000_000_000),
    (1_000_000_000_000, 366 * 86_400_000_000, 1_000),
];

/// What the bucket has to have admitted `micros` after it was full, if it was never let fill up since.
fn admitted_by((max, window, burst): (u64, u64, u64), micros: u64) -> u64 {
    burst + u64::try_from(u128::from(micros) * u128::from(max) / u128::from(window)).unwrap()
}

/// The first microsecond at which that many have been.
fn instant_of((max, window, burst): (u64, u64, u64), units: u64) -> u64 {
    u64::try_from((u128::from(units - burst) * u128::from(window)).div_ceil(u128::from(max))).unwrap()
}

/// Takes every token at odd instants, until `span` microseconds have passed or `steps` were made. `check` checks a cost at an
/// instant. Returns the number of admitted units.
fn drain(
    rate: (u64, u64, u64),
    span: u64,
    steps: u64,
    mut check: impl FnMut(&Policy, u64, u64) -> Outcome,
) -> u64 {
    let (max, window, burst) = rate;
    let builder = Policy::builder("drain").algorithm(Algorithm::TokenBucket).max(max).burst(burst);
    let policy = builder.window(Duration::from_micros(window)).build();
    // So long that the bucket, which holds less than one token, is at most full after it.
    let longest = u64::try_from(u128::from(burst - 1) * u128::from(window) / u128::from(max)).unwrap();
    let start = MIDNIGHT.as_micros() + 1;
    let (mut admitted, mut micros, mut random) = (0, 0, Random(1));
    for _ in 0..steps {
        let due = admitted_by(rate, micros);
        if due - admitted < burst {
            let denied = check(&policy, due - admitted + 1, start + micros);
            assert!(!denied.is_allowed(), "{rate:?}: one more than {due} by {micros} us");
            assert_eq!(denied.remaining(), due - admitted, "{rate:?} at {micros} us");
            let wait = Duration::from_micros(instant_of(rate, due + 1) - micros);
            assert_eq!(denied.retry_after(), Some(wait), "{rate:?} at {micros} us");
        }
        let taken = check(&policy, due - admitted, start + micros);
        assert!(taken.is_allowed() && taken.remaining() == 0, "{rate:?}: {due} by {micros} us");
        admitted = due;
        if micros >= span {
            break;
        }
        micros += longest - random.below(longest / 2 + 1);
    }
    admitted
}

#[test]
fn a_token_bucket_gains_and_loses_nothing_in_a_billion_microseconds() {
    for rate in RATES {
        let mut state: Option<State> = None;
        let span = 1_000_000_000;
        let admitted = drain(rate, span, u64::MAX, |policy, cost, now| {
            state.get_or_insert_with(|| State::new(policy)).decide(
                policy,
                cost,
                Timestamp::from_micros(now),
                Operation::Check,
            )
        });
        // The last step may have gone a little further.
        assert!(admitted >= admitted_by(rate, span));
        let (max, window, burst) = rate;
        report(&format!("{max} per {window} us, burst {burst}: {admitted} units, all that were due"));
    }
}

/// The time that a key has to live, in milliseconds.
async fn ttl(connection: &mut redis::aio::MultiplexedConnection) -> Option<u64> {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(connection).await.unwrap();
    let key = keys.first()?;
    assert_eq!(keys.len(), 1);
    let ttl: i64 = redis::cmd("PTTL").arg(key).query_async(connection).await.unwrap();
    Some(u64::try_from(ttl).expect("every key expires"))
}

/// The longest that a key may live, in microseconds: as long as a caller's state can say something, and the second that
/// every expiry has as a margin.
fn longest_life(policy: &Policy) -> u128 {
    const MARGIN: u128 = 1_000_000;
    let window = policy.window().as_micros();
    let says = match policy.algorithm() {
        Algorithm::SlidingWindowCounter => window + window / u128::from(policy.sub_windows()),
        Algorithm::SlidingWindowLog => window + 1,
        Algorithm::TokenBucket => (u128::from(policy.capacity()) * window).div_ceil(u128::from(policy.max())),
        Algorithm::FixedWindow => window,
        other => panic!("no longest life of a key is known for {other}"),
    };
    says + MARGIN
}

/// A machine that stands still between two commands for longer than this fails a test for nothing.
const SLACK: u64 = 20_000;

#[test]
fn a_key_in_redis_lives_exactly_as_long_as_it_matters() {
    let Some(store) = tests::timed::redis() else { return };
    let mut connection = store.run(store.server().unwrap().raw());
    // Redis keeps the instant of expiry, which a clock that goes back puts off by itself; an injected one cannot.
    each_case(&store, case(false), 0.5, |trial| {
        let () = store.run(redis::cmd("FLUSHALL").query_async(&mut connection.clone())).unwrap();
        let callers = trial.callers("");
        let mut exercised = false;
        for event in &trial.case.past {
            trial.pass(event);
            let limit = [(0, 0, event.group[0].2)];
            let outcome = trial.check(&limit, &callers);
            let Some(ttl) = store.run(ttl(&mut connection.clone())) else { continue };
            if !outcome.is_allowed() {
                continue;
            }
            exercised = true;
            let needed = u64::try_from(outcome.outcomes()[0].reset_after().as_millis()).unwrap();
            assert!(ttl + SLACK >= needed, "{ttl} ms are too short for {needed} ms");
            // An hour at least, as the injected time may pass more slowly than the server's.
            let longest = u64::try_from(longest_life(&trial.case.policies[0]).div_ceil(1000)).unwrap();
            assert!(ttl <= longest.max(3_600_000), "{ttl} ms are longer than {longest} ms");
        }
        exercised
    });
    let () = store.run(redis::cmd("FLUSHALL").query_async(&mut connection)).unwrap();
}

#[test]
fn the_servers_own_clock_decides_and_keys_expire_by_it() {
    let Some(store) = tests::timed::redis() else { return };
    let server = store.server().unwrap();
    let limiter = server.limiter();
    let mut connection = store.run(server.raw());
    let window = Duration::from_secs(600);
    for &algorithm in Algorithm::ALL {
        let policy = Policy::builder("k").max(5).window(window).algorithm(algorithm).build();
        store.run(async {
            let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
            let time = async |connection: &mut redis::aio::MultiplexedConnection| -> u64 {
                let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await.unwrap();
                seconds * 1_000_000 + micros
            };
            let before = time(&mut connection).await;
            let group = [Check::new(&policy, "a").with_cost(3)];
            let outcome = limiter.check_all(&group).await.unwrap();
            let ttl = ttl(&mut connection).await.unwrap();
            let after = time(&mut connection).await;
            assert!((before..=after).contains(&outcome.at().as_micros()), "{algorithm}");
            let reset_after = u64::try_from(outcome.outcomes()[0].reset_after().as_millis()).unwrap();
            assert!(
                ttl + SLACK >= reset_after + 1000,
                "{algorithm}: {ttl} ms are too short for {reset_after} ms"
            );
            let longest = longest_life(&policy).div_ceil(1000);
            assert!(u128::from(ttl) <= longest, "{algorithm}: {ttl} ms are longer than {longest} ms");
        });
    }
}
