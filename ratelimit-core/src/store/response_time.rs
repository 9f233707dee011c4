//! Response time: how long a call waited for its store, without the time in which this process computed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
#[cfg(all(feature = "redis", not(test)))]
use tokio::runtime::{Handle, RuntimeMetrics};

use super::deadline::now;

/// Awaits a call that waits for a store no longer than `limit`. Also returns how much of `limit` the store
/// took: until it woke the task, without the time in which the runtime's only thread ran tasks, and so
/// noticed no reply.
///
/// A call that the store answered after `limit` was held up by this process, which stood still: otherwise a
/// timer would have ended it. How long the store itself took is unknown, and counts as nothing.
pub async fn response_time<T>(
    limit: Duration,
    call: impl Future<Output = T>,
    is_answered: impl FnOnce(&T) -> bool,
) -> (T, Duration) {
    let mut call = pin!(call);
    let wake_up = Arc::new(WakeUp {
        state: Mutex::new((None, Waker::noop().clone())),
        clock: WaitClock::of_present_runtime(),
    });
    let waker = Waker::from(Arc::clone(&wake_up));
    let (mut took, mut waits_since) = (Duration::ZERO, None::<WaitInstant>);
    let output = poll_fn(|context| {
        let mut state = wake_up.state.lock();
        let woken = state.0.take();
        state.1.clone_from(context.waker());
        drop(state);
        if let Some(since) = waits_since.take() {
            // Without a wake-up it still waits.
            took += woken.unwrap_or_else(|| wake_up.clock.now()).since(since);
        }
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            waits_since = Some(wake_up.clock.now());
        }
        polled
    });
    let output = output.await;
    let is_answered = is_answered(&output);
    let took = if is_answered && took > limit { Duration::ZERO } else { took.min(limit) };
    (output, took)
}

/// When the task was first woken since its last poll, and what wakes it.
struct WakeUp {
    state: Mutex<(Option<WaitInstant>, Waker)>,
    clock: WaitClock,
}

impl Wake for WakeUp {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.0.get_or_insert_with(|| self.clock.now());
        let waker = state.1.clone();
        drop(state);
        waker.wake();
    }
}

/// A clock that stands still while the runtime's only thread runs tasks, up to its last rest. Unit tests
/// pause the clock, against which that time would mean nothing.
struct WaitClock {
    #[cfg(all(feature = "redis", not(test)))]
    thread: Option<RuntimeMetrics>,
}

/// An instant of that clock.
#[derive(Clone, Copy)]
struct WaitInstant {
    at: Instant,
    /// How long the thread had run tasks.
    busy: Duration,
}

impl WaitClock {
    fn of_present_runtime() -> Self {
        Self {
            #[cfg(all(feature = "redis", not(test)))]
            thread: Handle::try_current()
                .map(|runtime| runtime.metrics())
                .ok()
                .filter(|metrics| metrics.num_workers() == 1),
        }
    }

    #[cfg(all(feature = "redis", not(test)))]
    fn now(&self) -> WaitInstant {
        let busy = self.thread.as_ref().map(|metrics| metrics.worker_total_busy_duration(0));
        WaitInstant { at: now(), busy: busy.unwrap_or_default() }
    }

    #[cfg(not(all(feature = "redis", not(test))))]
    #[allow(clippy::unused_self, reason = "the form above needs it")]
    fn now(&self) -> WaitInstant {
        WaitInstant { at: now(), busy: Duration::ZERO }
    }
}

impl WaitInstant {
    fn since(self, earlier: Self) -> Duration {
        self.at.saturating_duration_since(earlier.at).saturating_sub(self.busy.saturating_sub(earlier.busy))
    }
}

#[cfg(feature = "redis")]
impl super::Deadline {
    /// Awaits one of several calls in a row that share this deadline. Time that the store did not take is
    /// given back.
    pub(crate) async fn share<T, E>(&mut self, call: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        // The call may be queued already, and the process may have stood still since it ran last.
        let start = now();
        self.since += start.saturating_duration_since(self.last_ran);
        let (result, took) = response_time(self.remaining(), call, Result::is_ok).await;
        self.last_ran = now();
        self.since += self.last_ran.saturating_duration_since(start).saturating_sub(took);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use tokio::sync::oneshot;
    use tokio::time::{advance, sleep};

    use super::*;

    const MILLIS: Duration = Duration::from_millis(1);
    const LIMIT: Duration = Duration::from_millis(100);

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A store that answers after this time, and the time until the task is polled then.
    async fn measured(answers_after: Duration, polled_after: Duration, is_answer: bool) -> Duration {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            sleep(answers_after).await;
            answer.send(()).unwrap();
            // In one poll: the task that waits has no turn meanwhile.
            advance(polled_after).await;
        });
        response_time(LIMIT, answered, |_| is_answer).await.1
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_until_the_task_is_woken_counts() {
        for polled_after in [Duration::ZERO, 50 * MILLIS, 500 * MILLIS] {
            assert_eq!(measured(30 * MILLIS, polled_after, true).await, 30 * MILLIS);
            assert_eq!(measured(30 * MILLIS, polled_after, false).await, 30 * MILLIS);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_after_the_limit_counts_as_nothing_and_a_timeout_as_the_limit() {
        assert_eq!(measured(LIMIT, Duration::ZERO, true).await, LIMIT);
        assert_eq!(measured(LIMIT + MILLIS, Duration::ZERO, true).await, Duration::ZERO);
        assert_eq!(measured(LIMIT + MILLIS, Duration::ZERO, false).await, LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_without_a_wake_up_is_part_of_the_wait() {
        let (answer, answered) = oneshot::channel::<()>();
        let mut timed = pin!(response_time(LIMIT, answered, |_| true));
        assert!(poll(timed.as_mut()).is_pending());
        advance(20 * MILLIS).await;
        assert!(poll(timed.as_mut()).is_pending());
        advance(20 * MILLIS).await;
        answer.send(()).unwrap();
        advance(20 * MILLIS).await;
        let Poll::Ready((_, took)) = poll(timed.as_mut()) else { panic!("there is an answer") };
        assert_eq!(took, 40 * MILLIS);
    }

    /// Of a call of the store that is queued already when its process stands still.
    #[cfg(feature = "redis")]
    #[tokio::test(start_paused = true)]
    async fn a_stall_before_a_call_uses_up_no_time_of_those_behind_it() {
        let mut deadline = super::super::Deadline::after(LIMIT);
        let (answer, answered) = oneshot::channel();
        advance(10 * LIMIT).await;
        tokio::spawn(async move {
            sleep(30 * MILLIS).await;
            answer.send(()).unwrap();
        });
        deadline.share(answered).await.unwrap();
        assert_eq!((deadline.remaining(), deadline.limit()), (70 * MILLIS, LIMIT));
    }

    #[cfg(feature = "redis")]
    #[tokio::test(start_paused = true)]
    async fn calls_that_share_a_deadline_use_it_up_only_while_they_wait() {
        let mut deadline = super::super::Deadline::after(LIMIT);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            sleep(30 * MILLIS).await;
            answer.send(()).unwrap();
            advance(500 * MILLIS).await;
        });
        deadline.share(answered).await.unwrap();
        assert_eq!((deadline.remaining(), deadline.limit()), (70 * MILLIS, LIMIT));
        sleep(20 * MILLIS).await;
        assert_eq!(deadline.remaining(), 50 * MILLIS);
    }
}
