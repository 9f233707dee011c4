//! Reads from the store what is counted for callers, in few calls.

use std::slice;

use ratelimit_core::__private_0_1::PrivatePolicy as _;
use ratelimit_core::{Check, MAX_GROUP, Outcome, RateLimiter, StoreError};

use crate::caller::counts::in_present_windows;

/// Reads counts, in one call of the store for each group.
pub(super) async fn peek(limiter: &RateLimiter, checks: &[Check<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(checks.len());
    // Each request determines the day on which the windows begin.
    let moves = |check: &Check<'_>| check.policy().has_moving_windows();
    // In a group, the first of two calendars with one count determines when it ends.
    let calendar = |check: &Check<'_>| check.policy().calendar().copied();
    let is_one =
        |one: &Check<'_>, next: &Check<'_>| calendar(next).is_none() || calendar(one) == calendar(next);
    let groups = checks.chunk_by(|one, next| !moves(one) && !moves(next) && is_one(one, next));
    for group in groups.flat_map(|group| group.chunks(MAX_GROUP)) {
        match group {
            [one] if moves(one) => outcomes.extend(peek_windows(limiter, one).await?),
            _ => outcomes.extend(peek_group(limiter, group).await?),
        }
    }
    Ok(outcomes)
}

/// If the store does not answer about a group, each count of it is read alone.
async fn peek_group(limiter: &RateLimiter, group: &[Check<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let answer = limiter.peek_all(group).await;
    if group.len() == 1 || answer.as_ref().is_ok_and(|answer| !answer.is_degraded()) {
        return Ok(answer?.outcomes().to_vec());
    }
    let mut outcomes = Vec::with_capacity(group.len());
    for one in group.chunks(1) {
        outcomes.extend_from_slice(limiter.peek_all(one).await?.outcomes());
    }
    Ok(outcomes)
}

/// Reads a count whose window may be any of the present ones: it is the last in which something is counted.
async fn peek_windows(limiter: &RateLimiter, check: &Check<'_>) -> Result<Option<Outcome>, StoreError> {
    let windows = in_present_windows(limiter, slice::from_ref(check)).await;
    let outcomes = peek_group(limiter, &windows).await?;
    Ok(outcomes.iter().find(|outcome| !is_whole(outcome)).or(outcomes.first()).cloned())
}

/// Whether nothing is counted, by the answer of the store.
pub(super) fn is_whole(outcome: &Outcome) -> bool {
    !outcome.is_degraded() && outcome.reset_after().is_zero() && outcome.remaining() >= outcome.capacity()
}
