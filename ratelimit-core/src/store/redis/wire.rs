//! What goes to the scripts and what comes back; the one place that knows both formats.
//!
//! Both are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it converts many
//! arguments, and answers with one faster than with an array. All numbers are integers below 2^53.

use crate::algorithm::{Algorithm, Mode};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::{MAX_UNITS, Policy};
use crate::store::{Check, Taken};

use super::scripts;

/// Largest integer up to which a double holds all.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

#[allow(
    clippy::cast_precision_loss,
    reason = "below 2^53: a policy's numbers by their bounds, instants until 2255"
)]
fn push(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&(number as f64).to_le_bytes());
}

/// Algorithm, max, window, sub-windows or burst, cost.
fn push_policy(bytes: &mut Vec<u8>, policy: &Policy, cost: u64) {
    push(bytes, scripts::number(policy.algorithm()).into());
    push(bytes, policy.max());
    push(bytes, policy.window_us());
    push(
        bytes,
        if policy.algorithm() == Algorithm::TokenBucket { policy.capacity() } else { policy.sub_windows() },
    );
    // Whatever is more than the largest limit is decided the same.
    push(bytes, cost.min(MAX_UNITS + 1));
}

/// ARGV of `check.lua`.
pub(super) struct CheckArguments(Vec<u8>);

impl CheckArguments {
    pub(super) fn new(now: u64, mode: Mode, size: usize) -> Self {
        let mut bytes = Vec::with_capacity(16 + 48 * size);
        push(&mut bytes, now);
        push(&mut bytes, (mode == Mode::Peek).into());
        Self(bytes)
    }

    pub(super) fn push(&mut self, place: usize, check: &Check<'_>) {
        push(&mut self.0, place as u64 + 1);
        push_policy(&mut self.0, check.policy(), check.units());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
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
        push_policy(&mut self.0, taken.check().policy(), taken.check().units());
        push(&mut self.0, taken.at().as_micros());
        push(&mut self.0, taken.until().as_micros());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reply of `check.lua`.
pub(super) fn decode_check(reply: &redis::Value, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
    const EXPECTED: StoreError =
        StoreError::Protocol { expected: "a string of whole doubles, two and three a limit" };
    let redis::Value::BulkString(bytes) = reply else {
        return Err(EXPECTED);
    };
    let mut numbers = bytes.chunks_exact(8).map(|chunk| {
        let mut number = [0; 8];
        number.copy_from_slice(chunk);
        f64::from_le_bytes(number)
    });
    if let (8, Some(foreign)) = (bytes.len(), numbers.clone().next()) {
        let place = whole(-foreign).and_then(|n| usize::try_from(n).ok()?.checked_sub(1));
        let policy = place.and_then(|place| group.get(place)).ok_or(EXPECTED)?.policy();
        return Err(StoreError::ForeignState { policy: policy.key().to_owned() });
    }
    if bytes.len() != 16 + 24 * group.len() {
        return Err(EXPECTED);
    }
    let mut next = || numbers.next().ok_or(EXPECTED);
    let now = whole(next()?).ok_or(EXPECTED)?;
    let allowed = whole(next()?).ok_or(EXPECTED)? == 1;
    let mut outcomes = smallvec::SmallVec::<[Outcome; 2]>::with_capacity(group.len());
    for check in group {
        let remaining = whole(next()?).ok_or(EXPECTED)?;
        let reset_after = whole(next()?).ok_or(EXPECTED)?;
        let decision = match next()? {
            -1.0 => Decision::Allowed,
            -2.0 => Decision::Never,
            wait => Decision::RetryAfterMicros(whole(wait).ok_or(EXPECTED)?),
        };
        let limit = check.policy().capacity();
        outcomes.push(Outcome::new(limit, check.units(), remaining, reset_after, decision));
    }
    Ok(GroupOutcome::new(Timestamp::from_micros(now), allowed, outcomes))
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

    fn reply(numbers: &[f64]) -> redis::Value {
        redis::Value::BulkString(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    #[test]
    fn a_reply_of_any_other_shape_is_a_protocol_error() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let group = [Check::new(&policy, "a")];
        let good = [1.0, 1.0, 9.0, 60.0, -1.0];
        assert!(decode_check(&reply(&good), &group).is_ok());
        let bad: [&[f64]; 9] = [
            &[],
            &[1.0, 1.0],
            &good[..4],
            &[1.0, 1.0, 9.0, 60.0, -1.0, 0.0],
            &[1.0, 1.0, f64::NAN, 60.0, -1.0],
            &[1.0, 1.0, 9.5, 60.0, -1.0],
            &[1.0, 1.0, -9.0, 60.0, -1.0],
            &[1e300, 1.0, 9.0, 60.0, -1.0],
            &[-2.0],
        ];
        for numbers in bad {
            let error = decode_check(&reply(numbers), &group).unwrap_err();
            assert!(matches!(error, StoreError::Protocol { .. }), "{numbers:?}: {error}");
        }
        for value in [redis::Value::Nil, redis::Value::Int(1), redis::Value::Okay] {
            assert!(matches!(decode_check(&value, &group), Err(StoreError::Protocol { .. })));
        }
    }

    #[test]
    fn a_foreign_value_is_told_by_its_policy() {
        let policy = Policy::new("user-api", 10, Duration::from_secs(60));
        let error = decode_check(&reply(&[-1.0]), &[Check::new(&policy, "a")]).unwrap_err();
        assert!(matches!(error, StoreError::ForeignState { policy } if policy == "user-api"));
    }
}
