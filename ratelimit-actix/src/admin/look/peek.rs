//! Reads from the store what is counted for callers, in few calls.

use ratelimit_core::__private_0_1::PrivatePolicy as _;
use ratelimit_core::{Check, MAX_GROUP, Outcome, Policy, RateLimiter, StoreError};

use crate::caller::counts::in_present_windows;

/// What identifies a count in the store.
pub(super) struct CountKey<'a> {
    pub(super) policy: Policy,
    pub(super) partition: &'a [u8],
}

impl CountKey<'_> {
    /// Whether each request determines the day on which its windows begin.
    fn moves(&self) -> bool {
        self.policy.has_moving_windows()
    }
}

/// Reads counts, in one call of the store for each group.
pub(super) async fn peek(limiter: &RateLimiter, keys: &[CountKey<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(keys.len());
    // In a group, the first of two calendars with one count determines when it ends.
    let calendar = |key: &CountKey<'_>| key.policy.calendar().copied();
    let is_one =
        |one: &CountKey<'_>, next: &CountKey<'_>| calendar(next).is_none() || calendar(one) == calendar(next);
    let groups = keys.chunk_by(|one, next| !one.moves() && !next.moves() && is_one(one, next));
    for group in groups.flat_map(|group| group.chunks(MAX_GROUP)) {
        match group {
            [one] if one.moves() => outcomes.extend(peek_windows(limiter, one).await?),
            _ => outcomes.extend(peek_group(limiter, group).await?),
        }
    }
    Ok(outcomes)
}

/// If the store does not answer about a group, each count of it is read alone.
async fn peek_group(limiter: &RateLimiter, group: &[CountKey<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let answer = limiter.peek_all(&checks(group)).await;
    if group.len() == 1 || answer.as_ref().is_ok_and(|answer| !answer.is_degraded()) {
        return Ok(answer?.outcomes().to_vec());
    }
    let mut outcomes = Vec::with_capacity(group.len());
    for one in group.chunks(1) {
        outcomes.extend_from_slice(limiter.peek_all(&checks(one)).await?.outcomes());
    }
    Ok(outcomes)
}

/// Reads a count whose window may be any of the present ones: it is the last in which something is counted.
async fn peek_windows(limiter: &RateLimiter, key: &CountKey<'_>) -> Result<Option<Outcome>, StoreError> {
    let windows = in_present_windows(limiter, vec![key.policy.clone()], key.partition).await;
    let windows = windows.into_iter().map(|policy| CountKey { policy, ..*key });
    let outcomes = peek_group(limiter, &windows.collect::<Vec<_>>()).await?;
    Ok(outcomes.iter().find(|outcome| !is_whole(outcome)).or(outcomes.first()).cloned())
}

/// Checks of a cost of 0, so that those that share a count are not judged by their sum.
fn checks<'a>(keys: &'a [CountKey<'_>]) -> Vec<Check<'a>> {
    keys.iter().map(|key| Check::new(&key.policy, key.partition).with_cost(0)).collect()
}

/// Whether nothing is counted, by the answer of the store.
pub(super) fn is_whole(outcome: &Outcome) -> bool {
    !outcome.is_degraded() && outcome.reset_after().is_zero() && outcome.remaining() >= outcome.capacity()
}
