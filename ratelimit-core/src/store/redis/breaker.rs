//! Circuit breaker: opens after too many failures in a row, or when half of the calls time out.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::RedisConfigError;

/// Thresholds of the circuit breaker of a [`RedisStore`](super::RedisStore), for
/// [`RedisStoreBuilder::breaker`](super::RedisStoreBuilder::breaker).
///
/// By default the breaker opens after 3 timeouts in a row, or 5 error replies in a row.
///
/// # Examples
///
/// ```
/// use ratelimit_core::{Breaker, RedisStore};
///
/// let store = RedisStore::builder("redis://127.0.0.1/").breaker(Breaker::new().timeouts(5).errors(20));
/// ```
// The weight of a timeout is the threshold of errors, and the weight of an error is the threshold of
// timeouts: so both thresholds are exact, and failures of both kinds add up. A reply subtracts a little less
// than the weight of a timeout. So the breaker also opens when half of the calls time out without reaching
// the threshold in a row, because each timeout makes a request wait. Each slot range has a weight, which the
// methods take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "thresholds have no effect until they are passed to a builder"]
pub struct Breaker {
    /// Timeouts in a row that open the breaker.
    timeouts: u32,
    /// Error replies in a row that open the breaker.
    errors: u32,
}

/// Valid thresholds.
const THRESHOLDS: RangeInclusive<u32> = 1..=1000;

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// Creates the default thresholds: 3 timeouts, 5 error replies.
    pub const fn new() -> Self {
        Self { timeouts: 3, errors: 5 }
    }

    /// Sets the number of timeouts in a row that open the breaker, from 1 to 1000; by default 3.
    ///
    /// A timeout costs a request the [deadline](super::RedisStoreBuilder::deadline), so this bounds how many
    /// requests wait in vain.
    pub const fn timeouts(mut self, timeouts: u32) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the number of error replies in a row that open the breaker, such as `LOADING` or `OOM`, from 1 to
    /// 1000; by default 5.
    pub const fn errors(mut self, errors: u32) -> Self {
        self.errors = errors;
        self
    }

    pub(super) fn validate(self) -> Result<(), RedisConfigError> {
        if THRESHOLDS.contains(&self.timeouts) && THRESHOLDS.contains(&self.errors) {
            return Ok(());
        }
        Err(RedisConfigError::Setting { setting: "breaker", expected: "two thresholds from 1 to 1000" })
    }

    /// Weight of a timeout.
    pub(super) const fn timeout_weight(self) -> u32 {
        self.errors
    }

    /// Weight of an error reply.
    pub(super) const fn error_weight(self) -> u32 {
        self.timeouts
    }

    /// Weight at which the breaker opens.
    pub(super) const fn threshold(self) -> u32 {
        self.timeouts * self.errors
    }

    pub(super) fn is_open(self, weight: &AtomicU32) -> bool {
        weight.load(Ordering::Relaxed) >= self.threshold()
    }

    /// Adds the weight of a failure. Returns whether the breaker is open.
    pub(super) fn record_failure(self, weight: &AtomicU32, more: u32) -> bool {
        let grown = |weight: u32| Some(weight.saturating_add(more).min(2 * self.threshold()));
        let _ = weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        self.is_open(weight)
    }

    /// Subtracts the weight of a reply.
    pub(super) fn record_reply(self, weight: &AtomicU32) {
        // A load first, because this runs for every request.
        if weight.load(Ordering::Relaxed) > 0 {
            let less = |weight: u32| Some(weight.saturating_sub((self.timeout_weight() - 1).max(1)));
            let _ = weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Resets the weight for a new connection. An open breaker stays open unless the connection was verified
    /// in its slot range.
    pub(super) fn reset(self, weight: &AtomicU32, is_verified: bool) {
        if is_verified || !self.is_open(weight) {
            weight.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Position of the event at which the breaker opens: `t` is a timeout, `e` an error reply, `a` a reply.
    fn opens(breaker: Breaker, story: &str) -> Option<usize> {
        let weight = AtomicU32::new(0);
        story.chars().position(|what| match what {
            't' => breaker.record_failure(&weight, breaker.timeout_weight()),
            'e' => breaker.record_failure(&weight, breaker.error_weight()),
            _ => {
                breaker.record_reply(&weight);
                breaker.is_open(&weight)
            }
        })
    }

    #[test]
    fn the_breaker_opens_at_its_threshold_of_failures_in_a_row() {
        let breaker = Breaker::new().timeouts(3).errors(5);
        assert_eq!(opens(breaker, "tt"), None);
        assert_eq!(opens(breaker, "ttt"), Some(2));
        assert_eq!(opens(breaker, "eeee"), None);
        assert_eq!(opens(breaker, "eeeee"), Some(4));
        assert_eq!(opens(breaker, "eett"), Some(3), "they may be mixed");
        assert_eq!(opens(breaker, &"aat".repeat(1000)), None, "a third of the calls");
        assert_eq!(opens(breaker, &"ea".repeat(1000)), None, "an error reply keeps no request waiting");
        for (timeouts, errors) in [(1, 1), (1, 7), (7, 1), (20, 20), (1000, 1000)] {
            let breaker = Breaker::new().timeouts(timeouts).errors(errors);
            let (timeouts, errors) = (timeouts as usize, errors as usize);
            assert_eq!(opens(breaker, &"t".repeat(2000)), Some(timeouts - 1));
            assert_eq!(opens(breaker, &"e".repeat(2000)), Some(errors - 1));
        }
    }

    #[test]
    fn the_breaker_opens_when_half_of_the_calls_time_out() {
        let opened = opens(Breaker::new().timeouts(3).errors(5), &"at".repeat(100)).unwrap();
        assert!((10..40).contains(&opened), "after {opened}");
    }

    #[test]
    fn a_verified_connection_closes_the_breaker() {
        let breaker = Breaker::new().timeouts(3).errors(5);
        for is_verified in [true, false] {
            let weight = AtomicU32::new(0);
            assert!(breaker.record_failure(&weight, breaker.threshold()));
            breaker.reset(&weight, is_verified);
            assert_eq!(breaker.is_open(&weight), !is_verified);
            // A closed breaker starts at 0 again.
            let weight = AtomicU32::new(0);
            assert!(!breaker.record_failure(&weight, breaker.threshold() - 1));
            breaker.reset(&weight, is_verified);
            assert!(!breaker.record_failure(&weight, breaker.timeout_weight()));
        }
    }
}
