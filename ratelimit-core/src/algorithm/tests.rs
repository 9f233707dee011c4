//! Tests of the algorithms, and the policies and helpers that they share.

mod clock;
mod model;
mod refunds;
mod turns;

use std::time::Duration;

use super::{Operation, State};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::policy::{Algorithm, MAX_UNITS, Mode, Policy};

/// An instant in 2026 that is no multiple of a second.
pub(super) const START: u64 = 1_790_000_000_123_456;

const DAY: u64 = 86_400_000_000;

pub(super) fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// What an outcome reports; times are in microseconds.
#[derive(Debug, PartialEq)]
pub(super) struct Report {
    pub(super) fits: bool,
    pub(super) remaining: u64,
    pub(super) reset_after: u64,
    pub(super) retry_after: Option<u64>,
    pub(super) next_unit: Option<u64>,
}

pub(super) fn report(outcome: &Outcome) -> Report {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap();
    Report {
        fits: outcome.is_allowed(),
        remaining: outcome.remaining(),
        reset_after: micros(outcome.reset_after()),
        retry_after: outcome.retry_after().map(micros),
        next_unit: outcome.next_unit_after().map(micros),
    }
}

fn policy(algorithm: Algorithm, max: u64, window: u64) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).window(Duration::from_micros(window)).build()
}

fn counter(max: u64, window: u64, sub_windows: u64) -> Policy {
    Policy::builder("k").max(max).window(Duration::from_micros(window)).sub_windows(sub_windows).build()
}

fn bucket(max: u64, window: u64, burst: u64) -> Policy {
    let builder = Policy::builder("k").algorithm(Algorithm::TokenBucket).max(max).burst(burst);
    builder.window(Duration::from_micros(window)).build()
}

/// Policies of all algorithms; some with a lower `max`, under which their counts are peeked now and then.
pub(super) fn policies() -> Vec<(Policy, Option<Policy>)> {
    let lowered = |policy: fn(u64) -> Policy, max: u64| (policy(max), Some(policy(max / 2)));
    vec![
        lowered(|max| policy(Algorithm::FixedWindow, max, 1_003), 7),
        lowered(|max| policy(Algorithm::FixedWindow, max, 366 * DAY), MAX_UNITS),
        lowered(|max| policy(Algorithm::SlidingWindowLog, max, 1_003), 7),
        lowered(|max| policy(Algorithm::SlidingWindowCounter, max, 1_003), 7),
        lowered(|max| policy(Algorithm::SlidingWindowCounter, max, 366 * DAY), MAX_UNITS),
        lowered(|max| counter(max, 3_009, 3), 20),
        lowered(|max| counter(max, 60_000, 60), 50),
        lowered(|max| counter(max, 360 * DAY, 2), MAX_UNITS),
        (policy(Algorithm::TokenBucket, 7, 1_003), None),
        (policy(Algorithm::TokenBucket, MAX_UNITS, 366 * DAY), None),
        (bucket(7, 1_003, 3), None),
        (bucket(7, 1_009, 20), None),
        (bucket(1_000_003, 60_000_000, 10), None),
    ]
}

/// Charges `cost` at `now`; it must pass.
pub(super) fn charge(state: &mut State, policy: &Policy, now: u64, cost: u64) {
    assert!(
        state.decide(policy, cost, at(now), Operation::Check).is_allowed(),
        "{policy:?}: {cost} at {now}"
    );
}

#[test]
fn the_policies_cover_all_algorithms() {
    for algorithm in Algorithm::ALL {
        assert!(policies().iter().any(|(policy, _)| policy.algorithm() == *algorithm), "{algorithm}");
    }
}

