//! States as Redis holds them: the bytes that the files in `lua/` describe under "State".

#[cfg(test)]
mod tests;

use super::state::{Open, State, each};
use super::step::Step;
use super::token_bucket::{self, Rational};
use super::{fixed_window, sliding_window_counter as counter, sliding_window_log};
use crate::clock::Timestamp;
use crate::policy::{Algorithm, Policy};

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
