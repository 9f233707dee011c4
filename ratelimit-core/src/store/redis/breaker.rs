//! Circuit breaker: opens after too many failures in a row, or when half of the calls time out.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::ConfigError;

/// Thresholds of the circuit breaker. Each slot range has a weight of its own, which these methods take.
///
/// A timeout weighs as much as there may be errors, and an error as much as there may be timeouts, so that both
/// thresholds are exact and failures of both kinds add up. A reply takes back a little less than the weight of a timeout.
/// So the breaker also opens when half of the calls time out, though never enough of them in a row: each timeout keeps a
/// request waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    /// Timeouts in a row that open the breaker.
    timeouts: u32,
    /// Error replies in a row that open the breaker.
    errors: u32,
}

/// Largest threshold.
const MAX_THRESHOLD: u32 = 1000;

impl Breaker {
    pub(super) const fn new(timeouts: u32, errors: u32) -> Self {
        Self { timeouts, errors }
    }

    pub(super) fn validate(self) -> Result<(), ConfigError> {
        let is_valid = |threshold| (1..=MAX_THRESHOLD).contains(&threshold);
        if is_valid(self.timeouts) && is_valid(self.errors) {
            return Ok(());
        }
        Err(ConfigError::Setting { setting: "open_after", expected: "two numbers from 1 to 1000" })
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

    /// Takes back the weight of a reply.
    pub(super) fn record_reply(self, weight: &AtomicU32) {
        // Read first: this runs for every request.
        if weight.load(Ordering::Relaxed) > 0 {
            let less = |weight: u32| Some(weight.saturating_sub((self.timeout_weight() - 1).max(1)));
            let _ = weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Closes the breaker for a new connection; an open one stays open unless the connection was verified there.
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
        let breaker = Breaker::new(3, 5);
        assert_eq!(opens(breaker, "tt"), None);
        assert_eq!(opens(breaker, "ttt"), Some(2));
        assert_eq!(opens(breaker, "eeee"), None);
        assert_eq!(opens(breaker, "eeeee"), Some(4));
        assert_eq!(opens(breaker, "eett"), Some(3), "they may be mixed");
        assert_eq!(opens(breaker, &"aat".repeat(1000)), None, "a third of the calls");
        assert_eq!(opens(breaker, &"ea".repeat(1000)), None, "an error reply keeps no request waiting");
        for (timeouts, errors) in [(1, 1), (1, 7), (7, 1), (20, 20), (1000, 1000)] {
            let breaker = Breaker::new(timeouts, errors);
            let (timeouts, errors) = (timeouts as usize, errors as usize);
            assert_eq!(opens(breaker, &"t".repeat(2000)), Some(timeouts - 1));
            assert_eq!(opens(breaker, &"e".repeat(2000)), Some(errors - 1));
        }
    }

    #[test]
    fn the_breaker_opens_when_half_of_the_calls_time_out() {
        let opened = opens(Breaker::new(3, 5), &"at".repeat(100)).unwrap();
        assert!((10..40).contains(&opened), "after {opened}");
    }

    #[test]
    fn a_verified_connection_closes_the_breaker() {
        let breaker = Breaker::new(3, 5);
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
