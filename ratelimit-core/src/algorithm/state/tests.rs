//! Tests of packing and of expiry.

use std::time::Duration;

use super::*;
use crate::algorithm::Operation;
use crate::policy::MAX_UNITS;

const NOW: u64 = 1_789_948_800_000_007;

fn two_windows(state: &State) -> bool {
    matches!(state.0, Packed::TwoWindows { .. })
}

fn charge(state: &mut State, policy: &Policy, now: u64, cost: u64) -> u64 {
    let outcome = state.decide(policy, cost, Timestamp::from_micros(now), Operation::Check);
    assert!(outcome.is_allowed(), "{cost} at {now}");
    outcome.remaining()
}

#[test]
fn two_windows_are_unpacked_as_they_were_packed_and_expire_soon_after_their_end() {
    let counts = [0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 65_535, 65_537, u64::from(u32::MAX)];
    for window in [1_000, 1_001, 60_000_000, 31_622_400_000_000] {
        let policy = Policy::new("k", 1, Duration::from_micros(window));
        for (current, earlier) in counts.into_iter().flat_map(|c| counts.map(|e| (c, e))) {
            let mut state = State::new(&policy);
            let forget_at = (NOW + 3 * window).into();
            let (current, earlier) = (current.try_into().unwrap(), earlier.try_into().unwrap());
            state.0 = Packed::TwoWindows { forget_at, current, earlier };
            let (unpacked, moved_out) = state.unpack(&Check::new(&policy, ""), NOW);
            assert!(!moved_out);
            let resets_at = unpacked.step().resets_at();
            let mut packed = State::new(&policy);
            packed.pack(unpacked);
            assert_eq!(packed, state, "{current} and {earlier} in {window} us");
            if current > 0 || earlier > 0 {
                let late = state.expires_at().as_micros() - resets_at;
                assert!(late <= window / 12 + 1, "{late} us after {current} and {earlier} in {window} us");
            }
            if current == 1 {
                assert_eq!(state.expires_at().as_micros(), resets_at, "exact for a single request");
            }
        }
    }
}

#[test]
fn states_of_every_algorithm_expire_when_nothing_counts() {
    let window = Duration::from_secs(60);
    for &algorithm in Algorithm::ALL {
        let policy = Policy::builder("k").algorithm(algorithm).max(7).window(window).build();
        let mut state = State::new(&policy);
        assert!(state.expires_at().as_micros() == 0, "{algorithm}: a new state has expired");
        charge(&mut state, &policy, NOW, 1);
        let (unpacked, _) = state.clone().unpack(&Check::new(&policy, ""), NOW);
        assert_eq!(state.expires_at().as_micros(), unpacked.step().resets_at(), "{algorithm}");
        assert!(state.expires_at().as_micros() > NOW, "{algorithm}");
    }
}

#[test]
fn a_bucket_in_debt_or_a_block_expires_when_it_is_over() {
    let policy =
        |algorithm| Policy::builder("k").algorithm(algorithm).max(2).block(Duration::from_secs(90)).build();
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm);
        let mut state = State::new(&policy);
        for cost in [2, 1] {
            let _ = state.decide(&policy, cost, Timestamp::from_micros(NOW), Operation::Check);
        }
        assert_eq!(state.expires_at().as_micros(), NOW + 90_000_000, "{algorithm}");
        assert!(!state.refund(
            &policy,
            Timestamp::from_micros(NOW),
            Timestamp::from_micros(NOW),
            Timestamp::from_micros(u64::MAX),
            2
        ));
        charge(&mut state, &policy, NOW + 90_000_000, 2);
    }
    let bucket = policy(Algorithm::TokenBucket);
    let mut state = State::new(&bucket);
    let _ = state.decide(&bucket, 5, Timestamp::from_micros(NOW), Operation::Overdraw);
    assert!(matches!(state.0, Packed::LongBucket(_)));
    assert_eq!(state.expires_at().as_micros(), NOW + 150_000_000);
    let _ = state.decide(&bucket, 0, Timestamp::from_micros(NOW + 120_000_000), Operation::Check);
    assert!(matches!(state.0, Packed::TokenBucket { .. }), "paid, and charged again");
}

#[test]
fn two_windows_with_counts_above_32_bits_are_boxed() {
    let window = 60_000_000;
    let policy = Policy::new("k", MAX_UNITS, Duration::from_micros(window));
    let (mut state, most, start) = (State::new(&policy), u64::from(u32::MAX), NOW - NOW % window);
    assert_eq!(charge(&mut state, &policy, start, most), MAX_UNITS - most);
    assert!(two_windows(&state));
    assert_eq!(charge(&mut state, &policy, start, 1), MAX_UNITS - most - 1);
    assert!(!two_windows(&state));
    // Half a window later half of the count remains, and the expiry is that of counts in place.
    let half = most.div_ceil(2);
    assert_eq!(charge(&mut state, &policy, start + window + window / 2, 5), MAX_UNITS - half - 5);
    let end = start + 3 * window - (window - 1) / 5;
    assert_eq!(state.expires_at().as_micros(), end);
    assert_eq!(charge(&mut state, &policy, end, 0), MAX_UNITS);
}

/// A request near an edge may be decided in the window that has just ended, or just begins.
#[cfg(feature = "calendar")]
#[test]
fn a_decision_outside_of_its_window_is_one_at_the_nearest_instant_in_it() {
    use crate::algorithm::{judge, judge_check};
    use crate::clock::micros;
    use crate::policy::Calendar;

    let daily = Policy::builder("k").max(2).calendar(Calendar::day()).build();
    let (from, before) = (1_789_948_800_000_000, 1_790_035_200_000_000);
    let day = Check::new(&daily, "a").in_window(Timestamp::from_micros(from), 0);
    for (now, at) in
        [(from - 3_600_000_000, from), (from + 7, from + 7), (before + 3_600_000_000, before - 1)]
    {
        let mut state = State::new(&daily);
        let mut decided = |cost| {
            judge_check(&day.with_cost(cost), &mut state, Timestamp::from_micros(now), Operation::Check)
        };
        let (charged, denied) = (decided(2), decided(1));
        assert_eq!((charged.at().as_micros(), micros(charged.reset_after())), (at, before - at));
        assert_eq!((denied.at().as_micros(), denied.retry_after().map(micros)), (at, Some(before - at)));
        let (group, mut states) = ([day, day], [State::new(&daily)]);
        let outcome = judge(&group, &[0, 0], &mut states, Timestamp::from_micros(now), Operation::Check);
        let reservation = outcome.reservation(&group).unwrap();
        let charge = reservation.charges().next().unwrap();
        assert_eq!((charge.at().as_micros(), charge.until().as_micros()), (at, before));
    }
}
