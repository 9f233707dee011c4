//! Tests of decoding: states, and malformed bytes.

use std::time::Duration;

use super::*;
use crate::algorithm::Operation;

const LOG: Algorithm = Algorithm::SlidingWindowLog;
const NOW: Timestamp = Timestamp::from_micros(50_000_000);
/// The longest window, in microseconds.
const YEAR: u64 = 366 * 86_400_000_000;
/// No request of the batch came before.
const NONE: Effect = Effect::Charged(0);

fn policy(algorithm: Algorithm) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(10).window(Duration::from_secs(60)).build()
}

/// A tag, and little-endian integers with their sizes in bytes.
fn bytes(tag: u8, numbers: &[(u64, usize)]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|(number, size)| number.to_le_bytes()[..*size].to_vec());
    [tag].into_iter().chain(numbers).collect()
}

#[test]
fn newer_entries_of_a_log_are_merged() {
    let policy = policy(LOG);
    let numbers = [(9, 5), (40_000_000, 7), (2, 2), (1_000_000, 7), (2, 5), (3_000_000, 7), (1, 5)];
    let reply = bytes(b'l', &numbers);
    // The tenth unit was charged at this instant.
    for (cost, end) in [
        (1, 61_000_001),
        (2, 61_000_001),
        (3, 63_000_001),
        (4, 100_000_001),
        (9, 100_000_001),
        (10, 110_000_001),
    ] {
        let mut state =
            State::decode(&Check::new(&policy, ""), &reply, NOW, None, Effect::Charged(1)).unwrap();
        let outcome = state.decide(&policy, cost, NOW, Operation::Check);
        assert_eq!(outcome.retry_after(), Some(Duration::from_micros(end - NOW.as_micros())), "{cost}");
        assert_eq!(outcome.reset_after(), Duration::from_micros(60_000_001));
    }
}

#[test]
fn a_block_is_decoded_as_of_any_algorithm_until_it_is_over() {
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm);
        let remaining = |until, effect| {
            let mut state =
                State::decode(&Check::new(&policy, ""), &bytes(b'b', &[(until, 7)]), NOW, None, effect)
                    .unwrap();
            state.decide(&policy, 1, NOW, Operation::Peek).remaining()
        };
        assert_eq!(remaining(50_000_001, NONE), 0, "{algorithm}");
        assert_eq!(remaining(50_000_000, NONE), 9 + 1, "{algorithm}: over");
        assert_eq!(remaining(50_000_000, Effect::Charged(3)), 7, "{algorithm}: charged since");
        assert_eq!(remaining(1, Effect::Blocked(Timestamp::from_micros(50_000_001))), 0, "{algorithm}");
    }
}

#[test]
fn effects_of_several_requests_add_up_until_a_block_begins() {
    let block = Effect::Blocked(NOW);
    for (effects, sum) in [
        (vec![], NONE),
        (vec![Effect::Charged(3), Effect::Charged(4)], Effect::Charged(7)),
        (vec![Effect::Charged(3), block, NONE], block),
        (vec![Effect::Overdrawn(5), block], block),
        (vec![Effect::Charged(3), Effect::Overdrawn(5), Effect::Charged(1)], Effect::Overdrawn(9)),
    ] {
        let mut all = NONE;
        for effect in effects {
            all.add(effect);
        }
        assert_eq!(all, sum);
    }
}

#[test]
fn a_request_of_the_batch_may_have_left_a_debt() {
    for &algorithm in Algorithm::ALL {
        let policy = policy(algorithm);
        let wait = |effect| {
            let mut state = State::decode(&Check::new(&policy, ""), ABSENT, NOW, None, effect).unwrap();
            state.decide(&policy, 1, NOW, Operation::Check).retry_after()
        };
        let (full, debt) = (wait(Effect::Charged(10)), wait(Effect::Overdrawn(30)));
        let is_longer = !matches!(algorithm, Algorithm::FixedWindow | LOG);
        assert_eq!(full < debt, is_longer, "{algorithm}: {full:?} {debt:?}");
    }
}

#[test]
fn a_wrong_sum_counts_as_it_did_in_the_script() {
    let three = Policy::builder("k").max(10).window(Duration::from_secs(60)).sub_windows(3).build();
    for (sum, [first, second]) in [(7u64, [3, 4]), (7, [0, 0]), (7, [99, 99]), (0, [3, 4])] {
        let found = bytes(b'c', &[(60_000_000, 7), (2, 5), (0, 5), (sum, 5), (first, 5), (second, 5)]);
        let mut state =
            State::decode(&Check::new(&three, ""), &found, Timestamp::from_micros(61_000_000), None, NONE)
                .unwrap();
        let outcome = state.decide(&three, 1, Timestamp::from_micros(61_000_000), Operation::Check);
        assert_eq!(outcome.remaining(), 10 - 2 - sum - 1, "{sum} of {first} and {second}");
    }
}

