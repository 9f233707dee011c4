//! Decoding of states from the replies of scripts.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::concurrency::{Entries, OwnEntry};
use super::judge::Operation;
use super::shadow::judge;
use super::state::{Packed, State, Unpacked, each};
use super::step::{ABSENT, Encoded, Reader, Step};
use super::{fixed_window, sliding_window_counter, sliding_window_log, token_bucket};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;
use crate::policy::{Algorithm, Policy};

/// First byte of a block, which has as many bytes as an [`Effect`].
const BLOCKED: u8 = b'b';

/// Length in bytes of the state that `bytes` begin with; `None` if they are too few to know.
pub(crate) fn encoded_len(algorithm: Algorithm, sub_windows: u64, bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&BLOCKED) {
        return Some(8);
    }
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
        Algorithm::Concurrency => Entries::encoded_len(bytes),
    }
}

/// What requests of a batch did to a state. All are decided at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// These units were charged.
    Charged(u64),
    /// These units were charged, some of them beyond the limit.
    Overdrawn(u64),
    /// A block began, which ends at this instant.
    Blocked(Timestamp),
}

impl Effect {
    /// Adds the effect of one more request.
    pub(crate) fn add(&mut self, effect: Self) {
        match (self, effect) {
            (Self::Charged(sum) | Self::Overdrawn(sum), Self::Charged(units))
            | (Self::Overdrawn(sum), Self::Overdrawn(units)) => *sum += units,
            (all @ &mut Self::Charged(sum), Self::Overdrawn(units)) => *all = Self::Overdrawn(sum + units),
            (all, Self::Blocked(until)) => *all = Self::Blocked(until),
            // Nothing is charged during a block.
            (Self::Blocked(_), Self::Charged(_) | Self::Overdrawn(_)) => {}
        }
    }

    /// The units that were charged, if none of them were beyond the limit.
    pub(crate) const fn charged(self) -> Option<u64> {
        if let Self::Charged(units) = self { Some(units) } else { None }
    }

    /// Decodes the effect of a request: units with the tag `c`, or a block as it is stored. `None` if the
    /// bytes are malformed.
    pub(crate) fn decode(bytes: [u8; 8]) -> Option<Self> {
        let mut reader = Reader::new(&bytes[1..]);
        match bytes[0] {
            b'c' => reader.next(7).map(Self::Charged),
            BLOCKED => reader.micros().map(|until| Self::Blocked(Timestamp::from_micros(until))),
            _ => None,
        }
    }
}

/// The entry of this process in a script's reply, merged with what it reports. `None` if the bytes are
/// malformed.
pub(crate) fn own_entry(bytes: &[u8], now: Timestamp, reported: OwnEntry) -> Option<OwnEntry> {
    Some(Entries::found(bytes)?.merge(reported, now.as_micros()))
}

/// Judges again what a script decided, and checks that both begin and cut the same blocks. `replied` has the
/// effect on each limit, if the script replied effects. `None` if the blocks differ.
pub(crate) fn judge_as_replied(
    group: &[Check<'_>],
    places: &[usize],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
    replied: &[Effect],
) -> Option<GroupOutcome> {
    let was_blocked: SmallVec<[bool; 2]> =
        states.iter().map(|state| state.blocked_until().is_some()).collect();
    let outcome = judge(group, places, states, now, operation);
    let agrees = |(limit, &place): (usize, &usize)| {
        let until = states[place].blocked_until();
        match replied.get(limit) {
            Some(Effect::Blocked(replied)) => until == Some(*replied),
            // The script began and cut no block. A block that it found was decoded with its end.
            _ => until.is_none() || was_blocked[place],
        }
    };
    places.iter().enumerate().all(agrees).then_some(outcome)
}

impl State {
    /// Decodes a state from a script's reply, and applies the `effect` of earlier requests of the same batch.
    /// `own` is what this process reported of its slots. `None` if the bytes are malformed.
    pub(crate) fn decode(
        check: &Check<'_>,
        bytes: &[u8],
        now: Timestamp,
        own: Option<&OwnEntry>,
        effect: Effect,
    ) -> Option<Self> {
        let (mut effects, mut bytes) = (Effect::Charged(0), bytes);
        if bytes.first() == Some(&BLOCKED) && own.is_none() {
            let block = Effect::decode(bytes.try_into().ok()?)?;
            // A block that is over is like no state.
            if matches!(block, Effect::Blocked(until) if until > now) {
                effects = block;
            }
            bytes = ABSENT;
        }
        effects.add(effect);
        let mut unpacked = match own {
            Some(own) => Unpacked::Concurrency(Entries::found(bytes)?.state(*own, now.as_micros())),
            None => Unpacked::decode(check, bytes, now.as_micros())?,
        };
        let policy = check.policy();
        let mut state = Self::new(policy);
        match effects {
            Effect::Charged(units) => each!(unpacked, step => {
                step.advance(policy, now.as_micros());
                step.charge(policy, now.as_micros(), units);
            }, () => state.pack(unpacked)),
            Effect::Overdrawn(units) => {
                unpacked.step_mut().advance(policy, now.as_micros());
                // Whether it is a turn matters only to refunds, which the script decides.
                unpacked.charge_in_debt(policy, now.as_micros(), units, false);
                state.pack(unpacked);
            }
            Effect::Blocked(until) => state.0 = Packed::Blocked { until: until.as_micros().into() },
        }
        Some(state)
    }
}

impl Unpacked {
    fn decode(check: &Check<'_>, bytes: &[u8], now: u64) -> Option<Self> {
        if bytes == ABSENT {
            return Some(Self::new(check, now));
        }
        let policy = check.policy();
        Some(match policy.algorithm() {
            // Unpacked once more, in the window of the check.
            Algorithm::FixedWindow => {
                State(whole::<fixed_window::State>(policy, bytes)?.into()).unpack(check, now).0
            }
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Self::TwoWindows(whole(policy, bytes)?)
            }
            Algorithm::SlidingWindowCounter => Self::SubWindows(Box::new(whole(policy, bytes)?)),
            Algorithm::SlidingWindowLog => Self::SlidingWindowLog(Box::new(whole(policy, bytes)?)),
            Algorithm::TokenBucket if token_bucket::Long::is_tag(*bytes.first()?) => {
                let mut reader = Reader::new(&bytes[1..]);
                let bucket = token_bucket::Long::read(policy, bytes[0], &mut reader)?;
                Self::LongBucket(Some(bucket).filter(|_| reader.is_at_end())?)
            }
            Algorithm::TokenBucket => Self::TokenBucket(whole(policy, bytes)?),
            // `Entries` decodes slots.
            Algorithm::Concurrency => return None,
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
