//! The time of a queue: one task ends what has no reply in time, and sends what waited for the time.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::dispatch::{Queue, Stage, State};
use super::request::{QueuedRequest, send_reply};

impl Queue {
    /// Starts the task that keeps the queue's time.
    pub(super) fn keep_time(self: &Arc<Self>) {
        self.shared.runtime.spawn(TimeKeeper(Arc::clone(self)).run());
    }

    /// Sets the alarm for an instant, if it is not set for an earlier one.
    pub(super) fn set_alarm(&self, state: &mut State, at: Option<Instant>) {
        if let Some(at) = at
            && state.alarm.is_none_or(|alarm| at < alarm)
        {
            state.alarm = Some(at);
            self.wake_up.notify_one();
        }
    }

    /// Keeps the requests, in their order, until a connection has been made.
    pub(super) fn await_connection(self: &Arc<Self>, requests: Vec<QueuedRequest>) {
        let mut state = self.state.lock();
        if state.stage == Stage::Closed {
            return;
        }
        for request in requests {
            state.waiting.push(request);
        }
        let due = state.waiting.next_deadline();
        self.set_alarm(&mut state, due);
        if mem::replace(&mut state.stage, Stage::AwaitsConnection) == Stage::Sends {
            self.shared.runtime.spawn(Arc::clone(self).advance_when_connected());
        }
    }

    /// Sends what waits as soon as there is a connection, or fails it if none can be made.
    async fn advance_when_connected(self: Arc<Self>) {
        let failure = self.shared.link.connection().await.err();
        let mut state = self.state.lock();
        if state.stage == Stage::AwaitsConnection {
            state.stage = Stage::Sends;
        }
        let failed = if failure.is_some() { state.waiting.take_all() } else { VecDeque::new() };
        self.advance(state);
        if let Some(error) = failure {
            for request in failed {
                if let Some(limit) = request.told_limit() {
                    // The sweeper tells of it again.
                    self.shared.slots.take_message(&limit.key);
                }
                send_reply(request.reply, Err(error.clone()));
            }
        }
    }

    /// Ends what is due, and sends what waited for the time.
    fn at_alarm(self: &Arc<Self>, now: Instant) {
        let link = &self.shared.link;
        let mut state = self.state.lock();
        state.alarm = None;
        let late = state.waiting.expired(now);
        let due = state.in_flight.due(now, link);
        let next = state.in_flight.next_due();
        self.set_alarm(&mut state, next);
        if state.stage == Stage::AwaitsConnection {
            let next = state.waiting.next_deadline();
            self.set_alarm(&mut state, next);
        } else if mem::take(&mut state.had_to_wait) {
            // Already, so that the next one that has to wait need not wake this task.
            let end = state.waiting.end_of_interval(self.pace(&state));
            self.set_alarm(&mut state, Some(end).filter(|end| *end > now));
        }
        drop(state);
        // First, so that the next requests of those that are told, and what waits, meet a circuit breaker that knows.
        for (range, generation) in due.timeouts {
            let record = || link.record_failure(range, link.breaker.timeout_weight(), generation);
            // It calls the application's metrics recorder, whose panic keeps no request from its reply.
            let _ = catch_unwind(AssertUnwindSafe(record));
        }
        let late = late.into_iter().map(|request| (request.reply, request.deadline));
        let in_flight = due.requests.into_iter().map(|(reply, deadline)| (Some(reply), deadline));
        for (reply, deadline) in late.chain(in_flight) {
            send_reply(reply, Err(deadline.timeout_error()));
        }
        self.advance(self.state.lock());
    }
}

/// The task that keeps a queue's time. The queue ends with it.
struct TimeKeeper(Arc<Queue>);

impl TimeKeeper {
    async fn run(self) {
        let Self(queue) = &self;
        loop {
            let alarm = queue.state.lock().alarm;
            let woken = queue.wake_up.notified();
            let is_due = match alarm {
                None => {
                    woken.await;
                    false
                }
                // A timer would wait for the next millisecond.
                Some(at) if at <= Instant::now() => {
                    yield_now().await;
                    true
                }
                Some(at) => timeout_at(at, woken).await.is_err(),
            };
            if is_due {
                // What is dropped may call the application's metrics recorder. Its panic does not stop the clock.
                let _ = catch_unwind(AssertUnwindSafe(|| queue.at_alarm(Instant::now())));
            }
        }
    }
}

impl Drop for TimeKeeper {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.stage = Stage::Closed;
        let (waiting, in_flight) = (state.waiting.take_all(), state.in_flight.take());
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may ask again.
        drop(state);
        drop((waiting, in_flight));
    }
}
