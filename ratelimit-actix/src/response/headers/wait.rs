//! Waits as whole seconds, and the wait after a denial.

use std::time::Duration;

use ratelimit_core::{Decision, Outcome, Timestamp};

use crate::quotas::Quota;

/// The wait of a denied client, from the denial until the next request passes all limits. Limits that admitted the request
/// but have nothing left count, too. No process knows when slots are freed, so they do not count. `None` if the request was not
/// denied, can never pass, or misses only slots.
pub(crate) fn retry_after(quotas: &[&Quota]) -> Option<Duration> {
    let denied = || quotas.iter().map(|quota| quota.outcome()).filter(|outcome| !outcome.is_allowed());
    let denied_at = denied().map(Outcome::at).max()?.as_micros();
    if denied().any(|outcome| outcome.decision() == Decision::Denied { retry_after: None }) {
        return None;
    }
    let exhausted = quotas.iter().filter(|quota| quota.is_exhausted() && quota.is_rate());
    let ends = exhausted.map(|quota| quota.available_at());
    Some(Duration::from_micros(ends.max()?.as_micros().saturating_sub(denied_at)))
}

/// The value of `Retry-After`: whole seconds, rounded up so that no client returns too early, and at least 1.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    seconds(wait).max(1)
}

/// Whole seconds, rounded up.
pub(super) fn seconds(time: Duration) -> u64 {
    let started = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(started)
}

/// An instant in whole Unix seconds, rounded up.
pub(super) fn unix_seconds(at: Timestamp) -> u64 {
    at.as_micros().div_ceil(1_000_000)
}

/// The window in whole seconds, rounded up. `None` below one second, which the drafts cannot express.
pub(super) fn window_seconds(quota: &Quota) -> Option<u64> {
    let window = quota.effective_window();
    (window >= Duration::from_secs(1)).then(|| seconds(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_seconds_are_rounded_up() {
        let rounded = |micros| unix_seconds(Timestamp::from_micros(micros));
        let cases = [(0, 0), (1, 1), (9_999_999, 10), (10_000_000, 10), (10_000_001, 11)];
        for (micros, expected) in cases {
            assert_eq!(rounded(micros), expected, "{micros}");
        }
        assert_eq!(rounded(u64::MAX), 18_446_744_073_710);
    }
}