#[test]
fn malformed_bytes_are_no_state() {
    let windows = |tag| bytes(tag, &[(1, 7), (2, 5), (3, 5)]);
    let three = Policy::builder("k").window(Duration::from_secs(60)).sub_windows(3).build();
    let sub_windows = |sum| bytes(b'c', &[(1, 7), (2, 5), (3, 5), (sum, 5), (4, 5), (5, 5)]);
    let (counter, fixed) = (policy(Algorithm::SlidingWindowCounter), policy(Algorithm::FixedWindow));
    let (bucket, log) = (policy(Algorithm::TokenBucket), policy(LOG));
    let entry = |used, time| bytes(b'l', &[(used, 5), (9, 7), (1, 2), (time, 7), (2, 5)]);
    let cases = [
        (&counter, windows(b'c'), true),
        (&counter, windows(b'f'), false),
        (&counter, windows(b'c')[..17].to_vec(), false),
        (&counter, sub_windows(9), false),
        (&counter, Vec::new(), false),
        (&counter, b"!".to_vec(), false),
        (&counter, ABSENT.to_vec(), true),
        (&three, sub_windows(9), true),
        (&three, windows(b'c'), false),
        (&three, ABSENT.to_vec(), true),
        (&fixed, bytes(b'f', &[(1, 7), (2, 5)]), true),
        (&fixed, bytes(b'f', &[(1, 7), (2, 6)]), false),
        (&bucket, bytes(b't', &[(1, 7), (9, 5)]), true),
        (&bucket, bytes(b't', &[(1, 7), (10, 5)]), false),
        (&log, bytes(b'l', &[(0, 5), (0, 7), (0, 2)]), true),
        (&log, bytes(b'l', &[(0, 5), (0, 7)]), false),
        (&log, entry(3, 1), true),
        (&log, entry(1, 1), false),
        (&log, entry(3, 10), false),
        (&log, bytes(b'b', &[(60_000_000, 7)]), true),
        (&bucket, bytes(b'b', &[(40_000_000, 7)]), true),
        (&fixed, bytes(b'b', &[(60_000_000, 6)]), false),
        (&fixed, bytes(b'b', &[(60_000_000, 8)]), false),
        (&three, b"b".to_vec(), false),
        (&bucket, bytes(b'd', &[(60_000_000, 7), (9, 5), (60_000_000, 7)]), true),
        (&bucket, bytes(b'd', &[(60_000_000, 7), (10, 5), (60_000_000, 7)]), false),
        (&bucket, bytes(b'e', &[(60_000_000, 7), (9, 5), (60_000_000, 7)]), true),
        (&bucket, bytes(b'e', &[(60_000_000, 7), (9, 5)]), false),
        (&bucket, bytes(b'p', &[(60_000_000, 7), (9, 5), (60_000_000, 7), (5, 7)]), true),
        (&bucket, bytes(b'p', &[(60_000_000, 7), (9, 5), (60_000_000, 7)]), false),
        (&bucket, bytes(b'd', &[(60_000_000, 7), (9, 5)]), false),
        (&bucket, bytes(b'd', &[(60_000_000, 7), (9, 5), (60_000_000, 8)]), false),
        (&bucket, bytes(b'd', &[(60_000_000, 7), (9, 5), (60_000_001, 7)]), false),
        (&bucket, bytes(b'd', &[(YEAR + 7, 7), (0, 5), (7, 7)]), true),
        (&bucket, bytes(b'd', &[(YEAR + 7, 7), (1, 5), (7, 7)]), false),
        (&fixed, bytes(b'd', &[(60_000_000, 7), (9, 5), (60_000_000, 7)]), false),
    ];
    for (policy, bytes, valid) in cases {
        let found = State::decode(&Check::new(policy, ""), &bytes, NOW, None, NONE);
        assert_eq!(found.is_some(), valid, "{} {bytes:?}", policy.algorithm());
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let most = (u64::MAX >> 8, u64::MAX >> 24);
    let three = Policy::builder("k").window(Duration::from_secs(60)).sub_windows(3).build();
    let cases = [
        (policy(Algorithm::FixedWindow), bytes(b'f', &[(most.0, 7), (most.1, 5)])),
        (policy(Algorithm::SlidingWindowCounter), bytes(b'c', &[(most.0, 7), (most.1, 5), (most.1, 5)])),
        (policy(Algorithm::SlidingWindowCounter), bytes(b'c', &[(1, 7), (most.1, 5), (most.1, 5)])),
        (three, bytes(b'c', &[(most.0, 7), (most.1, 5), (most.1, 5), (most.1, 5), (most.1, 5), (0, 5)])),
        (policy(LOG), bytes(b'l', &[(most.1, 5), (most.0, 7), (1, 2), (0, 7), (1, 5)])),
        (policy(Algorithm::TokenBucket), bytes(b't', &[(most.0, 7), (9, 5)])),
        (policy(Algorithm::FixedWindow), bytes(b'b', &[(most.0, 7)])),
    ];
    for algorithm in Algorithm::ALL {
        assert!(cases.iter().any(|(policy, _)| policy.algorithm() == *algorithm), "no case of {algorithm}");
    }
    for (policy, bytes) in cases {
        for charged in [0, 128 * crate::policy::MAX_UNITS] {
            let mut state =
                State::decode(&Check::new(&policy, ""), &bytes, NOW, None, Effect::Charged(charged)).unwrap();
            let outcome = state.decide(&policy, 1, NOW, Operation::Check);
            assert!(!outcome.is_allowed(), "{}", policy.algorithm());
        }
    }
}
