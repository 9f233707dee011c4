//! How long to wait for what, and how much may fail.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::error::ConfigError;

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For one decision, all in all.
    pub(super) deadline: Duration,
    /// For one attempt to connect, in the background.
    pub(super) connect: Duration,
    /// Between two attempts to connect, at first and at last, before jitter, which at most doubles it.
    pub(super) shortest_pause: Duration,
    pub(super) longest_pause: Duration,
    /// Until an idle connection is tried.
    pub(super) heartbeat: Duration,
}

/// What can be waited for. An instant that is further away cannot be told on every system.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3600));

impl Timeouts {
    /// Whether all can be waited for.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |setting, expected| Err(ConfigError::Setting { setting, expected });
        for (setting, time) in [
            ("deadline", self.deadline),
            ("connect_timeout", self.connect),
            ("backoff", self.shortest_pause),
            ("backoff", self.longest_pause),
            ("heartbeat", self.heartbeat),
        ] {
            if time < BOUNDS.0 || time > BOUNDS.1 {
                return wrong(setting, "a time from 1 ms to 1 h");
            }
        }
        if self.longest_pause < self.shortest_pause {
            return wrong("backoff", "a longest pause that is not shorter than the shortest");
        }
        Ok(())
    }

    /// Growing pauses without end.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        ExponentialBuilder::default()
            .with_min_delay(self.shortest_pause)
            .with_max_delay(self.longest_pause)
            .without_max_times()
            .with_jitter()
            .build()
    }
}

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

    #[test]
    fn pauses_grow_to_the_longest_and_differ_from_process_to_process() {
        let ms = Duration::from_millis;
        let timeouts = Timeouts {
            deadline: ms(100),
            connect: ms(500),
            shortest_pause: ms(50),
            longest_pause: ms(400),
            heartbeat: ms(1000),
        };
        let pauses = || timeouts.pauses().take(8).collect::<Vec<_>>();
        let first = pauses();
        for (pause, least) in first.iter().zip([50, 100, 200, 400, 400, 400, 400, 400].map(ms)) {
            assert!((least..=2 * least).contains(pause), "{first:?}");
        }
        assert!((0..4).any(|_| pauses() != first), "all would come back at once: {first:?}");
    }

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
