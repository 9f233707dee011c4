//! Timeouts and pauses, and what becomes of a timeout that is noticed late.

use std::pin::pin;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::error::RedisConfigError;
use crate::store::deadline::now;

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

/// A timeout that is noticed later than this was missed: the process or its machine stood still, or its
/// threads did not run.
const MISSED: Duration = Duration::from_millis(5);

/// Longest time by which a missed timeout is put off.
const LONGEST_GRACE: Duration = Duration::from_millis(250);

/// A timeout that was put off by so much in all is put off no more: a machine may starve the process for
/// good.
pub(super) const MOST_GRACE: Duration = Duration::from_millis(500);

/// By how much a timeout is put off that is noticed `late`. Replies that came while the process stood still
/// are in its sockets, and are read first.
pub(super) fn grace(late: Duration) -> Option<Duration> {
    (late > MISSED).then(|| late.min(LONGEST_GRACE))
}

/// Awaits a reply for no longer than `limit`, or its [`grace`].
pub(super) async fn reply_within<F: Future>(limit: Duration, reply: F) -> Result<F::Output, Elapsed> {
    let (end, mut reply) = (now() + limit, pin!(reply));
    let in_time = timeout(limit, reply.as_mut()).await;
    match grace(now().saturating_duration_since(end)) {
        Some(grace) if in_time.is_err() => timeout(grace, reply).await,
        _ => in_time,
    }
}

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
