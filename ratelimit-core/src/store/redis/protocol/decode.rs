//! Decodes replies, and derives outcomes from them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use redis::Value;
use smallvec::{SmallVec, smallvec};

use super::{Batch, RequestEntry};
use crate::algorithm::encoded::{self, Effect};
use crate::algorithm::{Operation, OwnEntry, State, judge_check};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::slots::Slots;

/// 2^53: doubles represent all smaller integers exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Batch {
    /// Decodes a reply of `check.lua` into a reply for each request, in their order. `None` if it has another
    /// shape.
    pub(in crate::store::redis) fn decode(&self, reply: Value) -> Option<Replies> {
        let Value::BulkString(bytes) = reply else { return None };
        let (at, mut rest) = bytes.split_first_chunk()?;
        let at = Timestamp::from_micros(whole(f64::from_le_bytes(*at))?);
        let mut ranges = SmallVec::with_capacity(self.keys.len());
        for entry in &self.keys {
            let policy = &self.policies[usize::from(entry.policy)];
            let size = match rest.first()? {
                b'.' | b'!' => 1,
                _ => encoded::encoded_len(policy.algorithm, policy.shape, rest)?,
            };
            let start = bytes.len() - rest.len();
            rest = rest.get(size..)?;
            ranges.push(start..start + size);
        }
        let first_verdict = bytes.len() - rest.len();
        let has_own = self.keys.iter().any(|key| key.own.is_some());
        let own = self.keys.iter().filter(|_| has_own).map(|key| key.own.clone()).collect();
        let mut verdicts = &bytes[first_verdict..];
        let all_pass = verdicts.is_empty();
        let mut effects: SmallVec<[Effect; 1]> = smallvec![Effect::Charged(0); self.keys.len()];
        let mut requests = SmallVec::with_capacity(self.requests.len());
        for request in &self.requests {
            let (verdict, details) = if all_pass {
                (ReplyVerdict::Allowed, Vec::new())
            } else {
                next_verdict(&mut verdicts, request.limits.len())?
            };
            let limits = request.limits.iter().map(|&(key, _)| (key, effects[usize::from(key)])).collect();
            if !details.is_empty() {
                for (place, (effect, &(key, _))) in details.iter().zip(&request.limits).enumerate() {
                    // If a key occurs twice, both details have its whole effect: it counts once.
                    if request.limits[..place].iter().all(|other| other.0 != key) {
                        effects[usize::from(key)].add(request.effect(*effect));
                    }
                }
            } else if verdict == ReplyVerdict::Allowed
                && (request.operation.charges() || request.operation.overdraws())
            {
                for &(key, cost) in &request.limits {
                    effects[usize::from(key)].add(request.effect(Effect::Charged(cost)));
                }
            }
            requests.push(RequestReply { verdict, operation: request.operation, limits, details });
        }
        if !verdicts.is_empty() {
            return None;
        }
        let call = Arc::new(CallReply { at, bytes, ranges, own, effects, requests });
        let reply =
            |place| Reply { call: Arc::clone(&call), place, slots: Slots::default(), unclaimed: None };
        Some(Replies { replies: (0..call.requests.len()).map(reply).collect() })
    }
}

/// The replies to the requests of one call, in their order.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Replies {
    pub(in crate::store::redis) replies: SmallVec<[Reply; 1]>,
}

impl Replies {
    /// Instant of the decisions, by the server's clock.
    pub(in crate::store::redis) fn at(&self) -> Option<Timestamp> {
        self.replies.first().map(|reply| reply.call.at)
    }

    /// The state of one limit of one request after all requests of the call. `None` if it is corrupt.
    pub(in crate::store::redis) fn final_state(
        &self,
        request: usize,
        limit: usize,
        check: &Check<'_>,
    ) -> Option<State> {
        let reply = self.replies.get(request)?;
        let &(key, _) = reply.request().limits.get(limit)?;
        reply.state(check, (key, *reply.call.effects.get(usize::from(key))?)).ok()
    }

    /// Units that were charged to one limit of one request with this cost. If the reply has details and
    /// several limits of the request share a key, the first gets the sum of their charges and the others get
    /// 0.
    pub(in crate::store::redis) fn charged(&self, request: usize, limit: usize, cost: u64) -> u64 {
        let Some(reply) = self.replies.get(request).map(Reply::request) else { return 0 };
        let Some(&(key, _)) = reply.limits.get(limit) else { return 0 };
        if reply.verdict != ReplyVerdict::Allowed || !reply.operation.charges() {
            return 0;
        }
        match reply.details.get(limit) {
            Some(_) if reply.limits[..limit].iter().any(|other| other.0 == key) => 0,
            Some(effect) => effect.charged().unwrap_or(0),
            None => cost,
        }
    }

