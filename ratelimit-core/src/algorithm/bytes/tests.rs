//! States as bytes: every state is read back as it was, and no bytes lead to a panic.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::algorithm::Operation;
use crate::clock::Timestamp;
use crate::policy::MAX_UNITS;

const MINUTE: Duration = Duration::from_secs(60);
const NOW: u64 = 1_790_000_000_123_456;

/// Policies of every algorithm: with and without its parameter, with and without a block, with limits below
/// and above 32 bits.
fn policies() -> Vec<Policy> {
    let shapes = Algorithm::ALL.iter().flat_map(|&algorithm| {
        [5, 7_000_000_000].into_iter().flat_map(move |max| {
            let plain = Policy::builder("bytes").algorithm(algorithm).max(max).window(MINUTE);
            [plain, plain.block(MINUTE), plain.sub_windows(6), plain.burst(3)]
        })
    });
    shapes.filter_map(|builder| builder.try_build().ok()).collect()
}

#[test]
fn no_algorithm_has_the_letter_of_another_state() {
    let mut taken = [SUB_WINDOWS, BLOCKED].into_iter().chain(token_bucket::LONG_TAGS);
    let used = taken.find(|tag| Algorithm::EVERY.iter().any(|algorithm| algorithm.spec().tag == *tag));
    assert_eq!(used, None);
}

fn operations() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
    let cost = prop_oneof![0..4u64, 0..8_000_000_000u64];
    prop::collection::vec((0..40_000_000u64, cost, 0..4u8), 1..12)
}

/// Applies one operation some time later; returns the instant.
fn step(state: &mut State, policy: &Policy, now: u64, (after, cost, what): (u64, u64, u8)) -> u64 {
    let at = Timestamp::from_micros(now + after);
    match what {
        0 => drop(state.decide(policy, cost, at, Operation::Overdraw)),
        1 => drop(state.refund(
            policy,
            at,
            Timestamp::from_micros(now),
            Timestamp::from_micros(u64::MAX >> 8),
            cost,
        )),
        _ => drop(state.decide(policy, cost, at, Operation::Check)),
    }
    now + after
}

proptest! {
    #[test]
    fn every_state_is_read_back_as_it_was(operations in operations()) {
        for policy in policies() {
            let (mut state, mut now) = (State::new(&policy), NOW);
            for operation in &operations {
                let bytes = state.to_bytes();
                let read = State::from_bytes(&policy, &bytes).unwrap();
                prop_assert_eq!(&read.to_bytes(), &bytes);
                // A log without entries is the state of a new caller.
                prop_assert!(read == state || bytes == [VERSION, b'l'], "{:?}: {:?}", &policy, &state);
                now = step(&mut state, &policy, now, *operation);
            }
        }
    }

    #[test]
    fn no_bytes_lead_to_a_panic(
        kind in prop::sample::select(b"fcsltdb".as_slice()),
        body in prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..60),
        operations in operations(),
    ) {
        for policy in policies() {
            let bytes = [&[VERSION, kind], &body[..]].concat();
            if let Ok(mut state) = State::from_bytes(&policy, &bytes) {
                let mut now = NOW;
                for operation in &operations {
                    now = step(&mut state, &policy, now, *operation);
                }
                let _ = state.expires_at();
            }
        }
    }
}

#[test]
fn bytes_that_are_no_state_of_the_policy_are_an_error() {
    for policy in policies().into_iter().filter(|policy| policy.block().is_none()) {
        let mut state = State::new(&policy);
        let _ = state.decide(&policy, 2, Timestamp::from_micros(NOW), Operation::Check);
        let bytes = state.to_bytes();
        let is_read = |bytes: &[u8]| match State::from_bytes(&policy, bytes) {
            Ok(_) => true,
            Err(StoreError::CorruptState { policy }) => {
                assert_eq!(policy, "bytes");
                false
            }
            Err(error) => panic!("{error}"),
        };
        let changed = |place: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            bytes
        };
        assert!(is_read(&bytes), "{policy:?}");
        for length in 0..bytes.len() {
            // A log of fewer entries is a log, and so is an empty one.
            let is_whole = length == 2 && matches!(bytes[1], b'l' | b's');
            assert_eq!(is_read(&bytes[..length]), is_whole, "{policy:?}: {length} of {} bytes", bytes.len());
        }
        assert!(!is_read(&[&bytes[..], &[0]].concat()), "{policy:?}: one more byte");
        for version in [0, VERSION + 1] {
            assert!(!is_read(&changed(0, version)), "{policy:?}: version {version}");
        }
        // A counter over two windows may be either kind.
        for kind in b"fcsltdb.".iter().filter(|kind| **kind != bytes[1] && (bytes[1], **kind) != (b'c', b's'))
        {
            assert!(!is_read(&changed(1, *kind)), "{policy:?}: kind {kind}");
        }
        // The last five bytes are a count, which has 32 bits in two windows, or the fraction of an instant,
        // which is below `max`.
        let mut largest = bytes.clone();
        let end = bytes.len();
        largest[end - 5..].fill(255);
        assert!(!is_read(&largest), "{policy:?}: a count of 40 bits");
    }
}

