//! Asks the store what is counted for callers, in few calls.

use ratelimit_core::{Check, MAX_GROUP, Outcome, Policy, RateLimiter, StoreError};

use crate::caller::reset::in_present_windows;

/// A count that the store is asked about.
pub(super) struct Asked<'a> {
    pub(super) policy: Policy,
    pub(super) partition: &'a [u8],
}

impl Asked<'_> {
    /// Whether requests tell the day on which their windows begin.
    fn moves(&self) -> bool {
        self.policy.has_moving_windows()
    }
}

/// Asks the store about counts, in one call for each group.
pub(super) async fn peek(limiter: &RateLimiter, asked: &[Asked<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(asked.len());
    // In a group the first of two calendars with one count tells when it ends.
    let calendar = |asked: &Asked<'_>| asked.policy.calendar().copied();
    let is_one =
        |one: &Asked<'_>, next: &Asked<'_>| calendar(next).is_none() || calendar(one) == calendar(next);
    let groups = asked.chunk_by(|one, next| !one.moves() && !next.moves() && is_one(one, next));
    for group in groups.flat_map(|group| group.chunks(MAX_GROUP)) {
        match group {
            [one] if one.moves() => outcomes.extend(peek_windows(limiter, one).await?),
            _ => outcomes.extend(peek_group(limiter, group).await?),
        }
    }
    Ok(outcomes)
}

/// Where the store does not answer about one count of a group, each is asked alone.
async fn peek_group(limiter: &RateLimiter, group: &[Asked<'_>]) -> Result<Vec<Outcome>, StoreError> {
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

/// The window of the caller is the last one in which something is counted.
async fn peek_windows(limiter: &RateLimiter, asked: &Asked<'_>) -> Result<Option<Outcome>, StoreError> {
    let windows = in_present_windows(limiter, vec![asked.policy.clone()], asked.partition).await;
    let windows = windows.into_iter().map(|policy| Asked { policy, ..*asked });
    let outcomes = peek_group(limiter, &windows.collect::<Vec<_>>()).await?;
    Ok(outcomes.iter().find(|outcome| !is_whole(outcome)).or(outcomes.first()).cloned())
}

/// Checks of a cost of 0, so that those that share a count are not judged by their sum.
fn checks<'a>(asked: &'a [Asked<'_>]) -> Vec<Check<'a>> {
    asked.iter().map(|asked| Check::new(&asked.policy, asked.partition).with_cost(0)).collect()
}

/// Whether an answer of the store tells that nothing is counted.
pub(super) fn is_whole(outcome: &Outcome) -> bool {
    !outcome.is_degraded() && outcome.reset_after().is_zero() && outcome.remaining() >= outcome.limit()
}
