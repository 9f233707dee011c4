//! States as Redis holds them: the bytes that the files in `lua/` describe under "State".

use super::state::{Open, each};
use super::token_bucket::{self, Rational};
use super::{Algorithm, State, Step, fixed_window, sliding_window_counter as counter, sliding_window_log};
use crate::clock::Timestamp;
use crate::policy::Policy;

/// What a script says where nothing is stored.
const NOTHING: &[u8] = b".";

/// Reads little-endian integers one after the other.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    /// The next `size` bytes, at most 8; `None` when there are not as many.
    fn next(&mut self, size: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(number);
        Some(u64::from_le_bytes(bytes))
    }

    /// An instant, in microseconds.
    fn micros(&mut self) -> Option<u64> {
        self.next(7)
    }

    fn units(&mut self) -> Option<u64> {
        self.next(5)
    }
}

/// How many bytes the state takes that `bytes` begin with; `None` when they are too few to tell.
pub(crate) fn size(algorithm: Algorithm, sub_windows: u64, bytes: &[u8]) -> Option<usize> {
    match algorithm {
        Algorithm::FixedWindow | Algorithm::TokenBucket => Some(13),
        Algorithm::SlidingWindowCounter if sub_windows == 1 => Some(18),
        Algorithm::SlidingWindowCounter => Some(18 + 5 * usize::try_from(sub_windows).ok()?),
        Algorithm::SlidingWindowLog => {
            let count = Reader(bytes.get(13..)?).next(2)?;
            Some(15 + 12 * usize::try_from(count).ok()?)
        }
    }
}

impl State {
    /// The state that was found in Redis, or told of a log, with what was charged since at the same instant, which passed;
    /// `None` when it is not one of ours.
    pub(crate) fn found(policy: &Policy, bytes: &[u8], now: Timestamp, charged: u64) -> Option<Self> {
        let mut open = Open::found(policy, bytes)?;
        each!(&mut open, state => {
            state.settle(policy, now.as_micros());
            state.charge(policy, now.as_micros(), charged);
        });
        let mut state = Self::new(policy);
        state.close(open);
        Some(state)
    }
}

