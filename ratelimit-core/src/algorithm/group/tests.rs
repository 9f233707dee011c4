//! Tests of groups and of settlements.

use std::time::Duration;

use super::*;
use crate::algorithm::judge;
use crate::algorithm::tests::{Report, START, at, charge, policies, report};
use crate::check::Check;
use crate::policy::Algorithm;

#[test]
fn a_denied_group_stores_that_the_clock_went_back() {
    for (policy, _) in policies() {
        let full = Policy::new("full", 1, Duration::from_secs(60));
        let mut states = [State::new(&policy), State::new(&full)];
        charge(&mut states[0], &policy, START, policy.capacity());
        let earlier = START - 3 * policy.window_us();
        charge(&mut states[1], &full, earlier, 1);
        let group = [&policy, &full].map(|policy| Check::new(policy, "a"));
        let first = judge(&group, &[0, 1], &mut states, at(earlier), Operation::Check);
        assert!(!first.is_allowed());
        let wait = report(&first.outcomes()[0]).retry_after.unwrap();
        let second = judge(&group, &[0, 1], &mut states, at(earlier + wait / 2), Operation::Check);
        assert_eq!(report(&second.outcomes()[0]).retry_after, Some(wait - wait / 2), "{policy:?}");
    }
}

/// Settles up by this many units.
fn settle_up(state: &mut State, policy: &Policy, now: u64, units: u64) -> Report {
    report(&state.decide(policy, units, at(now), Operation::Overdraw))
}

#[test]
fn a_settlement_of_no_units_keeps_the_state_and_stores_that_the_clock_went_back() {
    let mut cases = Vec::new();
    for (policy, _) in policies() {
        let mut state = State::new(&policy);
        charge(&mut state, &policy, START, policy.capacity());
        cases.push((policy.clone(), state.clone()));
        settle_up(&mut state, &policy, START, 1);
        cases.push((policy, state));
    }
    let blocks =
        Policy::builder("k").max(1).window(Duration::from_secs(1)).block(Duration::from_secs(9)).build();
    let mut state = State::new(&blocks);
    charge(&mut state, &blocks, START, 1);
    assert!(!state.decide(&blocks, 1, at(START), Operation::Check).is_allowed());
    cases.push((blocks, state));

    for (policy, mut state) in cases {
        let before = state.clone();
        assert_eq!(settle_up(&mut state, &policy, START, 0).remaining, 0, "{policy:?}");
        assert_eq!(state, before, "{policy:?}");

        let earlier = START - 3 * policy.window_us().max(policy.block_us());
        let wait = settle_up(&mut state, &policy, earlier, 0).reset_after;
        let later = settle_up(&mut state, &policy, earlier + wait / 2, 0).reset_after;
        assert_eq!(later, wait - wait / 2, "{policy:?}: the wait began at the first request");
    }
}

#[test]
fn no_turn_is_taken_beyond_the_largest_debt() {
    let window = crate::policy::MAX_WINDOW;
    let policy =
        Policy::builder("k").algorithm(Algorithm::TokenBucket).max(2).burst(1).window(window).build();
    let mut state = State::new(&policy);
    charge(&mut state, &policy, START, 1);
    let wait = Operation::Wait { at_most_us: u64::MAX };
    let turn = state.decide(&policy, 1, at(START), wait);
    assert_eq!(turn.due_after(), window / 2);
    let taken = state.clone();
    let beyond = state.decide(&policy, 1, at(START), wait);
    assert_eq!((beyond.is_allowed(), beyond.retry_after()), (false, Some(window)));
    assert_eq!(state, taken);
}
