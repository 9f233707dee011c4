//! The contents of a queue, and whether a flush has to take them. Each method is one step under the queue's
//! lock.

use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::request::{Queued, QueuedCommand, Requests};
use crate::store::deadline::since;

/// Maximum number of calls in flight of one queue. It bounds the rate of calls without a timer: a full server
/// makes round trips longer, so more requests share a call. Any number from 6 to 12 is good, for one lane or
/// hundreds, with round trips up to 2 ms.
pub(super) const MAX_CALLS: usize = 8;

/// A request waits for one of these calls to end at most for this part, a tenth, of the store's deadline.
/// Then the next request sends a call beside them, so that a round trip above half of the deadline fails no
/// request.
const PATIENCE: u32 = 10;

/// Maximum number of calls in flight of one queue, with the calls beside [`MAX_CALLS`].
const MAX_ALL_CALLS: usize = 64;

/// Maximum weight of one call: the weight of 128 limits, or of 16 logs. Such a call takes the server one or
/// two tenths of a millisecond, with logs one millisecond at most, so that it does not delay other users of
/// the server. A single group that weighs more goes in a call of its own.
const MAX_CALL_WEIGHT: usize = 128;

/// Number of requests for which an empty queue keeps room: as many as a call has. Further room, which a spike
/// needed, is freed.
const KEPT_ROOM: usize = MAX_CALL_WEIGHT;

/// A queue.
#[derive(Default)]
pub(super) struct Waiting {
    requests: Requests,
    commands: Vec<QueuedCommand>,
    /// Calls of requests in flight.
    calls: usize,
    /// Flushes that rest. The last one has rested for the shortest time.
    pub(super) resting: Vec<Waker>,
    /// Whether a flush will take what waits.
    is_scheduled: bool,
    /// Whether the runtime has ended, so that no flush would run.
    is_closed: bool,
    /// Longest wait of a request for one of the first [`MAX_CALLS`] calls to end.
    patience: Duration,
}

/// The flush that has to take what waits.
pub(super) enum Due {
    Nothing,
    Resting(Waker),
    New,
}

/// What a flush takes.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) commands: Vec<QueuedCommand>,
    pub(super) requests: Requests,
}

impl Taken {
    pub(super) fn into_queued(self) -> impl Iterator<Item = Queued> {
        let requests = self.requests.into_iter().map(Queued::Request);
        self.commands.into_iter().map(Queued::Command).chain(requests)
    }
}

impl Waiting {
    /// The empty queue of a store with this deadline.
    pub(super) fn new(deadline: Duration) -> Self {
        Self { patience: deadline / PATIENCE, ..Self::default() }
    }

    /// Adds a request or a command. Returns the flush to schedule, or gives `queued` back if the queue is
    /// closed.
    pub(super) fn push(&mut self, queued: Queued) -> Result<Due, Box<Queued>> {
        if self.is_closed {
            return Err(Box::new(queued));
        }
        match queued {
            Queued::Request(request) => self.requests.push(request),
            Queued::Command(command) => self.commands.push(command),
        }
        Ok(self.schedule())
    }

    /// Takes all that waits; or without `all` the commands, and the requests of a call if one more may be in
    /// flight. Also returns the flush to schedule.
    pub(super) fn take(&mut self, all: bool) -> (Taken, Due) {
        self.is_scheduled = false;
        let commands = mem::take(&mut self.commands);
        let requests = if all {
            mem::take(&mut self.requests)
        } else if self.may_call() {
            self.calls += 1;
            self.requests_of_a_call()
        } else {
            Vec::new()
        };
        (Taken { commands, requests }, self.schedule())
    }

    /// Ends a call that was in flight, if `is_call`. Its flush rests if it has a waker and few others rest.
    /// Returns the flush to schedule, and whether this one rests.
    pub(super) fn end_call(&mut self, is_call: bool, waker: Option<Waker>) -> (Due, bool) {
        self.calls -= usize::from(is_call);
        let waker = waker.filter(|_| self.resting.len() < MAX_CALLS);
        let rests = waker.is_some();
        self.resting.extend(waker);
        (self.schedule(), rests)
    }

    /// Closes the queue, and takes all that waits.
    pub(super) fn close(&mut self) -> Taken {
        self.is_closed = true;
        Taken { commands: mem::take(&mut self.commands), requests: mem::take(&mut self.requests) }
    }

    fn schedule(&mut self) -> Due {
        // A closed queue has nothing to send.
        if self.is_scheduled || self.commands.is_empty() && !self.may_call() {
            return Due::Nothing;
        }
        self.is_scheduled = true;
        self.resting.pop().map_or(Due::New, Due::Resting)
    }

    /// Whether requests wait, and may be sent.
    fn may_call(&self) -> bool {
        let Some(oldest) = self.requests.first() else { return false };
        let is_urgent = || since(oldest.since) >= self.patience;
        self.calls < MAX_CALLS || self.calls < MAX_ALL_CALLS && is_urgent()
    }

    /// Takes the requests of the next call, in their order: as many as fit into one call, at least one.
    fn requests_of_a_call(&mut self) -> Requests {
        let mut weight = 0;
        let fitting = self.requests.iter().take_while(|request| {
            weight += request.request.weight();
            weight <= MAX_CALL_WEIGHT
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

    #[test]
    fn few_flushes_rest() {
        let mut waiting = Waiting::new(DEADLINE);
        let rested =
            (0..=MAX_CALLS).filter(|_| waiting.end_call(false, Some(Waker::noop().clone())).1).count();
        assert_eq!((rested, waiting.resting.len()), (MAX_CALLS, MAX_CALLS));
    }

    fn sizes(requests: impl IntoIterator<Item = QueuedRequest>) -> Vec<usize> {
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
