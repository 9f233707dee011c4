//! What goes to the scripts and what comes back; the one place that knows both formats.
//!
//! Both are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it converts many
//! arguments, and answers with one faster than with an array. All numbers are integers below 2^53.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::connection::{Call, Keys};
use super::scripts;
use crate::algorithm::{Algorithm, Mode};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::{MAX_UNITS, Policy};
use crate::store::{Check, Taken};

/// So many limits are looked through one by one.
const FEW: usize = 8;

/// Largest integer up to which a double holds all.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53: a policy's numbers by their bounds, instants until 2255"
)]
fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&(number as f64).to_le_bytes());
}

/// What a script needs to know of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) algorithm: Algorithm,
    max: u64,
    window_us: u64,
    /// Sub-windows, or burst.
    shape: u64,
}

impl Rule {
    pub(super) fn of(policy: &Policy) -> Self {
        let algorithm = policy.algorithm();
        let shape =
            if algorithm == Algorithm::TokenBucket { policy.capacity() } else { policy.sub_windows() };
        Self { algorithm, max: policy.max(), window_us: policy.window_us(), shape }
    }

    fn push(&self, bytes: &mut Vec<u8>) {
        push(bytes, scripts::number(self.algorithm).into());
        push(bytes, self.max);
        push(bytes, self.window_us);
        push(bytes, self.shape);
    }
}

/// One limit of a request.
#[derive(Debug)]
pub(super) struct Limit {
    /// Name under which its count is kept.
    pub(super) key: String,
    pub(super) rule: Rule,
    cost: u64,
}

impl Limit {
    pub(super) fn new(key: String, check: &Check<'_>) -> Self {
        // Whatever is more than the largest limit is decided the same.
        Self { key, rule: Rule::of(check.policy()), cost: check.units().min(MAX_UNITS + 1) }
    }
}

/// A group of limits to be judged together.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) limits: SmallVec<[Limit; 1]>,
}

/// Requests as `check.lua` takes them.
pub(super) fn encode_check(now: u64, requests: &[Request]) -> Call {
    let mut keys = Keys::new();
    let mut rules: SmallVec<[Rule; 4]> = SmallVec::new();
    let limits = || requests.iter().flat_map(|request| &request.limits);
    let size = limits().count();
    // What one request in a call of its own needs is found faster by looking through it.
    let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(if size > FEW { size } else { 0 });
    let mut body = Vec::with_capacity(8 * (requests.len() + 3 * size));
    for request in requests {
        #[allow(clippy::cast_precision_loss, reason = "a group is small")]
        let size = request.limits.len() as f64;
        body.extend_from_slice(&if request.mode == Mode::Peek { -size } else { size }.to_le_bytes());
        for Limit { key, rule, cost } in &request.limits {
            let known = if numbers.capacity() == 0 {
                keys.iter().position(|other| other == key)
            } else {
                let next = keys.len();
                let number = *numbers.entry(key).or_insert(next);
                (number < next).then_some(number)
            };
            let key = known.unwrap_or_else(|| {
                keys.push(key.clone());
                keys.len() - 1
            });
            let known = rules.iter().rposition(|other| other == rule);
            let rule = known.unwrap_or_else(|| {
                rules.push(*rule);
                rules.len() - 1
            });
            push(&mut body, key as u64 + 1);
            push(&mut body, rule as u64 + 1);
            push(&mut body, *cost);
        }
    }
    let mut arguments = Vec::with_capacity(16 + 32 * rules.len() + body.len());
    push(&mut arguments, now);
    push(&mut arguments, rules.len() as u64);
    for rule in &rules {
        rule.push(&mut arguments);
    }
    arguments.extend_from_slice(&body);
    let script = scripts::check(rules.iter().map(|rule| rule.algorithm));
    Call { script, keys, arguments }
}

/// ARGV of `refund.lua`.
pub(super) struct RefundArguments(Vec<u8>);

impl RefundArguments {
    pub(super) fn new(now: u64) -> Self {
        let mut bytes = Vec::new();
        push(&mut bytes, now);
        Self(bytes)
    }

    pub(super) fn push(&mut self, taken: &Taken<'_>) {
        Rule::of(taken.check().policy()).push(&mut self.0);
        push(&mut self.0, taken.check().units().min(MAX_UNITS + 1));
        push(&mut self.0, taken.at().as_micros());
        push(&mut self.0, taken.until().as_micros());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// What `check.lua` says about one request.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    at: Timestamp,
    /// Of each limit: remaining, `reset_after`, `retry_after`.
    limits: SmallVec<[[f64; 3]; 1]>,
}

pub(super) const EXPECTED: &str = "a string of whole doubles, one and three a limit";

/// Reply of `check.lua`, for each request in their order; `None` when it has another shape.
pub(super) fn decode_check<'r>(
    reply: &'r redis::Value,
    requests: &'r [Request],
) -> Option<impl Iterator<Item = Reply> + 'r> {
    let redis::Value::BulkString(bytes) = reply else {
        return None;
    };
    let size: usize = requests.iter().map(|request| request.limits.len()).sum();
    if bytes.len() != 8 + 24 * size {
        return None;
    }
    let mut numbers = bytes.chunks_exact(8).map(|chunk| {
        let mut number = [0; 8];
        number.copy_from_slice(chunk);
        f64::from_le_bytes(number)
    });
    let at = Timestamp::from_micros(whole(numbers.next()?)?);
    Some(requests.iter().map(move |request| {
        // There are as many as are asked for: the length was right.
        let mut next = || numbers.next().unwrap_or(f64::NAN);
        Reply { at, limits: request.limits.iter().map(|_| [next(), next(), next()]).collect() }
    }))
}

