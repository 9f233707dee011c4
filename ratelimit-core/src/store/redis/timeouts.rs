//! Timeouts and pauses.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use super::error::RedisConfigError;

/// Timeouts of calls, and pauses between attempts to connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Total time of one decision.
    pub(super) deadline: Duration,
    /// Time of one attempt to connect, in the background.
    pub(super) connect: Duration,
    /// First and longest pause between two attempts to connect, before jitter, which at most doubles it.
    pub(super) shortest_pause: Duration,
    pub(super) longest_pause: Duration,
    /// Interval of pings on an idle connection.
    pub(super) ping_interval: Duration,
}

/// Shortest and longest timeout. A later instant cannot be represented on every system.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3600));

impl Timeouts {
    /// Checks all bounds.
    pub(super) fn validate(&self) -> Result<(), RedisConfigError> {
        let wrong = |setting, expected| Err(RedisConfigError::Setting { setting, expected });
        for (setting, time) in [
            ("deadline", self.deadline),
            ("connect_timeout", self.connect),
            ("backoff", self.shortest_pause),
            ("backoff", self.longest_pause),
            ("ping_interval", self.ping_interval),
        ] {
            if time < BOUNDS.0 || time > BOUNDS.1 {
                return wrong(setting, "a time from 1 ms to 1 h");
            }
        }
        if self.longest_pause < self.shortest_pause {
            return wrong("backoff", "a range whose start is not longer than its end");
        }
        Ok(())
    }

    /// Pauses between attempts: without end, doubling to the longest, with jitter.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        ExponentialBuilder::default()
            .with_min_delay(self.shortest_pause)
            .with_max_delay(self.longest_pause)
            .without_max_times()
            .with_jitter()
            .build()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::store::redis) const TIMEOUTS: Timeouts = Timeouts {
        deadline: Duration::from_millis(100),
        connect: Duration::from_millis(500),
        shortest_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(400),
        ping_interval: Duration::from_secs(1),
    };

    #[test]
    fn pauses_grow_to_the_longest_and_have_jitter() {
        let ms = Duration::from_millis;
        let pauses = || TIMEOUTS.pauses().take(8).collect::<Vec<_>>();
        let first = pauses();
        for (pause, least) in first.iter().zip([50, 100, 200, 400, 400, 400, 400, 400].map(ms)) {
            assert!((least..=2 * least).contains(pause), "{first:?}");
        }
        assert!((0..4).any(|_| pauses() != first), "all would come back at once: {first:?}");
    }
}
