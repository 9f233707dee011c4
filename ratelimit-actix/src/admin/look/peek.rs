//! Asks the store what is counted for callers, in few calls.

use ratelimit_core::{Check, GroupOutcome, MAX_GROUP, Outcome, Policy, RateLimiter, StoreError, Timestamp};

/// A count that the store is asked about.
pub(super) struct Asked<'a> {
    pub(super) policy: Policy,
    pub(super) partition: &'a [u8],
    /// Whether each request tells the day from which it is counted.
    pub(super) has_own_anchor: bool,
}

impl Asked<'_> {
    /// The window that began first finds the count of every other one.
    fn with_earliest_window(&self, at: Timestamp) -> Self {
        let policy =
            if self.has_own_anchor { self.policy.with_earliest_window(at) } else { self.policy.clone() };
        Self { policy, ..*self }
    }
}

/// Asks the store about counts, in one call for each group. Where the store does not answer about one of
/// them, each is asked alone.
pub(super) async fn peek(limiter: &RateLimiter, asked: &[Asked<'_>]) -> Result<Vec<Outcome>, StoreError> {
    let mut outcomes = Vec::with_capacity(asked.len());
    // In a group one calendar decides about the windows of a count.
    let calendar = |asked: &Asked<'_>| asked.policy.calendar().copied();
    let groups = asked.chunk_by(|one, next| calendar(next).is_none() || calendar(one) == calendar(next));
    for group in groups.flat_map(|group| group.chunks(MAX_GROUP)) {
        let answer = peek_group(limiter, group).await;
        if group.len() == 1 || answer.as_ref().is_ok_and(|answer| !answer.is_degraded()) {
            outcomes.extend_from_slice(answer?.outcomes());
            continue;
        }
        for one in group.chunks(1) {
            outcomes.extend_from_slice(peek_group(limiter, one).await?.outcomes());
        }
    }
    Ok(outcomes)
}

/// Takes two calls where each request tells a day, since only the clock of the store tells which window began
/// first.
async fn peek_group(limiter: &RateLimiter, group: &[Asked<'_>]) -> Result<GroupOutcome, StoreError> {
    let answer = limiter.peek_all(&checks(group)).await?;
    if !group.iter().any(|asked| asked.has_own_anchor) {
        return Ok(answer);
    }
    let earliest: Vec<_> = group.iter().map(|asked| asked.with_earliest_window(answer.at())).collect();
    limiter.peek_all(&checks(&earliest)).await
}

/// Checks of a cost of 0, so that those that share a count are not judged by their sum.
pub(super) fn checks<'a>(asked: &'a [Asked<'_>]) -> Vec<Check<'a>> {
    asked.iter().map(|asked| Check::new(&asked.policy, asked.partition).with_cost(0)).collect()
}

/// Whether an answer of the store tells that nothing is counted.
pub(super) fn is_whole(outcome: &Outcome) -> bool {
    !outcome.is_degraded() && outcome.reset_after().is_zero() && outcome.remaining() >= outcome.limit()
}
