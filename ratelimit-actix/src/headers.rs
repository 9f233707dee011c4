//! Header fields from outcomes: pure functions, no request and no clock.

use std::time::Duration;

use actix_web::http::header::{HeaderName, HeaderValue};
use ratelimit_core::GroupOutcome;

/// The quota of the tightest limit.
static LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// What is left of it.
static REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When all of it is back, in Unix seconds.
static RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What a client is told about its quota: of several limits about the tightest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Units of a full quota.
    limit: u64,
    /// Units left.
    remaining: u64,
    /// When the full quota is back if nobody comes, in Unix seconds, rounded up.
    reset: u64,
}

impl Quota {
    /// `None` when nothing was limited.
    pub(crate) fn of(outcome: &GroupOutcome) -> Option<Self> {
        let tightest = &outcome.outcomes()[outcome.tightest()?];
        Some(Self {
            limit: tightest.limit(),
            remaining: tightest.remaining(),
            reset: outcome.at().unix_seconds_after(tightest.reset_after()),
        })
    }

    /// The names of the fields.
    pub(crate) fn names() -> [&'static HeaderName; 3] {
        [&LIMIT, &REMAINING, &RESET]
    }

    /// The fields, as a client gets them.
    pub(crate) fn headers(self) -> [(HeaderName, HeaderValue); 3] {
        [
            (LIMIT.clone(), number(self.limit)),
            (REMAINING.clone(), number(self.remaining)),
            (RESET.clone(), number(self.reset)),
        ]
    }
}

/// The value of `Retry-After`: whole seconds, rounded up so that nobody comes back too early, and at least 1.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).max(1)
}

/// A number as a field value, in one allocation; the conversion that `HeaderValue` offers takes two.
pub(crate) fn number(number: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(number));
    digits.unwrap_or_else(|_| HeaderValue::from(number))
}

#[cfg(test)]
mod tests {
    use ratelimit_core::{Decision, Outcome, Timestamp};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn headers(outcomes: &[Outcome]) -> Vec<String> {
        let allowed = outcomes.iter().all(Outcome::is_allowed);
        let group = GroupOutcome::new(NOW, allowed, outcomes.into());
        let Some(quota) = Quota::of(&group) else {
            return Vec::new();
        };
        let pairs = quota.headers().into_iter();
        pairs.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn one_limit_is_told_as_it_is() {
        let told = headers(&[Outcome::new(10, 1, 9, 6_000_000, Decision::Allowed)]);
        let expected = ["x-ratelimit-limit: 10", "x-ratelimit-remaining: 9", "x-ratelimit-reset: 1006"];
        assert_eq!(told, expected);
    }

    #[test]
    fn reset_is_rounded_up() {
        let reset = |micros| headers(&[Outcome::new(10, 1, 9, micros, Decision::Allowed)])[2].clone();
        assert_eq!(reset(0), "x-ratelimit-reset: 1000");
        assert_eq!(reset(1), "x-ratelimit-reset: 1001");
        assert_eq!(reset(1_000_000), "x-ratelimit-reset: 1001");
        assert_eq!(reset(1_000_001), "x-ratelimit-reset: 1002");
    }

    #[test]
    fn of_several_limits_the_tightest_is_told() {
        let daily = Outcome::new(1000, 1, 3, 50_000_000, Decision::Allowed);
        let burst = Outcome::new(10, 1, 9, 1_000_000, Decision::Allowed);
        assert_eq!(headers(&[burst.clone(), daily])[0], "x-ratelimit-limit: 1000");
        let denied = Outcome::new(500, 1, 0, 9_000_000, Decision::RetryAfterMicros(9_000_000));
        assert_eq!(headers(&[burst, denied])[0], "x-ratelimit-limit: 500");
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_tell() {
        assert!(headers(&[]).is_empty());
    }

    #[test]
    fn retry_after_is_never_too_early_and_never_zero() {
        let cases = [
            (0, 1),
            (1, 1),
            (999_999, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (41_000_001, 42),
            (42_000_000, 42),
        ];
        for (micros, seconds) in cases {
            assert_eq!(retry_after_seconds(Duration::from_micros(micros)), seconds);
        }
        assert_eq!(retry_after_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn numbers_are_decimal() {
        for n in [0, 9, 10, u64::MAX] {
            assert_eq!(number(n), HeaderValue::from(n));
        }
    }
}
