//! The circuit breaker.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::ConfigError;

/// When so much has failed that there is no use in asking.
///
/// A timeout weighs as much as there may be refusals, and a refusal as much as there may be timeouts, so that both
/// numbers are exact and may be mixed. Every answer takes back a little less than a timeout. So it also opens when half
/// of the questions time out, though never enough of them in a row: each of them keeps somebody waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    timeouts: u32,
    refusals: u32,
}

/// Most failures of one kind.
const MAX_FAILURES: u32 = 1000;

impl Breaker {
    pub(super) const fn new(timeouts: u32, refusals: u32) -> Self {
        Self { timeouts, refusals }
    }

    pub(super) fn validate(self) -> Result<(), ConfigError> {
        let right = |number| (1..=MAX_FAILURES).contains(&number);
        if right(self.timeouts) && right(self.refusals) {
            return Ok(());
        }
        Err(ConfigError::Setting { setting: "open_after", expected: "two numbers from 1 to 1000" })
    }

    /// Weight of an answer that did not come in time.
    pub(super) const fn timeout(self) -> u32 {
        self.refusals
    }

    /// Weight of an answer that refuses.
    pub(super) const fn refusal(self) -> u32 {
        self.timeouts
    }

    /// Weight from which on it is open.
    pub(super) const fn threshold(self) -> u32 {
        self.timeouts * self.refusals
    }

    pub(super) fn is_open(self, weight: &AtomicU32) -> bool {
        weight.load(Ordering::Relaxed) >= self.threshold()
    }

    /// Counts a failure; whether it is open.
    pub(super) fn failed(self, weight: &AtomicU32, more: u32) -> bool {
        let grown = |weight: u32| Some(weight.saturating_add(more).min(2 * self.threshold()));
        let _ = weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        self.is_open(weight)
    }

    /// Counts an answer.
    pub(super) fn answered(self, weight: &AtomicU32) {
        // Read first: this runs for every request.
        if weight.load(Ordering::Relaxed) > 0 {
            let less = |weight: u32| Some(weight.saturating_sub((self.timeout() - 1).max(1)));
            let _ = weight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// There is another connection. What was open stays so unless it was proved to work again.
    pub(super) fn begin_anew(self, weight: &AtomicU32, is_proved: bool) {
        if is_proved || !self.is_open(weight) {
            weight.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens until it opens: `t` a timeout, `r` a refusal, `a` an answer.
    fn opens(breaker: Breaker, story: &str) -> Option<usize> {
        let weight = AtomicU32::new(0);
        story.chars().position(|what| match what {
            't' => breaker.failed(&weight, breaker.timeout()),
            'r' => breaker.failed(&weight, breaker.refusal()),
            _ => {
                breaker.answered(&weight);
                breaker.is_open(&weight)
            }
        })
    }

    #[test]
    fn it_opens_after_so_many_failures_in_a_row() {
        let breaker = Breaker::new(3, 5);
        assert_eq!(opens(breaker, "tt"), None);
        assert_eq!(opens(breaker, "ttt"), Some(2));
        assert_eq!(opens(breaker, "rrrr"), None);
        assert_eq!(opens(breaker, "rrrrr"), Some(4));
        assert_eq!(opens(breaker, "rrtt"), Some(3), "they may be mixed");
        assert_eq!(opens(breaker, &"aat".repeat(1000)), None, "a third of the questions");
        assert_eq!(opens(breaker, &"ra".repeat(1000)), None, "a refusal keeps nobody waiting");
        for (timeouts, refusals) in [(1, 1), (1, 7), (7, 1), (20, 20), (1000, 1000)] {
            let breaker = Breaker::new(timeouts, refusals);
            let (timeouts, refusals) = (timeouts as usize, refusals as usize);
            assert_eq!(opens(breaker, &"t".repeat(2000)), Some(timeouts - 1));
            assert_eq!(opens(breaker, &"r".repeat(2000)), Some(refusals - 1));
        }
    }

    #[test]
    fn it_opens_when_half_of_the_questions_time_out() {
        let opened = opens(Breaker::new(3, 5), &"at".repeat(100)).unwrap();
        assert!((10..40).contains(&opened), "after {opened}");
    }

    #[test]
    fn another_connection_closes_what_it_has_proved() {
        let breaker = Breaker::new(3, 5);
        for is_proved in [true, false] {
            let weight = AtomicU32::new(0);
            assert!(breaker.failed(&weight, breaker.threshold()));
            breaker.begin_anew(&weight, is_proved);
            assert_eq!(breaker.is_open(&weight), !is_proved);
            // What was not open begins at nothing.
            let weight = AtomicU32::new(0);
            assert!(!breaker.failed(&weight, breaker.threshold() - 1));
            breaker.begin_anew(&weight, is_proved);
            assert!(!breaker.failed(&weight, breaker.timeout()));
        }
    }
}
