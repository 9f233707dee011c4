//! Timeouts and pauses, and what becomes of a timeout that is noticed late.

use std::pin::pin;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::future::{Either, select};
use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::error::{CallError, RedisConfigError};
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

/// So often is a request told that the task of its queue has not run, until its wait ends. On a thread that
/// is free again, it may be told once for the past, and once more before the task has its turn.
const TOLD: u32 = 3;

/// Whether nothing ran for so long that the process stood still, or its thread computed.
pub(super) fn is_stall(time: Duration) -> bool {
    time > MISSED
}

/// By how much a timeout is put off that is noticed `late`. Replies that came while the process stood still
/// are in its sockets, and are read first.
pub(super) fn grace(late: Duration) -> Option<Duration> {
    is_stall(late).then(|| late.min(LONGEST_GRACE))
}

impl Deadline {
    /// The deadline of a call that reaches the store now. Time before is the caller's, which may have waited:
    /// it is not given back.
    pub(super) fn begun(self) -> Self {
        Self { last_ran: now(), ..self }
    }

    /// Notes that a request is queued at `now`. Since the start of the call, or the end of its last round
    /// trip, microseconds have passed, unless the process stood still: then that time is given back.
    pub(super) fn note_queued(&mut self, now: Instant) {
        self.put_off(Duration::MAX, now);
    }

    /// Puts it off by the time until `now` for which the process stood still, as far as that is not settled:
    /// by nothing if it is no stall.
    /// One that has got [`MOST_GRACE`] back gets no more, and one without any time gets none.
    pub(super) fn put_off(&mut self, by: Duration, now: Instant) {
        let by = by.min(now.saturating_duration_since(self.last_ran));
        self.last_ran = self.last_ran.max(now);
        if is_stall(by) && self.given_back < MOST_GRACE && !self.limit.is_zero() {
            self.given_back += by;
            self.limit += by;
        }
    }
}

/// Awaits a reply that the task of a queue ends at the deadline, or soon after if that task was held up. If
/// nothing runs the task, this ends it some [`MOST_GRACE`] after the deadline, on whatever executor: `missed`
/// tells again and again that the task has not run.
pub(super) async fn reply_by<F: Future>(
    deadline: Deadline,
    missed: &Notify,
    reply: F,
) -> Result<F::Output, CallError> {
    let (mut reply, mut told) = (pin!(reply), 0);
    while told < TOLD {
        if let Either::Left((reply, _)) = select(reply.as_mut(), pin!(missed.notified())).await {
            return Ok(reply);
        }
        told += u32::from(now() >= deadline.instant() + MOST_GRACE);
    }
    Err(deadline.timeout_error())
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
    use futures_util::FutureExt;
    use tokio::time::{advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    pub(in crate::store::redis) const TIMEOUTS: Timeouts = Timeouts {
        deadline: Duration::from_millis(100),
        connect: Duration::from_millis(500),
        shortest_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(400),
        ping_interval: Duration::from_secs(1),
    };

    #[test]
    fn a_deadline_gets_the_time_of_stalls_back_until_they_sum_up_to_a_bound() {
        for (stalls, sum) in [
            (&[10_000][..], 10_000),
            (&[10_000, 10], 10_000),
            (&[499, 10_000, 10], 10_499),
            (&[500, 10_000], 500),
            (&[200; 10], 600),
            (&[100; 10], 500),
        ] {
            let mut deadline = Deadline::after(LIMIT);
            let mut now = deadline.since;
            for &stall in stalls {
                now += ms(stall);
                deadline.put_off(ms(stall), now);
            }
            assert_eq!(deadline.limit(), LIMIT + ms(sum), "{stalls:?}");
        }
    }

    #[test]
    fn a_stall_is_given_back_once_and_only_from_the_call_on() {
        let mut deadline = Deadline::after(LIMIT);
        let start = deadline.since;
        // The last one but one is a reading of the clock from before.
        for (stall, until, sum) in [
            (300, 200, 200),
            (300, 200, 200),
            (300, 250, 250),
            (20, 300, 270),
            (20, 250, 270),
            (60, 310, 280),
        ] {
            deadline.put_off(ms(stall), start + ms(until));
            assert_eq!(deadline.limit(), LIMIT + ms(sum), "until {until} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_until_a_request_is_queued_is_given_back_if_it_is_that_of_a_stall() {
        async fn queued(deadline: Deadline, after: u64) -> Duration {
            let mut queued = deadline;
            advance(ms(after)).await;
            queued.note_queued(now());
            queued.limit().saturating_sub(deadline.limit())
        }

        assert_eq!(queued(Deadline::after(Duration::ZERO), 1_000).await, ms(0));
        for (after, given_back) in [(0, 0), (5, 0), (6, 6), (1_000, 1_000)] {
            assert_eq!(queued(Deadline::after(LIMIT), after).await, ms(given_back), "{after} ms");
        }
        // A store around this one, and the round trip before, may take longer.
        let mut deadline = Deadline::after(LIMIT);
        advance(ms(50)).await;
        deadline = deadline.begun();
        assert_eq!(queued(deadline, 1).await, ms(0));
        let round_trip = sleep(ms(30)).map(Ok::<_, ()>);
        deadline.share(round_trip).await.unwrap();
        assert_eq!(queued(deadline, 1).await, ms(0));
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
