//! Random policies and histories: what an outcome of the specification promises comes true. `differential.rs`
//! and the conformance suite show that the stores decide as the specification does.
//!
//! `ORACLE_CASES` sets the number of histories. They are the same in every run.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "tests")]

mod kept;
mod lives;
mod rates;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ratelimit_core::{Check, GroupOutcome, Outcome, Policy};
use tests::START;
use tests::strategies;
use tests::timed::{Timed, reference, report};
use tests::timeline::shown;

use super::differential::{Action, Event, event, moved};

/// A microsecond less; no wait is shorter than one.
fn earlier(wait: Duration) -> Duration {
    wait.checked_sub(Duration::from_micros(1)).expect("a wait of a microsecond at least")
}

/// The specification at an instant.
struct At<'a> {
    store: &'a Timed,
    now: u64,
}

impl At<'_> {
    fn peek(&self, group: &[Check<'_>], later: Duration) -> GroupOutcome {
        self.store.set(self.now + u64::try_from(later.as_micros()).unwrap());
        let outcome = self.store.peek_all(group);
        self.store.set(self.now);
        outcome
    }

    /// A denied group, and each of its limits, passes after its wait and not a microsecond earlier. Returns
    /// whether it is denied.
    fn waits_are_exact(&self, group: &[Check<'_>]) -> bool {
        let peeked = self.peek(group, Duration::ZERO);
        let of_limits = peeked.outcomes().iter().map(Outcome::retry_after).enumerate();
        let waits = of_limits.map(|(limit, wait)| (wait, Some(limit))).chain([(peeked.retry_after(), None)]);
        for (wait, limit) in waits {
            let passes = |outcome: &GroupOutcome| {
                limit.map_or(outcome.is_allowed(), |limit| outcome.outcomes()[limit].is_allowed())
            };
            let place = format!("limit {limit:?} of {group:?}, {wait:?} after {}", self.now);
            match wait {
                Some(wait) => {
                    assert!(!passes(&self.peek(group, earlier(wait))), "{place}: early");
                    assert!(passes(&self.peek(group, wait)), "{place}: in time");
                }
                None if passes(&peeked) => {}
                None => {
                    assert!(!passes(&self.peek(group, Duration::from_secs(800 * 86_400))), "{place}: never");
                }
            }
        }
        !peeked.is_allowed()
    }

    /// As many units pass as remain, and all of them are there at the reset, not a microsecond earlier.
    fn quotas_are_exact(&self, check: Check<'_>) {
        let peek = |cost, later| self.peek(&[check.with_cost(cost)], later).outcomes()[0].clone();
        let first = peek(0, Duration::ZERO);
        let (remaining, reset) = (first.remaining(), first.reset_after());
        assert!(remaining == 0 || peek(remaining, Duration::ZERO).is_allowed(), "{first:?}");
        assert!(!peek(remaining + 1, Duration::ZERO).is_allowed(), "{first:?}");
        assert_eq!(remaining == first.capacity(), reset.is_zero(), "{first:?}");
        assert!(
            reset.is_zero() || peek(0, earlier(reset)).remaining() < first.capacity(),
            "{first:?}: early"
        );
        let full = peek(0, reset);
        assert_eq!((full.remaining(), full.reset_after()), (full.capacity(), Duration::ZERO), "{first:?}");
    }

    /// The largest number of units, up to `most`, of which each limit can be charged as many.
    fn largest_fit(&self, group: &[Check<'_>], most: u64) -> u64 {
        let (mut fits, mut fails) = (0, most + 1);
        while fails - fits > 1 {
            let units = fits.midpoint(fails);
            let group: Vec<Check<'_>> = group.iter().map(|check| check.with_cost(units)).collect();
            *(if self.peek(&group, Duration::ZERO).is_allowed() { &mut fits } else { &mut fails }) = units;
        }
        fits
    }
}

/// Plays a history, and compares what happens with what the outcomes before promised. Returns how many
/// requests were denied.
fn play(store: &Timed, policies: &[Policy], events: &[Event], id: u64) -> u32 {
    let (mut now, mut went_back, mut denied) = (START, false, 0);
    let callers = [0, 1].map(|caller| format!("{id}/{caller}"));
    let limits = policies.iter().flat_map(|policy| callers.iter().map(move |caller| (policy, caller)));
    let everything: Vec<Check<'_>> =
        limits.map(|(policy, caller)| Check::new(policy, caller).with_cost(0)).collect();
    // Units of less than a microsecond, of which a charge's end is rounded up: after the clock went back, a
    // refund may lose a microsecond.
    let rounds = policies
        .iter()
        .any(|one| one.algorithm().has_burst() && u128::from(one.max()) > one.window().as_micros());
    for event in events {
        let before = now;
        now = moved(now, event, &policies[0]);
        went_back |= now < before;
        let at = At { store, now };
        store.set(now);
        let group: Vec<Check<'_>> = (event.group.iter())
            .map(|&(policy, caller, cost)| {
                Check::new(&policies[policy], &callers[usize::from(caller)]).with_cost(cost)
            })
            .collect();
        for check in &everything {
            // Only a check notices for good that the clock went back.
            let _ = store.check_all(std::slice::from_ref(check));
            at.quotas_are_exact(*check);
            let capacity = check.policy().capacity();
            for cost in [0, 1, capacity] {
                at.waits_are_exact(&[check.with_cost(cost)]);
            }
        }
        let is_denied = at.waits_are_exact(&group);
        denied += u32::from(is_denied);
        let before = store.peek_all(&everything);
        if let Action::CheckUpTo(most) = event.action
            && !group.is_empty()
        {
            let fit = at.largest_fit(&group, most);
            let (units, _) = store.run(store.limiter.check_up_to_all(&group, most)).unwrap();
            assert_eq!(units, fit, "{group:?}");
            continue;
        }
        let outcome = store.check_all(&group);
        assert_eq!(outcome.is_allowed(), !is_denied, "a peek predicts the check");
        if is_denied {
            assert_eq!(store.peek_all(&everything), before, "a denied group changes nothing");
        }
        let Some(mut reservation) = outcome.reservation(&group) else { continue };
        match event.action {
            Action::CheckAndSettle(actual) => {
                let first =
                    reservation.charges().next().map(|charge| charge.check().policy().name().to_owned());
                if let Some(settled) = first.and_then(|name| reservation.take_limit(&name)) {
                    store.run(store.limiter.settle(settled, actual)).unwrap();
                }
            }
            Action::CheckAndRefund if event.jitter <= 0 => {
                store.refund(reservation);
                if !(rounds && went_back) {
                    assert_eq!(shown(&store.peek_all(&everything)), shown(&before), "refunded at once");
                }
            }
            Action::CheckAndRefund => {
                now = moved(now, event, &policies[0]);
                store.set(now);
                let is_over = reservation.charges().all(|charge| charge.until().as_micros() <= now);
                let taken: u64 = group.iter().map(Check::cost).sum();
                let before = store.peek_all(&everything);
                store.refund(reservation);
                let after = store.peek_all(&everything);
                assert!(!is_over || after == before, "what was taken no longer counts");
                for (before, after) in before.outcomes().iter().zip(after.outcomes()) {
                    let most = after.capacity().min(before.remaining() + taken);
                    assert!((before.remaining()..=most).contains(&after.remaining()), "{before:?} {after:?}");
                }
            }
            _ => {}
        }
    }
    denied
}

#[test]
fn what_outcomes_promise_comes_true() {
    let cases = strategies::cases("ORACLE_CASES", 2_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let histories = prop::collection::vec(strategies::policy(), 1..=3).prop_flat_map(|policies| {
        let events = prop::collection::vec(event(policies.len()), 1..25);
        (Just(policies), events)
    });
    let (store, id, denied) = (reference(), std::cell::Cell::new(0), std::cell::Cell::new(0));
    let result = runner.run(&histories, |(policies, events)| {
        id.set(id.get() + 1);
        denied.set(denied.get() + play(&store, &policies, &events, id.get()));
        Ok(())
    });
    result.unwrap();
    report(&format!("{cases} histories, {} denied requests", denied.get()));
    assert!(denied.get() > cases, "{} denied requests", denied.get());
}
