//! States as Redis holds them: the bytes that the files in `lua/` describe under "State".

use super::{
    Inner, State, fixed_window, sliding_window_counter as counter, sliding_window_log, token_bucket,
};
use crate::algorithm::Algorithm;
use crate::clock::Timestamp;
use crate::policy::Policy;

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
    /// The state that was found in Redis, or told of a log; `None` when it is not one of ours.
    pub(crate) fn found(policy: &Policy, bytes: &[u8]) -> Option<Self> {
        let (tag, bytes) = bytes.split_first()?;
        let mut reader = Reader(bytes);
        let inner = match (policy.algorithm(), tag) {
            (Algorithm::FixedWindow, b'f') => {
                Inner::FixedWindow(fixed_window::State::found(reader.micros()?, reader.units()?))
            }
            (Algorithm::SlidingWindowCounter, b'c') => {
                let (start, current, oldest) = (reader.micros()?, reader.units()?, reader.units()?);
                if policy.sub_windows() == 1 {
                    let earlier = std::iter::once(oldest);
                    Inner::TwoWindows(counter::TwoWindows::new().found(start, current, earlier))
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
                    let new = counter::SubWindows::new(policy.sub_windows());
                    Inner::SubWindows(Box::new(new.found(start, current, earlier.into_iter())))
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
                Inner::SlidingWindowLog(Box::new(sliding_window_log::State::found(entries.into_iter())))
            }
            (Algorithm::TokenBucket, b't') => {
                let (micros, fraction) = (reader.micros()?, reader.units()?);
                if fraction >= policy.max() {
                    return None;
                }
                Inner::TokenBucket(token_bucket::State::found(micros, fraction))
            }
            _ => return None,
        };
        reader.0.is_empty().then_some(Self(inner))
    }

    /// Charges what others took at this instant, which passed.
    pub(crate) fn charge(&mut self, policy: &Policy, now: Timestamp, units: u64) {
        let step = self.step_mut();
        step.settle(policy, now.as_micros());
        step.charge(policy, now.as_micros(), units);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::{Mode, decide_one};

    fn policy(algorithm: Algorithm) -> Policy {
        Policy::builder("k").algorithm(algorithm).max(10).window(Duration::from_secs(60)).build()
    }

    /// A tag, and little-endian integers of so many bytes.
    fn bytes(tag: u8, numbers: &[(u64, usize)]) -> Vec<u8> {
        let numbers = numbers.iter().flat_map(|(number, size)| number.to_le_bytes()[..*size].to_vec());
        [tag].into_iter().chain(numbers).collect()
    }

    const LOG: Algorithm = Algorithm::SlidingWindowLog;

    #[test]
    fn the_newer_entries_of_a_log_are_one() {
        let policy = policy(LOG);
        let told =
            bytes(b'l', &[(10, 5), (50_000_000, 7), (2, 2), (1_000_000, 7), (2, 5), (3_000_000, 7), (1, 5)]);
        let state = State::found(&policy, &told).unwrap();
        for (cost, wait) in
            [(1, 31_000_001), (2, 31_000_001), (3, 33_000_001), (4, 80_000_001), (10, 80_000_001)]
        {
            let outcome = decide_one(
                &policy,
                cost,
                &mut state.clone(),
                Timestamp::from_micros(30_000_000 + 20_000_000),
                Mode::Check,
            );
            let told = &outcome.outcomes()[0];
            assert_eq!(told.retry_after(), Some(Duration::from_micros(wait - 20_000_000)), "{cost}");
            assert_eq!(told.reset_after(), Duration::from_micros(60_000_001));
        }
    }

    #[test]
    fn a_sum_that_is_not_that_of_the_counts_counts_as_it_did_to_the_script() {
        let three = Policy::builder("k").max(10).window(Duration::from_secs(60)).sub_windows(3).build();
        for (sum, [first, second]) in [(7u64, [3, 4]), (7, [0, 0]), (7, [99, 99]), (0, [3, 4])] {
            let found = bytes(b'c', &[(60_000_000, 7), (2, 5), (0, 5), (sum, 5), (first, 5), (second, 5)]);
            let mut state = State::found(&three, &found).unwrap();
            let outcome = decide_one(&three, 1, &mut state, Timestamp::from_micros(61_000_000), Mode::Check);
            assert_eq!(outcome.outcomes()[0].remaining(), 10 - 2 - sum - 1, "{sum} of {first} and {second}");
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        let windows = |tag| bytes(tag, &[(1, 7), (2, 5), (3, 5)]);
        let six = Policy::builder("k").window(Duration::from_secs(60)).sub_windows(3).build();
        let sub_windows = |sum| bytes(b'c', &[(1, 7), (2, 5), (3, 5), (sum, 5), (4, 5), (5, 5)]);
        let counter = policy(Algorithm::SlidingWindowCounter);
        let short = |mut bytes: Vec<u8>| {
            bytes.pop();
            bytes
        };
        let cases = [
            (&counter, windows(b'c'), true),
            (&counter, windows(b'f'), false),
            (&counter, short(windows(b'c')), false),
            (&counter, sub_windows(9), false),
            (&counter, Vec::new(), false),
            (&six, sub_windows(9), true),
            (&six, windows(b'c'), false),
            (&policy(Algorithm::FixedWindow), bytes(b'f', &[(1, 7), (2, 5)]), true),
            (&policy(Algorithm::FixedWindow), bytes(b'f', &[(1, 7), (2, 6)]), false),
            (&policy(Algorithm::TokenBucket), bytes(b't', &[(1, 7), (9, 5)]), true),
            (&policy(Algorithm::TokenBucket), bytes(b't', &[(1, 7), (10, 5)]), false),
            (&policy(LOG), bytes(b'l', &[(0, 5), (0, 7), (0, 2)]), true),
            (&policy(LOG), bytes(b'l', &[(3, 5), (9, 7), (1, 2), (1, 7), (2, 5)]), true),
            (&policy(LOG), bytes(b'l', &[(1, 5), (9, 7), (1, 2), (1, 7), (2, 5)]), false),
            (&policy(LOG), bytes(b'l', &[(3, 5), (9, 7), (1, 2), (10, 7), (2, 5)]), false),
        ];
        for (policy, bytes, ours) in cases {
            assert_eq!(State::found(policy, &bytes).is_some(), ours, "{} {bytes:?}", policy.algorithm());
        }
    }
}