    /// Number of slots that the server has granted to this process after the call. `None` if the state is
    /// corrupt.
    pub(in crate::store::redis) fn granted_there(&self, request: usize, limit: usize) -> Option<u64> {
        let reply = self.replies.get(request)?;
        let (call, &(key, _)) = (&reply.call, reply.request().limits.get(limit)?);
        let own = call.own.get(usize::from(key))?.as_deref()?;
        let own = encoded::own_entry(call.bytes_of(key), call.at, *own)?;
        Some(own.granted + call.effects.get(usize::from(key))?.charged()?)
    }

    /// Sets what happens to the reply to a request if it is dropped unclaimed.
    pub(in crate::store::redis) fn if_unclaimed(&mut self, request: usize, unclaimed: Box<dyn Unclaimed>) {
        if let Some(reply) = self.replies.get_mut(request) {
            reply.unclaimed = Some(unclaimed);
        }
    }

    /// Attaches slots to the reply to a request, which then holds them.
    pub(in crate::store::redis) fn hold(&mut self, request: usize, slots: Slots) {
        if let Some(reply) = self.replies.get_mut(request) {
            reply.slots = std::mem::take(&mut reply.slots).and(slots);
        }
    }

    /// Whether a request of this check passed. `None` if its verdict does not follow from its state, or if
    /// the reply has another charge than was requested.
    pub(in crate::store::redis) fn verdict(&self, request: usize, check: &Check<'_>) -> Option<bool> {
        let all = self.replies.get(request)?;
        let reply = all.request();
        let mut state = all.state(check, *reply.limits.first()?).ok()?;
        let fits = judge_check(check, &mut state, all.call.at, Operation::Peek).fits();
        let charge = if fits { check.cost() } else { 0 };
        let is_as_requested =
            reply.details.iter().all(|detail| detail.charged().map_or(!fits, |units| units == charge));
        let verdict = if fits { ReplyVerdict::Allowed } else { ReplyVerdict::Denied };
        (reply.verdict == verdict && is_as_requested).then_some(fits)
    }
}

impl RequestEntry {
    /// The effect of the request, for which the script replied `effect`: it does not mark overdrafts.
    fn effect(&self, effect: Effect) -> Effect {
        match effect {
            Effect::Charged(units) if self.operation.overdraws() => Effect::Overdrawn(units),
            effect => effect,
        }
    }
}

/// Reads the next verdict and its details, of which there is one for each of `limits`.
fn next_verdict(bytes: &mut &[u8], limits: usize) -> Option<(ReplyVerdict, Vec<Effect>)> {
    let has_details = bytes.first() == Some(&b'+');
    let (&verdict, mut rest) = bytes.get(usize::from(has_details)..)?.split_first()?;
    let verdict = match verdict {
        b'1' => ReplyVerdict::Allowed,
        b'0' => ReplyVerdict::Denied,
        b'-' => ReplyVerdict::Corrupt,
        _ => return None,
    };
    let mut details = Vec::new();
    if has_details {
        for _ in 0..limits {
            let (effect, others) = rest.split_first_chunk()?;
            details.push(Effect::decode(*effect)?);
            rest = others;
        }
    }
    *bytes = rest;
    Some((verdict, details))
}

/// The number, if it is an integer that doubles represent exactly.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    (number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number)).then_some(number as u64)
}

/// The reply to a call, which its requests share.
#[derive(Debug)]
struct CallReply {
    at: Timestamp,
    /// The reply.
    bytes: Vec<u8>,
    /// Ranges of the bytes: the state of each key.
    ranges: SmallVec<[Range<usize>; 1]>,
    /// What the process reported of its slots at each key; empty if it reported nothing.
    own: Vec<Option<Box<OwnEntry>>>,
    /// Effect of all requests together on each key.
    effects: SmallVec<[Effect; 1]>,
    requests: SmallVec<[RequestReply; 1]>,
}

/// What was decided about one request.
#[derive(Debug)]
struct RequestReply {
    verdict: ReplyVerdict,
    operation: Operation,
    /// For each limit the index of its key, and the effect of earlier requests of the batch on that key.
    limits: SmallVec<[(u16, Effect); 1]>,
    /// For each limit the effect of this request; empty if it follows from the verdict.
    details: Vec<Effect>,
}

