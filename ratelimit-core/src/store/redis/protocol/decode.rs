//! Replies of the scripts, and the outcomes that follow from them.

use std::ops::Range;
use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;

use super::batch::Batch;
use crate::algorithm::{Member, Mode, State, decide, decide_one};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;

/// Largest integer up to which a double holds all.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Batch {
    /// The reply of `check.lua`, for each request in their order; `None` when it has another shape.
    pub(in crate::store::redis) fn decode(&self, reply: Value) -> Option<Vec<Reply>> {
        let Value::BulkString(bytes) = reply else { return None };
        let (at, mut rest) = bytes.split_first_chunk()?;
        let at = Timestamp::from_micros(whole(f64::from_le_bytes(*at))?);
        let mut places = Vec::with_capacity(self.asked.len());
        for asked in &self.asked {
            let size = match rest.first()? {
                b'.' | b'!' => 1,
                _ => self.rules[usize::from(asked.rule)].state_len(rest)?,
            };
            let start = bytes.len() - rest.len();
            rest = rest.get(size..)?;
            places.push(start..start + size);
        }
        let verdicts = rest;
        if !verdicts.is_empty() && verdicts.len() != self.requests.len() {
            return None;
        }
        let verdicts = verdicts.to_vec();
        let found = Arc::new(Found { at, bytes, places });
        let mut charged = vec![0; self.asked.len()];
        let replies = self.requests.iter().enumerate().map(|(i, request)| {
            let verdict = match verdicts.get(i) {
                None | Some(b'1') => Verdict::Allowed,
                Some(b'0') => Verdict::Denied,
                Some(b'-') => Verdict::Foreign,
                Some(_) => return None,
            };
            let limits = request.limits.iter().map(|&(key, _)| (key, charged[usize::from(key)])).collect();
            if verdict == Verdict::Allowed && request.mode == Mode::Check {
                for &(key, cost) in &request.limits {
                    charged[usize::from(key)] += cost;
                }
            }
            Some(Reply { found: Arc::clone(&found), verdict, mode: request.mode, limits })
        });
        replies.collect()
    }
}

/// The number, if it is an integer that a double holds exactly.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    (number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number)).then_some(number as u64)
}

/// What was found at the keys of a call, shared by all whose requests were in it.
#[derive(Debug)]
struct Found {
    at: Timestamp,
    /// The reply.
    bytes: Vec<u8>,
    /// Where in it the state of each key is.
    places: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Denied,
    /// A value is not ours, so nothing was decided.
    Foreign,
}

/// What `check.lua` says about one request.
#[derive(Debug)]
pub(in crate::store::redis) struct Reply {
    found: Arc<Found>,
    verdict: Verdict,
    mode: Mode,
    /// Of each limit the number of its key, and the units that requests before this one took there.
    limits: SmallVec<[(u16, u64); 1]>,
}

/// What a reply looks like.
pub(in crate::store::redis) const EXPECTED: &str =
    "the instant, what was found at each key, and verdicts that follow from it";

impl Reply {
    /// The outcome for the group that was asked about.
    pub(in crate::store::redis) fn into_outcome(
        self,
        group: &[Check<'_>],
    ) -> Result<GroupOutcome, StoreError> {
        const PROTOCOL: StoreError = StoreError::Protocol { expected: EXPECTED };
        let at = self.found.at;
        let outcome = if let ([check], [limit]) = (group, &self.limits[..]) {
            let mut state = self.state(check, *limit)?;
            GroupOutcome::of_one(decide_one(check.policy(), check.units(), &mut state, at, self.mode))
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
                members.push(Member { policy: check.policy(), cost: check.units(), state });
            }
            decide(&members, &mut states, at, self.mode)
        };
        match self.verdict {
            Verdict::Allowed if outcome.is_allowed() => Ok(outcome),
            Verdict::Denied if !outcome.is_allowed() => Ok(outcome),
            _ => Err(PROTOCOL),
        }
    }

    /// The state about which this request was judged.
    fn state(&self, check: &Check<'_>, (key, charged): (u16, u64)) -> Result<State, StoreError> {
        let policy = check.policy();
        let bytes = &self.found.bytes[self.found.places[usize::from(key)].clone()];
        let state = State::decode(policy, bytes, self.found.at, charged);
        state.ok_or_else(|| StoreError::ForeignState { policy: policy.key().to_owned() })
    }
}