impl Reply {
    /// The outcome for the group that was asked about.
    pub(super) fn into_outcome(self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        const PROTOCOL: StoreError = StoreError::Protocol { expected: EXPECTED };
        let mut allowed = true;
        let mut outcomes = SmallVec::<[Outcome; 2]>::with_capacity(group.len());
        for (check, [remaining, reset_after, retry_after]) in group.iter().zip(self.limits) {
            let decision = match retry_after {
                -1.0 => Decision::Allowed,
                -2.0 => Decision::Never,
                -3.0 => return Err(StoreError::ForeignState { policy: check.policy().key().to_owned() }),
                wait => Decision::RetryAfterMicros(whole(wait).ok_or(PROTOCOL)?),
            };
            allowed &= decision == Decision::Allowed;
            let remaining = whole(remaining).ok_or(PROTOCOL)?;
            let reset_after = whole(reset_after).ok_or(PROTOCOL)?;
            let limit = check.policy().capacity();
            outcomes.push(Outcome::new(limit, check.units(), remaining, reset_after, decision));
        }
        Ok(GroupOutcome::new(self.at, allowed, outcomes))
    }
}

/// The number, if it is an integer that a double holds exactly.
fn whole(number: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    (number.fract() == 0.0 && (0.0..MAX_EXACT).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(limits: &[(&Policy, &str, u64)], mode: Mode) -> Request {
        let limits = limits
            .iter()
            .map(|&(policy, key, cost)| Limit::new(key.to_owned(), &Check::new(policy, key).cost(cost)));
        Request { mode, limits: limits.collect() }
    }

    fn doubles(bytes: &[u8]) -> Vec<f64> {
        bytes.chunks(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }

    fn reply(numbers: &[f64]) -> redis::Value {
        redis::Value::BulkString(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    /// Decodes a reply to one request about one limit.
    fn decode(reply: &redis::Value) -> Result<GroupOutcome, StoreError> {
        let policy = Policy::new("user-api", 10, Duration::from_secs(60));
        let requests = [request(&[(&policy, "a", 1)], Mode::Check)];
        let decoded = decode_check(reply, &requests).and_then(|mut replies| replies.next());
        decoded.ok_or(StoreError::Protocol { expected: EXPECTED })?.into_outcome(&[Check::new(&policy, "a")])
    }

    #[test]
    fn keys_and_policies_that_occur_again_are_sent_once() {
        let (minute, second) =
            (Policy::new("m", 10, Duration::from_secs(60)), Policy::new("s", 5, Duration::from_secs(1)));
        let head = [7.0, 2.0, 2.0, 10.0, 6e7, 1.0, 2.0, 5.0, 1e6, 1.0];
        let one_round =
            [2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0, -1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1_000_000_000_001.0];
        // Few are found by looking through them, and many by a table.
        for rounds in [1, 2, 3, FEW, 40] {
            let requests = (0..rounds).flat_map(|_| {
                [
                    request(&[(&minute, "a", 1), (&second, "b", 3)], Mode::Check),
                    request(&[(&minute, "a", 1)], Mode::Peek),
                    request(&[(&minute, "c", u64::MAX)], Mode::Check),
                ]
            });
            let call = encode_check(7, &requests.collect::<Vec<_>>());
            assert_eq!(call.keys[..], ["a", "b", "c"]);
            let expected: Vec<f64> = head.into_iter().chain(one_round.repeat(rounds)).collect();
            assert_eq!(doubles(&call.arguments), expected, "{rounds}");
        }
    }

    #[test]
    fn each_request_gets_its_own_part_of_the_reply() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let requests = [
            request(&[(&policy, "a", 1)], Mode::Check),
            request(&[(&policy, "a", 1), (&policy, "b", 1)], Mode::Check),
        ];
        let value = reply(&[9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let replies: Vec<Reply> = decode_check(&value, &requests).unwrap().collect();
        assert!(replies.iter().all(|reply| reply.at == Timestamp::from_micros(9)));
        assert_eq!(replies[0].limits[..], [[1.0, 2.0, 3.0]]);
        assert_eq!(replies[1].limits[..], [[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    }

    #[test]
    fn a_reply_of_any_other_shape_is_a_protocol_error() {
        let good = [1.0, 9.0, 60.0, -1.0];
        assert!(decode(&reply(&good)).is_ok());
        let bad: [&[f64]; 9] = [
            &[],
            &[1.0],
            &good[..3],
            &[1.0, 9.0, 60.0, -1.0, 0.0],
            &[1.0, f64::NAN, 60.0, -1.0],
            &[1.0, 9.5, 60.0, -1.0],
            &[1.0, -9.0, 60.0, -1.0],
            &[1e300, 9.0, 60.0, -1.0],
            &[1.0, 9.0, 60.0, -4.0],
        ];
        for numbers in bad {
            let error = decode(&reply(numbers)).unwrap_err();
            assert!(matches!(error, StoreError::Protocol { .. }), "{numbers:?}: {error}");
        }
        for value in [redis::Value::Nil, redis::Value::Int(1), redis::Value::Okay] {
            assert!(matches!(decode(&value), Err(StoreError::Protocol { .. })));
        }
    }

    #[test]
    fn a_foreign_value_is_told_by_its_policy() {
        let error = decode(&reply(&[1.0, 0.0, 0.0, -3.0])).unwrap_err();
        assert!(matches!(error, StoreError::ForeignState { policy } if policy == "user-api"));
    }
}
