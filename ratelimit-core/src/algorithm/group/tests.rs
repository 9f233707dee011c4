//! Tests of groups whose members share states, and of settlements.

use std::time::Duration;

use super::*;
use crate::algorithm::tests::{START, at, charge, policies, report};

#[test]
fn a_denied_group_stores_that_the_clock_went_back() {
    for (policy, _) in policies() {
        let full = Policy::new("full", 1, Duration::from_secs(60));
        let mut states = [State::new(&policy), State::new(&full)];
        charge(&mut states[0], &policy, START, policy.capacity());
        let earlier = START - 3 * policy.window_us();
        charge(&mut states[1], &full, earlier, 1);
        let members = [
            Member { policy: &policy, cost: 1, shadow: false, state: 0 },
            Member { policy: &full, cost: 1, shadow: false, state: 1 },
        ];
        let first = decide(&members, &mut states, at(earlier), Operation::Check);
        assert!(!first.is_allowed());
        let wait = report(&first.outcomes()[0]).retry_after.unwrap();
        let second = decide(&members, &mut states, at(earlier + wait / 2), Operation::Check);
        assert_eq!(report(&second.outcomes()[0]).retry_after, Some(wait - wait / 2), "{policy:?}");
    }
}

#[test]
fn a_settlement_of_no_units_keeps_the_state_and_stores_that_the_clock_went_back() {
    for (policy, _) in policies() {
        let mut state = State::new(&policy);
        charge(&mut state, &policy, START, policy.capacity());
        let settle = |state: &mut State, now| {
            let member = Member { policy: &policy, cost: 0, shadow: false, state: 0 };
            let settled = decide(&[member], std::slice::from_mut(state), at(now), Operation::Overdraw);
            report(&settled.outcomes()[0])
        };
        let charged = state.clone();
        assert_eq!(settle(&mut state, START).remaining, 0, "{policy:?}");
        assert_eq!(state, charged, "{policy:?}");

        let earlier = START - 3 * policy.window_us();
        let wait = settle(&mut state, earlier).reset_after;
        let later = settle(&mut state, earlier + wait / 2).reset_after;
        assert_eq!(later, wait - wait / 2, "{policy:?}: the wait began at the first request");
    }
}

/// A limiter refuses such a group; a store of another crate may not.
#[test]
fn of_a_shadow_limit_and_an_enforced_one_over_one_count_the_enforced_one_decides_what_is_charged() {
    let window = Duration::from_secs(60);
    let (narrow, wide) = (Policy::new("k", 1, window), Policy::new("k", 5, window));
    let shadow = Member { policy: &narrow, cost: 1, shadow: true, state: 0 };
    let enforced = Member { policy: &wide, cost: 1, shadow: false, state: 0 };
    let mut states = [State::new(&wide)];
    let mut decide = |members: [Member<'_>; 2]| {
        let outcome = decide(&members, &mut states, at(START), Operation::Check);
        let remaining: Vec<u64> = outcome.outcomes().iter().map(Outcome::remaining).collect();
        (outcome.is_allowed(), remaining)
    };
    assert_eq!(
        decide([shadow, enforced]),
        (true, vec![0, 3]),
        "charged the sum, which exceeds the shadow limit"
    );
    assert_eq!(decide([enforced, shadow]), (true, vec![1, 0]));
    assert_eq!(decide([shadow, enforced]), (false, vec![0, 1]));
}