#[test]
fn a_refund_affects_only_its_own_charge() {
    for (policy, _) in policies() {
        if policy.algorithm() == Algorithm::TokenBucket || policy.max() > 100 {
            continue;
        }
        let length = policy.sub_window_us();
        let start = START - START % length + 5;
        let left =
            |state: &State, now| state.clone().decide(&policy, 0, at(now), Operation::Peek).remaining();
        let mut state = State::new(&policy);
        charge(&mut state, &policy, start, 2);
        charge(&mut state, &policy, start + length, 1);
        // A refund of an instant without a charge, whose window has not ended. The second instant is the
        // first of a window.
        for taken_at in [start - 2 * policy.window_us(), start - 5 + 2 * length, start + 2 * length] {
            let mut other = state.clone();
            let before = left(&other, start + length);
            other.refund(&policy, at(start + length), at(taken_at), at(u64::MAX), 1);
            assert_eq!(left(&other, start + length), before, "{policy:?} {taken_at}");
        }
        // A refund of more than the charge refunds the charge, and a second refund nothing.
        for _ in 0..2 {
            state.refund(&policy, at(start + length), at(start + length), at(u64::MAX), 5);
            let mut twin = State::new(&policy);
            charge(&mut twin, &policy, start, 2);
            assert_eq!(left(&state, start + length), left(&twin, start + length), "{policy:?}");
        }
    }
}

#[test]
fn the_state_of_many_sub_windows_is_copied_only_if_advancing_may_change_it() {
    let policy = counter(10, 3_000, 3);
    let start = START - START % 1_000;
    let mut state = State::new(&policy);
    charge(&mut state, &policy, start + 3, 1);
    for (now, is_moved_out) in
        [(start, true), (start + 1, true), (start + 999, true), (start - 1, false), (start + 1_000, false)]
    {
        assert_eq!(
            state.clone().unpack(&Check::new(&policy, ""), now).1,
            is_moved_out,
            "{} us",
            now.abs_diff(start)
        );
    }
    // Without units in the current sub-window, all units may have expired.
    assert!(state.refund(&policy, at(start + 3), at(start + 3), at(u64::MAX), 1));
    assert!(!state.unpack(&Check::new(&policy, ""), start + 3).1);
}

#[cfg(feature = "redis")]
#[test]
fn encoded_states_have_the_length_that_their_script_writes() {
    use crate::algorithm::encoded::encoded_len;
    let of_log = |count: u16| [&[0; 13][..], &count.to_le_bytes(), b"more"].concat();
    let cases = [
        (Algorithm::FixedWindow, 1, Vec::new(), Some(13)),
        (Algorithm::TokenBucket, 1, Vec::new(), Some(13)),
        (Algorithm::SlidingWindowCounter, 1, Vec::new(), Some(18)),
        (Algorithm::SlidingWindowCounter, 2, Vec::new(), Some(28)),
        (Algorithm::SlidingWindowCounter, 60, Vec::new(), Some(318)),
        (Algorithm::SlidingWindowCounter, 60, b"b".to_vec(), Some(8)),
        (Algorithm::SlidingWindowLog, 1, b"b".to_vec(), Some(8)),
        (Algorithm::TokenBucket, 1, b"t".to_vec(), Some(13)),
        (Algorithm::TokenBucket, 1, b"d".to_vec(), Some(20)),
        (Algorithm::SlidingWindowLog, 1, vec![0; 14], None),
        (Algorithm::SlidingWindowLog, 1, of_log(0), Some(15)),
        (Algorithm::SlidingWindowLog, 1, of_log(3), Some(51)),
    ];
    for algorithm in Algorithm::ALL {
        assert!(cases.iter().any(|(covered, ..)| covered == algorithm), "no case of {algorithm}");
    }
    for (algorithm, sub_windows, bytes, expected) in cases {
        assert_eq!(encoded_len(algorithm, sub_windows, &bytes), expected, "{algorithm}, {sub_windows}");
    }
}

#[test]
fn a_state_decides_in_the_mode_of_its_policy() {
    for (policy, is_shadow) in
        [(Policy::builder("k"), false), (Policy::builder("k").mode(Mode::Shadow), true)]
            .map(|(builder, is_shadow)| (builder.max(1).window(Duration::from_secs(1)).build(), is_shadow))
    {
        for operation in [Operation::Check, Operation::UpTo] {
            let outcome = State::new(&policy).decide(&policy, 1, at(START), operation);
            assert_eq!(outcome.is_shadow(), is_shadow, "{operation:?}");
        }
    }
}
