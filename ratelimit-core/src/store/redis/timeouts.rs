//! Timeouts and pauses, and the wait for a reply.

use std::pin::pin;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::future::{Either, select};
use tokio::task::unconstrained;

use super::error::RedisConfigError;
use crate::store::Deadline;
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
    /// Interval of pings on every connection.
    pub(super) ping_interval: Duration,
}

/// Shortest and longest timeout. Not every system can represent later instants.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(3600));

/// Awaits a reply until the deadline, or the end of its grace, on any executor. A reply that has arrived
/// counts, however late it is noticed.
pub(super) async fn reply_by<F: Future>(deadline: &mut Deadline, reply: F) -> Option<F::Output> {
    // Without tokio's budget: a task that has used it up sees no reply until it yields, and a task that
    // blocks its thread never yields.
    let mut reply = pin!(unconstrained(reply));
    loop {
        let timer = pin!(deadline.sleep());
        if let Either::Left((reply, _)) = select(reply.as_mut(), timer).await {
            return Some(reply);
        }
        if !deadline.extend_once(now()) {
            return None;
        }
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

    /// Endless pauses between attempts, which double up to the longest and have jitter.
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
    use futures_util::future::join;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio::time::{advance, sleep};

    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    pub(in crate::store::redis) const TIMEOUTS: Timeouts = Timeouts {
        // Long, so that a busy machine fails no call.
        deadline: Duration::from_secs(10),
        connect: Duration::from_millis(500),
        shortest_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(400),
        ping_interval: Duration::from_secs(1),
    };

    #[tokio::test(start_paused = true)]
    async fn a_reply_counts_before_a_deadline_that_was_missed() {
        // Milliseconds for which the process stands still, and from then until the reply.
        for (stall, reply, is_in_time) in
            [(0, 104, true), (0, 106, false), (500, 0, true), (500, 249, true), (500, 251, false)]
        {
            let (answer, answered) = oneshot::channel();
            let mut deadline = Deadline::after(ms(100));
            let waits = tokio::spawn(async move { reply_by(&mut deadline, answered).await });
            yield_now().await;
            advance(ms(stall)).await;
            let answers = async {
                sleep(ms(reply)).await;
                let _ = answer.send(());
            };
            let ended = join(waits, answers).await.0.unwrap();
            assert_eq!(ended.is_some(), is_in_time, "{stall} ms, then {reply} ms: {ended:?}");
        }
    }

    #[test]
    fn pauses_grow_to_the_longest_and_have_jitter() {
        let pauses = || TIMEOUTS.pauses().take(8).collect::<Vec<_>>();
        let first = pauses();
        for (pause, least) in first.iter().zip([50, 100, 200, 400, 400, 400, 400, 400].map(ms)) {
            assert!((least..=2 * least).contains(pause), "{first:?}");
        }
        assert!((0..4).any(|_| pauses() != first), "all would come back at once: {first:?}");
    }
}
