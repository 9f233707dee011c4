//! Tests of clocks that go back or stand still.

use super::model::Model;
use super::*;
use crate::algorithm::state::Unpacked;

#[test]
fn a_clock_that_goes_back_keeps_counts_and_bounds_the_wait_by_one_window() {
    for (policy, _) in policies() {
        let (mut state, max) = (State::new(&policy), policy.capacity());
        charge(&mut state, &policy, START, max);
        let earlier = START - 3 * policy.window_us() - 7;
        let denied = state.decide(&policy, max, at(earlier), Operation::Check);
        assert_eq!((denied.is_allowed(), denied.remaining()), (false, 0), "{policy:?}");
        let wait = report(&denied).retry_after.unwrap();
        let (length, window) = (policy.sub_window_us(), policy.window_us());
        let longest = match policy.algorithm() {
            Algorithm::FixedWindow => window,
            Algorithm::SlidingWindowCounter => length + window,
            Algorithm::SlidingWindowLog => window + 1,
            Algorithm::TokenBucket => {
                u64::try_from((u128::from(max) * u128::from(window)).div_ceil(policy.max().into())).unwrap()
            }
            Algorithm::Concurrency => unreachable!("it counts nothing over time"),
        };
        assert!(wait <= longest && wait + length > longest, "{policy:?}: {wait} of {longest} us");
        // The wait began at the first request, and does not start anew with each.
        let later = state.decide(&policy, max, at(earlier + wait / 2), Operation::Check);
        assert_eq!(report(&later).retry_after, Some(wait - wait / 2), "{policy:?}");
        // Later windows start at multiples of the window again.
        let anew = earlier + wait;
        let outcome = state.decide(&policy, max, at(anew), Operation::Check);
        let expected = Model { policy: &policy, admitted: vec![(anew, max)] }.charged(anew);
        assert_eq!(report(&outcome), expected, "{policy:?}");
    }
}

#[test]
fn a_clock_that_goes_back_behind_an_empty_window_starts_it_at_a_multiple() {
    // A bucket has only the instant at which it is full, which is later in this case.
    let windows = policies().into_iter().filter(|(policy, _)| policy.algorithm() != Algorithm::TokenBucket);
    for (policy, _) in windows {
        let mut state = State::new(&policy);
        charge(&mut state, &policy, START, 1);
        assert!(state.refund(&policy, at(START), at(START), at(u64::MAX), 1));
        let earlier = START - 3 * policy.window_us() - 7;
        let outcome = state.decide(&policy, 1, at(earlier), Operation::Check);
        let expected = Model { policy: &policy, admitted: vec![(earlier, 1)] }.charged(earlier);
        assert_eq!(report(&outcome), expected, "{policy:?}");
    }
}

#[cfg(feature = "redis")]
#[test]
fn an_empty_window_in_redis_starts_at_a_multiple_if_the_clock_goes_back() {
    use crate::algorithm::encoded::Effect;
    let policy = policy(Algorithm::FixedWindow, 7, 1_003);
    let (start, earlier) = (START - START % 1_003, START - 5 * 1_003);
    let bytes = [b"f", &start.to_le_bytes()[..7], &[0; 5]].concat();
    let mut state =
        State::decode(&Check::new(&policy, ""), &bytes, at(earlier), None, Effect::Charged(1)).unwrap();
    let outcome = state.decide(&policy, 0, at(earlier), Operation::Peek);
    assert_eq!(report(&outcome), Model { policy: &policy, admitted: vec![(earlier, 1)] }.charged(earlier));
}

#[test]
fn a_state_must_be_stored_once_if_the_clock_went_back_and_not_if_it_stood_still() {
    let assert_case = |mut unpacked: Unpacked, policy: &Policy, now: u64| {
        let advance = |now| unpacked.step_mut().advance(policy, now);
        assert_eq!([now, now, now - 1, now - 1].map(advance), [false, false, true, false], "{policy:?}");
    };
    // A log is always put back.
    for (policy, _) in
        policies().into_iter().filter(|(policy, _)| policy.algorithm() != Algorithm::SlidingWindowLog)
    {
        // The first instant of a window, so that the counts begin at `now` as well.
        let now = START - START % policy.window_us();
        let mut state = State::new(&policy);
        charge(&mut state, &policy, now, policy.capacity());
        let (mut unpacked, _) = state.clone().unpack(&Check::new(&policy, ""), now);
        assert_case(unpacked, &policy, now);
        if policy.algorithm() == Algorithm::TokenBucket {
            (unpacked, _) = state.unpack(&Check::new(&policy, ""), now);
            unpacked.charge_in_debt(&policy, now, 1, true);
            assert_case(unpacked, &policy, now);
        }
    }
}