impl Open {
    fn found(policy: &Policy, bytes: &[u8]) -> Option<Self> {
        if bytes == NOTHING {
            return Some(State::new(policy).open(policy, 0).0);
        }
        let (tag, bytes) = bytes.split_first()?;
        let mut reader = Reader(bytes);
        let open = match (policy.algorithm(), tag) {
            (Algorithm::FixedWindow, b'f') => Self::FixedWindow(fixed_window::State {
                window: policy.window_us(),
                start: reader.micros()?,
                count: reader.units()?,
            }),
            (Algorithm::SlidingWindowCounter, b'c') => {
                let (start, current, oldest) = (reader.micros()?, reader.units()?, reader.units()?);
                if policy.sub_windows() == 1 {
                    let earlier = std::iter::once(oldest);
                    Self::TwoWindows(
                        counter::TwoWindows::open(policy, 0, 0, 0).found(start, current, earlier),
                    )
                } else {
                    let whole_between = reader.units()?;
                    let between: Option<Vec<u64>> =
                        (1..policy.sub_windows()).map(|_| reader.units()).collect();
                    let mut earlier = between?;
                    // The script reads the counts only where it needs them, and then finds by itself that a sum is not theirs.
                    // Until then it judges by the sum, and who passed was charged and must not be told an error.
                    if earlier.iter().sum::<u64>() != whole_between {
                        earlier.fill(0);
                        earlier[0] = whole_between;
                    }
                    earlier.push(oldest);
                    let new = counter::SubWindows::new(policy);
                    Self::SubWindows(Box::new(new.found(start, current, earlier.into_iter())))
                }
            }
            (Algorithm::SlidingWindowLog, b'l') => {
                // Of the newer entries it is told how many units they are; nobody waits for one of them but the last.
                let (mut untold, newest) = (reader.units()?, reader.micros()?);
                let count = reader.next(2)?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    let (time, units) = (reader.micros()?, reader.units()?);
                    untold = untold.checked_sub(units)?;
                    entries.push((time, units));
                }
                if untold > 0 {
                    entries.push((newest, untold));
                }
                if !entries.is_sorted_by_key(|(time, _)| *time) {
                    return None;
                }
                Self::SlidingWindowLog(Box::new(sliding_window_log::State::found(
                    policy,
                    entries.into_iter(),
                )))
            }
            (Algorithm::TokenBucket, b't') => {
                let (micros, fraction) = (reader.micros()?, reader.units()?);
                if fraction >= policy.max() {
                    return None;
                }
                Self::TokenBucket(token_bucket::State { tat: Rational { micros, fraction } })
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(open)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::{Mode, decide_one};

    const LOG: Algorithm = Algorithm::SlidingWindowLog;
    const NOW: Timestamp = Timestamp::from_micros(50_000_000);

    fn policy(algorithm: Algorithm) -> Policy {
        Policy::builder("k").algorithm(algorithm).max(10).window(Duration::from_secs(60)).build()
    }

    /// A tag, and little-endian integers of so many bytes.
    fn bytes(tag: u8, numbers: &[(u64, usize)]) -> Vec<u8> {
        let numbers = numbers.iter().flat_map(|(number, size)| number.to_le_bytes()[..*size].to_vec());
        [tag].into_iter().chain(numbers).collect()
    }

    #[test]
    fn the_newer_entries_of_a_log_are_one() {
        let policy = policy(LOG);
        let told = [(9, 5), (40_000_000, 7), (2, 2), (1_000_000, 7), (2, 5), (3_000_000, 7), (1, 5)];
        let told = bytes(b'l', &told);
        // The tenth unit was charged at this instant.
        for (cost, end) in [
            (1, 61_000_001),
            (2, 61_000_001),
            (3, 63_000_001),
            (4, 100_000_001),
            (9, 100_000_001),
            (10, 110_000_001),
        ] {
            let mut state = State::found(&policy, &told, NOW, 1).unwrap();
            let told = decide_one(&policy, cost, &mut state, NOW, Mode::Check);
            assert_eq!(told.retry_after(), Some(Duration::from_micros(end - NOW.as_micros())), "{cost}");
            assert_eq!(told.reset_after(), Duration::from_micros(60_000_001));
        }
    }

    #[test]
    fn a_sum_that_is_not_that_of_the_counts_counts_as_it_did_to_the_script() {
        let three = Policy::builder("k").max(10).window(Duration::from_secs(60)).sub_windows(3).build();
        for (sum, [first, second]) in [(7u64, [3, 4]), (7, [0, 0]), (7, [99, 99]), (0, [3, 4])] {
            let found = bytes(b'c', &[(60_000_000, 7), (2, 5), (0, 5), (sum, 5), (first, 5), (second, 5)]);
            let mut state = State::found(&three, &found, Timestamp::from_micros(61_000_000), 0).unwrap();
            let outcome = decide_one(&three, 1, &mut state, Timestamp::from_micros(61_000_000), Mode::Check);
            assert_eq!(outcome.remaining(), 10 - 2 - sum - 1, "{sum} of {first} and {second}");
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
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
            (&counter, NOTHING.to_vec(), true),
            (&three, sub_windows(9), true),
            (&three, windows(b'c'), false),
            (&three, NOTHING.to_vec(), true),
            (&fixed, bytes(b'f', &[(1, 7), (2, 5)]), true),
            (&fixed, bytes(b'f', &[(1, 7), (2, 6)]), false),
            (&bucket, bytes(b't', &[(1, 7), (9, 5)]), true),
            (&bucket, bytes(b't', &[(1, 7), (10, 5)]), false),
            (&log, bytes(b'l', &[(0, 5), (0, 7), (0, 2)]), true),
            (&log, bytes(b'l', &[(0, 5), (0, 7)]), false),
            (&log, entry(3, 1), true),
            (&log, entry(1, 1), false),
            (&log, entry(3, 10), false),
        ];
        for (policy, bytes, ours) in cases {
            let found = State::found(policy, &bytes, NOW, 0);
            assert_eq!(found.is_some(), ours, "{} {bytes:?}", policy.algorithm());
        }
    }

    #[test]
    fn no_number_is_too_large() {
        let most = (u64::MAX >> 8, u64::MAX >> 24);
        let three = Policy::builder("k").window(Duration::from_secs(60)).sub_windows(3).build();
        let cases = [
            (policy(Algorithm::FixedWindow), bytes(b'f', &[(most.0, 7), (most.1, 5)])),
            (policy(Algorithm::SlidingWindowCounter), bytes(b'c', &[(most.0, 7), (most.1, 5), (most.1, 5)])),
            (policy(Algorithm::SlidingWindowCounter), bytes(b'c', &[(1, 7), (most.1, 5), (most.1, 5)])),
            (three, bytes(b'c', &[(most.0, 7), (most.1, 5), (most.1, 5), (most.1, 5), (most.1, 5), (0, 5)])),
            (policy(LOG), bytes(b'l', &[(most.1, 5), (most.0, 7), (1, 2), (0, 7), (1, 5)])),
            (policy(Algorithm::TokenBucket), bytes(b't', &[(most.0, 7), (9, 5)])),
        ];
        for (policy, bytes) in cases {
            for charged in [0, 128 * crate::policy::MAX_UNITS] {
                let mut state = State::found(&policy, &bytes, NOW, charged).unwrap();
                let told = decide_one(&policy, 1, &mut state, NOW, Mode::Check);
                assert!(!told.is_allowed(), "{}", policy.algorithm());
            }
        }
    }
}
