//! States as scripts reply them: which algorithm's bytes they are, and the state that follows from them.

#[cfg(test)]
mod tests;

use super::reader::{Encoded, Reader};
use super::state::{State, Unpacked, each};
use super::step::Step;
use super::{fixed_window, sliding_window_counter, sliding_window_log, token_bucket};
use crate::clock::Timestamp;
use crate::policy::{Algorithm, Policy};

/// Reply for a key that does not exist.
const ABSENT: &[u8] = b".";

/// Length in bytes of the state that `bytes` begin with; `None` if they are too few to know.
pub(crate) fn encoded_len(algorithm: Algorithm, sub_windows: u64, bytes: &[u8]) -> Option<usize> {
    match algorithm {
        Algorithm::FixedWindow => fixed_window::State::encoded_len(sub_windows, bytes),
        Algorithm::SlidingWindowCounter if sub_windows == 1 => {
            sliding_window_counter::TwoWindows::encoded_len(sub_windows, bytes)
        }
        Algorithm::SlidingWindowCounter => {
            sliding_window_counter::SubWindows::encoded_len(sub_windows, bytes)
        }
        Algorithm::SlidingWindowLog => sliding_window_log::State::encoded_len(sub_windows, bytes),
        Algorithm::TokenBucket => token_bucket::State::encoded_len(sub_windows, bytes),
    }
}

impl State {
    /// Decodes a state from a script's reply and charges `charged` units, which earlier requests of the same batch took
    /// at the same instant. `None` if the bytes are malformed.
    pub(crate) fn decode(policy: &Policy, bytes: &[u8], now: Timestamp, charged: u64) -> Option<Self> {
        let mut unpacked = Unpacked::decode(policy, bytes)?;
        each!(&mut unpacked, state => {
            state.advance(policy, now.as_micros());
            state.charge(policy, now.as_micros(), charged);
        });
        let mut state = Self::new(policy);
        state.pack(unpacked);
        Some(state)
    }
}

impl Unpacked {
    fn decode(policy: &Policy, bytes: &[u8]) -> Option<Self> {
        if bytes == ABSENT {
            return Some(State::new(policy).unpack(policy, 0).0);
        }
        Some(match policy.algorithm() {
            Algorithm::FixedWindow => Self::FixedWindow(whole(policy, bytes)?),
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Self::TwoWindows(whole(policy, bytes)?)
            }
            Algorithm::SlidingWindowCounter => Self::SubWindows(Box::new(whole(policy, bytes)?)),
            Algorithm::SlidingWindowLog => Self::SlidingWindowLog(Box::new(whole(policy, bytes)?)),
            Algorithm::TokenBucket => Self::TokenBucket(whole(policy, bytes)?),
        })
    }
}

/// The state that all of `bytes` are; `None` if they are malformed.
fn whole<S: Encoded>(policy: &Policy, bytes: &[u8]) -> Option<S> {
    let (&tag, bytes) = bytes.split_first()?;
    let mut reader = Reader::new(bytes);
    let state = (tag == S::TAG).then(|| S::decode(policy, &mut reader)).flatten()?;
    reader.is_at_end().then_some(state)
}
