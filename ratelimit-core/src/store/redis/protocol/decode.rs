//! Decodes replies, and derives outcomes from them.

use std::ops::Range;
use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;

use super::batch::Batch;
use crate::algorithm::{Member, Operation, State, decide, decide_one};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;

/// 2^53: doubles hold all smaller integers exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Batch {
    /// Decodes a reply of `check.lua` into one per request, in their order. `None` if it has another shape.
    pub(in crate::store::redis) fn decode(&self, reply: Value) -> Option<Vec<Reply>> {
        let Value::BulkString(bytes) = reply else { return None };
        let (at, mut rest) = bytes.split_first_chunk()?;
        let at = Timestamp::from_micros(whole(f64::from_le_bytes(*at))?);
        let mut ranges = Vec::with_capacity(self.keys.len());
        for entry in &self.keys {
            let size = match rest.first()? {
                b'.' | b'!' => 1,
                _ => self.policies[usize::from(entry.policy)].state_len(rest)?,
            };
            let start = bytes.len() - rest.len();
            rest = rest.get(size..)?;
            ranges.push(start..start + size);
        }
        let verdicts = rest;
        if !verdicts.is_empty() && verdicts.len() != self.requests.len() {
            return None;
        }
        let verdicts = verdicts.to_vec();
        let states = Arc::new(FoundStates { at, bytes, ranges });
        let mut charged = vec![0; self.keys.len()];
        let replies = self.requests.iter().enumerate().map(|(i, request)| {
            let verdict = match verdicts.get(i) {
                None | Some(b'1') => Verdict::Allowed,
                Some(b'0') => Verdict::Denied,
                Some(b'-') => Verdict::Corrupt,
                Some(_) => return None,
            };
            let limits = request.limits.iter().map(|&(key, _)| (key, charged[usize::from(key)])).collect();
            if verdict == Verdict::Allowed && request.operation == Operation::Check {
                for &(key, cost) in &request.limits {
                    charged[usize::from(key)] += cost;
                }
            }
            Some(Reply { states: Arc::clone(&states), verdict, operation: request.operation, limits })
        });
        replies.collect()
    }
}

/// The number, if it is an integer that doubles hold exactly.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    (number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number)).then_some(number as u64)
}

/// The states of a reply, which its requests share.
#[derive(Debug)]
struct FoundStates {
    at: Timestamp,
    /// The reply.
    bytes: Vec<u8>,
    /// Ranges of the bytes: the state of each key.
    ranges: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied,
    /// A state is corrupt, so nothing was decided.
    Corrupt,
}

/// The part of a reply that concerns one request.
#[derive(Debug)]
pub(in crate::store::redis) struct Reply {
    states: Arc<FoundStates>,
    verdict: Verdict,
    operation: Operation,
    /// For each limit the index of its key, and the units that earlier requests of the batch took there.
    limits: SmallVec<[(u16, u64); 1]>,
}

/// The expected shape of a reply, for errors.
pub(in crate::store::redis) const EXPECTED: &str =
    "the instant, what was found at each key, and verdicts that follow from it";

impl Reply {
    /// Derives the outcome for the group of the request.
    pub(in crate::store::redis) fn into_outcome(
        self,
        group: &[Check<'_>],
    ) -> Result<GroupOutcome, StoreError> {
        const PROTOCOL: StoreError = StoreError::Protocol { expected: EXPECTED };
        let at = self.states.at;
        let outcome = if let ([check], [limit]) = (group, &self.limits[..]) {
            let mut state = self.state(check, *limit)?;
            GroupOutcome::from_one(decide_one(check.policy(), check.cost(), &mut state, at, self.operation))
        } else {
            let mut states: SmallVec<[State; 2]> = SmallVec::new();
            let mut members: SmallVec<[Member<'_>; 2]> = SmallVec::new();
            for (place, (check, limit)) in group.iter().zip(&self.limits).enumerate() {
                let known = self.limits[..place].iter().position(|other| other.0 == limit.0);
                let state = if let Some(same) = known {
                    members[same].state
                } else {
                    states.push(self.state(check, *limit)?);
                    states.len() - 1
                };
                members.push(Member { policy: check.policy(), cost: check.cost(), state });
            }
            decide(&members, &mut states, at, self.operation)
        };
        match self.verdict {
            Verdict::Allowed if outcome.is_allowed() => Ok(outcome),
            Verdict::Denied if !outcome.is_allowed() => Ok(outcome),
            _ => Err(PROTOCOL),
        }
    }

    /// The state as it was when this request was decided.
    fn state(&self, check: &Check<'_>, (key, charged): (u16, u64)) -> Result<State, StoreError> {
        let policy = check.policy();
        let bytes = &self.states.bytes[self.states.ranges[usize::from(key)].clone()];
        let state = State::decode(policy, bytes, self.states.at, charged);
        state.ok_or_else(|| StoreError::CorruptState { policy: policy.key().to_owned() })
    }
}