#[test]
fn entries_of_a_log_rise_in_time_and_have_units() {
    let policy = Policy::builder("log").algorithm(Algorithm::SlidingWindowLog).max(10).window(MINUTE).build();
    let log = |entries: &[(u64, u64)]| {
        let mut writer = Writer::new(VERSION);
        writer.byte(b'l');
        for (time, units) in entries {
            writer.micros(*time);
            writer.units(*units);
        }
        State::from_bytes(&policy, &writer.into_bytes()).is_ok()
    };
    assert!(log(&[(NOW, 1), (NOW + 1, 12)]), "a debt");
    for wrong in [
        [(NOW, 1), (NOW, 1)],
        [(NOW + 1, 1), (NOW, 1)],
        [(NOW, 0), (NOW + 1, 1)],
        [(NOW, 1), (NOW + 1, MAX_UNITS)],
    ] {
        assert!(!log(&wrong), "{wrong:?}");
    }
}

#[test]
fn the_state_of_one_algorithm_is_none_of_another() {
    let of = |algorithm| Policy::builder("bytes").algorithm(algorithm).max(5).window(MINUTE);
    let is_read = |policy: &Policy, bytes: &[u8]| State::from_bytes(policy, bytes).is_ok();
    let counter = of(Algorithm::SlidingWindowCounter);
    let (two, six, bucket) =
        (counter.build(), counter.sub_windows(6).build(), of(Algorithm::TokenBucket).build());
    let decided = |policy: &Policy, operation| {
        let mut state = State::new(policy);
        let _ = state.decide(policy, 9, Timestamp::from_micros(NOW), Operation::Peek);
        let _ = state.decide(policy, 3, Timestamp::from_micros(NOW), operation);
        state.to_bytes()
    };
    let (windows, debt) = (decided(&two, Operation::Check), decided(&bucket, Operation::Overdraw));
    assert_eq!((windows[1], debt[1]), (b'c', b'e'));
    assert!(is_read(&two, &windows) && !is_read(&six, &windows), "two windows are not six");
    let mut early = windows.clone();
    early[2..9].fill(0);
    assert!(!is_read(&two, &early), "nothing counts at the beginning of time");
    for &algorithm in Algorithm::ALL {
        let policy = of(algorithm).build();
        let is_counter = algorithm == Algorithm::SlidingWindowCounter;
        assert_eq!(is_read(&policy, &[VERSION, SUB_WINDOWS]), is_counter, "{algorithm}: empty sub-windows");
        assert_eq!(is_read(&policy, &debt), algorithm == Algorithm::TokenBucket, "{algorithm}: a debt");
    }
}

#[test]
fn a_log_without_entries_is_the_state_of_a_new_caller() {
    let policy = Policy::builder("log").algorithm(Algorithm::SlidingWindowLog).max(10).window(MINUTE).build();
    assert_eq!(State::from_bytes(&policy, &[VERSION, b'l']).unwrap(), State::new(&policy));
}

/// Stores keep these bytes: a change needs another version.
#[test]
fn the_layout_is_fixed() {
    let policy = Policy::builder("k").algorithm(Algorithm::FixedWindow).max(10).window(MINUTE).build();
    let mut state = State::new(&policy);
    let _ = state.decide(&policy, 3, Timestamp::from_micros(0x01_0000_0000), Operation::Check);
    // 4,294.967296 s: the window of a minute from 4,260 s ends at 4,320 s, which is 0x01_017D_F800 µs.
    assert_eq!(state.to_bytes(), [1, b'f', 0x00, 0xf8, 0x7d, 0x01, 0x01, 0, 0, 3, 0, 0, 0, 0]);
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_window_is_read_back() {
    use crate::policy::Calendar;

    let monthly = Policy::builder("k").max(10).calendar(Calendar::month(1)).build();
    let now = Timestamp::from_micros(1_790_000_000_000_000);
    let mut state = State::new(&monthly);
    assert_eq!(State::from_bytes(&monthly, &state.to_bytes()).unwrap(), state, "a new one");
    let _ = state.decide(&monthly, 3, now, Operation::Check);
    let bytes = state.to_bytes();
    let mut read = State::from_bytes(&monthly, &bytes).unwrap();
    assert_eq!(read, state);
    assert_eq!(read.decide(&monthly, 0, now, Operation::Peek).remaining(), 7);
    assert!(State::from_bytes(&monthly, &bytes[..9]).is_err());
}
