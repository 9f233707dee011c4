//! Token buckets over a long time: every token that is due passes, and none more.

use std::time::Duration;

use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Check, Outcome, Policy, Timestamp};
use tests::random::Random;
use tests::timed::{MIDNIGHT, report};

tests::on_both_stores! {
    fn a_token_bucket_in_a_store_gains_and_loses_nothing(store: &Timed) {
        for (i, rate) in RATES.into_iter().enumerate() {
            drain(rate, u64::MAX, 300, |policy, cost, now| {
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

/// Takes every token at odd instants, until `span` microseconds have passed or `steps` were made. `check`
/// checks a cost at an instant. Returns the number of admitted units.
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