impl CallReply {
    fn bytes_of(&self, key: u16) -> &[u8] {
        &self.bytes[self.ranges[usize::from(key)].clone()]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyVerdict {
    Allowed,
    Denied,
    /// A state is corrupt, so nothing was decided.
    Corrupt,
}

/// The part of a reply that concerns one request.
#[derive(Debug)]
pub(in crate::store::redis) struct Reply {
    call: Arc<CallReply>,
    /// The index of the request.
    place: usize,
    /// Slots that the request holds from now on.
    slots: Slots,
    unclaimed: Option<Box<dyn Unclaimed>>,
}

/// What happens to a reply that is dropped unclaimed.
pub(in crate::store::redis) trait Unclaimed: Send + Sync {
    fn refund(&self, reply: &Reply);
}

impl fmt::Debug for dyn Unclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unclaimed")
    }
}

impl Drop for Reply {
    /// Refunds an unclaimed reply: its future was dropped, or its deadline has passed.
    fn drop(&mut self) {
        if let Some(unclaimed) = self.unclaimed.take() {
            unclaimed.refund(self);
        }
    }
}

/// The expected shape of a reply, for errors.
pub(in crate::store::redis) const EXPECTED: &str =
    "the instant, what was found at each key, and verdicts that follow from it";

impl Reply {
    fn request(&self) -> &RequestReply {
        &self.call.requests[self.place]
    }

    /// Validates the reply to an overdraft, which has no outcome.
    fn overdrawn(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        for (check, limit) in group.iter().zip(&self.request().limits) {
            self.state(check, *limit)?;
        }
        match self.request().verdict {
            ReplyVerdict::Allowed | ReplyVerdict::Denied => Ok(GroupOutcome::unknown(self.call.at, group)),
            ReplyVerdict::Corrupt => Err(StoreError::Protocol { expected: EXPECTED }),
        }
    }

    /// Claims the reply, and derives the outcome for the group of the request.
    pub(in crate::store::redis) fn claim(&mut self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.unclaimed = None;
        self.outcome(group)
    }

    /// The outcome for the group of the request.
    pub(in crate::store::redis) fn outcome(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        const PROTOCOL: StoreError = StoreError::Protocol { expected: EXPECTED };
        if self.request().operation == Operation::Overdraw {
            return self.overdrawn(group);
        }
        // The script decides about a shadow limit that is alone as if it were enforced.
        let RequestReply { verdict, operation, limits, details } = self.request();
        let is_alone = group.len() == 1 && operation.takes_whole_cost();
        let mut states: SmallVec<[State; 1]> = SmallVec::new();
        let mut places: SmallVec<[usize; 2]> = SmallVec::new();
        for (limit, (check, found)) in group.iter().zip(limits).enumerate() {
            let known = limits[..limit].iter().position(|other| other.0 == found.0);
            places.push(if let Some(same) = known {
                places[same]
            } else {
                states.push(match self.state(check, *found) {
                    // A corrupt state of a shadow limit in a group: the script decided without it.
                    Err(StoreError::CorruptState { .. })
                        if check.is_shadow() && !is_alone && *verdict != ReplyVerdict::Corrupt =>
                    {
                        State::new(check.policy())
                    }
                    state => state?,
                });
                states.len() - 1
            });
        }
        let at = self.call.at;
        let outcome = encoded::judge_as_replied(group, &places, &mut states, at, *operation, details);
        let mut outcome = outcome.ok_or(PROTOCOL)?;
        let fits = match outcome.outcomes() {
            [only] if is_alone => only.fits(),
            _ => outcome.is_allowed(),
        };
        match verdict {
            ReplyVerdict::Allowed if fits => outcome.add_slots(self.slots.clone()),
            ReplyVerdict::Denied if !fits => {}
            _ => return Err(PROTOCOL),
        }
        Ok(outcome)
    }

    /// The state as it was when this request was decided.
    fn state(&self, check: &Check<'_>, (key, effect): (u16, Effect)) -> Result<State, StoreError> {
        let (bytes, at) = (self.call.bytes_of(key), self.call.at);
        let own = self.call.own.get(usize::from(key)).and_then(Option::as_deref);
        State::decode(check, bytes, at, own, effect)
            .ok_or_else(|| StoreError::CorruptState { policy: check.policy().key().to_owned() })
    }
}
