//! What waits in a queue, and whether a flush has to take it. Each method is one step under the queue's lock.

use std::mem;
use std::time::Duration;

use super::request::{Queued, QueuedCommand, Requests};
use crate::store::deadline::now;

/// Maximum number of calls in flight of one queue. It bounds the rate of calls without a timer: a full server
/// makes round trips longer, so batches grow. Any number from 6 to 12 does, from one lane to hundreds, at
/// round trips up to 2 ms.
pub(super) const MAX_CALLS: usize = 8;

/// So long does a request wait for one of these calls, as a part of the store's deadline: then the next
/// request sends a call beside them, so that a round trip above half of the deadline fails no request.
const PATIENCE: u32 = 10;

/// Maximum number of calls in flight all the same.
const MAX_ALL_CALLS: usize = 64;

/// Maximum weight of one call: that of 128 limits, or of 16 logs. Such a call takes the server one or two
/// tenths of a millisecond, with logs one millisecond at most, so that it does not delay other users of the
/// server. A single group that weighs more goes in a call of its own.
const MAX_BATCH_WEIGHT: usize = 128;

/// Requests for which a queue without requests keeps room: those of a call. More is the room of a spike.
const KEPT_ROOM: usize = MAX_BATCH_WEIGHT;

/// A queue.
pub(super) struct Waiting {
    requests: Requests,
    commands: Vec<QueuedCommand>,
    /// Calls of requests in flight.
    calls: usize,
    /// Whether a flush will take what waits.
    is_scheduled: bool,
    /// The runtime has ended, so that nothing would send what is queued.
    is_closed: bool,
    /// So long does a request wait for one of the first calls.
    patience: Duration,
}

/// What a flush takes.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) commands: Vec<QueuedCommand>,
    pub(super) requests: Requests,
}

impl Waiting {
    /// Of a store with this deadline.
    pub(super) fn new(deadline: Duration) -> Self {
        let (requests, commands) = (Vec::new(), Vec::new());
        let patience = deadline / PATIENCE;
        Self { requests, commands, calls: 0, is_scheduled: false, is_closed: false, patience }
    }

    /// Adds what is to be sent. Returns whether a flush has to be scheduled, or gives it back if the queue is
    /// closed.
    pub(super) fn push(&mut self, queued: Queued) -> Result<bool, Queued> {
        if self.is_closed {
            return Err(queued);
        }
        match queued {
            Queued::Request(request) => self.requests.push(request),
            Queued::Command(command) => self.commands.push(*command),
        }
        Ok(self.schedule())
    }

    /// Takes all that waits, or all commands and the requests of a call, if there may be one more in flight.
    /// Returns whether another flush has to be scheduled.
    pub(super) fn take(&mut self, all: bool) -> (Taken, bool) {
        self.is_scheduled = false;
        let commands = mem::take(&mut self.commands);
        let requests = if all {
            mem::take(&mut self.requests)
        } else if self.may_call() {
            self.calls += 1;
            self.next_batch()
        } else {
            Vec::new()
        };
        (Taken { commands, requests }, self.schedule())
    }

    /// Ends a call that was in flight. Returns whether a flush has to be scheduled.
    pub(super) fn end_call(&mut self) -> bool {
        self.calls -= 1;
        self.schedule()
    }

    /// Takes all that waits, and nothing from now on.
    pub(super) fn close(&mut self) -> Taken {
        self.is_closed = true;
        Taken { commands: mem::take(&mut self.commands), requests: mem::take(&mut self.requests) }
    }

    fn schedule(&mut self) -> bool {
        // A closed queue has nothing to send.
        let is_new = !self.is_scheduled && (!self.commands.is_empty() || self.may_call());
        self.is_scheduled |= is_new;
        is_new
    }

    /// Whether requests wait, and may be sent.
    fn may_call(&self) -> bool {
        let Some(oldest) = self.requests.first() else { return false };
        let is_urgent = || now().saturating_duration_since(oldest.since) >= self.patience;
        self.calls < MAX_CALLS || self.calls < MAX_ALL_CALLS && is_urgent()
    }

    /// Takes the requests of the next call, in their order: as many as fit into one call, at least one.
    fn next_batch(&mut self) -> Requests {
        let mut weight = 0;
        let fitting = self.requests.iter().take_while(|request| {
            weight += request.request.weight();
            weight <= MAX_BATCH_WEIGHT
        });
        let size = fitting.count().max(1);
        if size < self.requests.len() {
            return self.requests.drain(..size).collect();
        }
        let room = size.next_power_of_two().min(KEPT_ROOM);
        mem::replace(&mut self.requests, Vec::with_capacity(room))
    }
}

#[cfg(test)]
mod tests {
    mod model;

    use super::*;
    use crate::policy::Algorithm;
    use crate::store::redis::queue::QueuedRequest;
    use crate::store::redis::queue::request::tests::{check_under, checks};

    const DEADLINE: Duration = Duration::from_millis(100);

    fn sizes(requests: impl IntoIterator<Item = Box<QueuedRequest>>) -> Vec<usize> {
        let mut waiting = Waiting { requests: requests.into_iter().collect(), ..Waiting::new(DEADLINE) };
        std::iter::from_fn(|| {
            let size = waiting.take(false).0.requests.len();
            (size > 0).then_some(size)
        })
        .collect()
    }

    #[test]
    fn a_call_takes_as_many_requests_as_fit() {
        assert_eq!(sizes([]), []);
        // The receivers live as long as the requests wait.
        let (three, _replies) = checks(3);
        assert_eq!(sizes(three), [3]);
        let (many, _replies) = checks(300);
        assert_eq!(sizes(many), [128, 128, 44]);
        let (logs, _replies): (Vec<_>, Vec<_>) =
            (0..20).map(|_| check_under(Algorithm::SlidingWindowLog)).unzip();
        assert_eq!(sizes(logs), [16, 4]);
    }
}
