//! What waits for the task of a queue: requests, of which it takes as many as fit into a call, and commands.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::request::{Queued, QueuedCommand, QueuedRequest};
use crate::store::deadline::now;
use crate::store::redis::timeouts::MOST_GRACE;

/// Maximum weight of one call: that of 128 limits, or of 16 logs. Such a call takes the server one or two
/// tenths of a millisecond, with logs one millisecond at most, so that it does not delay other users of the
/// server. A single group that weighs more goes in a call of its own.
const MAX_BATCH_WEIGHT: usize = 128;

/// Requests for which a queue without requests keeps room: those of a call. More is the room of a spike.
const KEPT_ROOM: usize = MAX_BATCH_WEIGHT;

/// What other threads and tasks have queued.
#[derive(Default)]
pub(in crate::store::redis) struct Inbox {
    pub(super) content: Mutex<Content>,
    /// Wakes the task.
    pub(super) wake_up: Notify,
    /// Tells requests in flight that the task has not run for long after its alarm rang.
    pub(in crate::store::redis) missed: Notify,
    /// Takes what the task cannot send. `None` for the home lane.
    pub(super) home: Option<Arc<dyn Home>>,
    /// Whether the task has not run for long after it was woken: its thread computes, or waits for a reply by
    /// blocking.
    is_stuck: AtomicBool,
}

/// The home lane.
pub(in crate::store::redis) trait Home: Send + Sync {
    /// As [`Queue::push`](super::Queue::push).
    fn push(&self, queued: Queued, since: Instant);
}

/// What is queued.
#[derive(Default)]
pub(super) struct Content {
    pub(super) waiting: Waiting,
    pub(super) commands: SmallVec<[QueuedCommand; 1]>,
    /// When the task was woken to take this, if it has not run since. Then a push need not wake it.
    pub(super) woken: Option<Instant>,
    /// When the task wakes up for a deadline.
    pub(super) alarm: Option<Instant>,
    /// The task has ended, so that nothing would end what is queued.
    pub(super) is_closed: bool,
}

impl Inbox {
    pub(super) fn of_lane(home: Option<Arc<dyn Home>>) -> Self {
        Self { home, ..Self::default() }
    }

    pub(super) fn push(&self, mut queued: Queued, since: Instant) {
        let mut content = self.content.lock();
        if content.is_closed {
            drop(content);
            return match &self.home {
                Some(home) => home.push(queued, since),
                // Wakes the task that waits for the reply.
                None => drop(queued),
            };
        }
        let now = now();
        if let Some(deadline) = queued.deadline_mut() {
            deadline.put_off(now.saturating_duration_since(since), now);
        }
        match queued {
            Queued::Request(request) => content.waiting.push(request),
            Queued::Command(command) => content.commands.push(command),
        }
        if content.woken.is_some() {
            return;
        }
        content.woken = Some(now);
        drop(content);
        self.wake_up.notify_one();
    }

    /// Notes that the task runs. Returns how long ago it was woken.
    pub(super) fn note_running(&self, now: Instant) -> Duration {
        let woken = self.content.lock().woken.take();
        // Behind the lock: [`Self::hand_over_if_stuck`] may have held it.
        self.is_stuck.store(false, Ordering::Relaxed);
        woken.map(|woken| now.saturating_duration_since(woken)).unwrap_or_default()
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Hands what is queued to the home lane if the task was woken so long ago, and has not run since.
    /// What waits gets that time back. Tells requests in flight if their deadlines passed long ago.
    pub(super) fn hand_over_if_stuck(&self, patience: Duration, now: Instant) {
        let mut content = self.content.lock();
        let has_missed = content.alarm.is_some_and(|at| now.saturating_duration_since(at) >= MOST_GRACE);
        let waits = content.woken.map(|woken| now.saturating_duration_since(woken));
        if let Some(waits) = waits.filter(|waits| *waits >= patience) {
            self.is_stuck.store(true, Ordering::Relaxed);
            let kept = Content { alarm: content.alarm, ..Content::default() };
            let mut left = mem::replace(&mut *content, kept);
            drop(content);
            left.put_off(waits, now);
            self.hand_over(left, now);
        } else {
            drop(content);
        }
        if has_missed {
            self.missed.notify_waiters();
        }
    }

    /// Hands what is queued to the home lane, and drops what comes; without a home lane drops both.
    pub(super) fn close(&self) {
        let mut content = self.content.lock();
        let left = mem::replace(&mut *content, Content { is_closed: true, ..Content::default() });
        // Outside the lock: dropping a request wakes the task that waits for its reply, which may ask again.
        drop(content);
        self.hand_over(left, now());
    }

    fn hand_over(&self, left: Content, now: Instant) {
        let Content { mut waiting, commands, .. } = left;
        if let Some(home) = &self.home {
            commands.into_iter().for_each(|command| home.push(Queued::Command(command), now));
            waiting.take_all().into_iter().for_each(|request| home.push(Queued::Request(request), now));
        }
    }
}

impl Content {
    /// Puts the deadlines off by the time until `now` for which the process stood still, or the thread of the
    /// task was not free.
    pub(super) fn put_off(&mut self, by: Duration, now: Instant) {
        let requests = self.waiting.requests.iter_mut().map(|request| &mut request.deadline);
        let commands = self.commands.iter_mut().filter_map(QueuedCommand::deadline_mut);
        requests.chain(commands).for_each(|deadline| deadline.put_off(by, now));
    }
}

/// The requests that no call has taken.
#[derive(Default)]
pub(super) struct Waiting {
    requests: Vec<QueuedRequest>,
    /// No deadline passes before. It is not moved later while any wait: an alarm too many is cheaper than a
    /// search.
    next_deadline: Option<Instant>,
}

impl Waiting {
    pub(super) fn push(&mut self, request: QueuedRequest) {
        let deadline = request.deadline.instant();
        self.next_deadline = Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
        self.requests.push(request);
    }

    /// Takes the requests of the next call, in the order in which they were made, whichever thread queued
    /// first: as many as fit into one call, at least one. `None` if there are none.
    pub(super) fn next_batch(&mut self) -> Option<Vec<QueuedRequest>> {
        if self.requests.is_empty() {
            return None;
        }
        self.requests.sort_by_key(|request| request.deadline.since);
        let mut weight = 0;
        let fitting = self.requests.iter().take_while(|request| {
            weight += request.weight();
            weight <= MAX_BATCH_WEIGHT
        });
        let size = fitting.count().max(1);
        if size < self.requests.len() {
            return Some(self.requests.drain(..size).collect());
        }
        self.next_deadline = None;
        let room = size.next_power_of_two().min(KEPT_ROOM);
        Some(mem::replace(&mut self.requests, Vec::with_capacity(room)))
    }

    /// When the first request was made.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.requests.first().map(|request| request.deadline.since)
    }

    /// When a deadline passes next, or earlier.
    pub(super) const fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Takes the requests whose deadline has passed at `now`.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<QueuedRequest> {
        if self.next_deadline.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_expired = |request: &QueuedRequest| request.deadline.instant() <= now;
        let (expired, left): (Vec<_>, Vec<_>) = self.take_all().into_iter().partition(is_expired);
        for request in left {
            self.push(request);
        }
        expired
    }

    /// Takes all requests.
    pub(super) fn take_all(&mut self) -> Vec<QueuedRequest> {
        mem::take(self).requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Algorithm;
    use crate::store::redis::queue::request::tests::{check_under, checks};

    fn waiting(requests: impl IntoIterator<Item = QueuedRequest>) -> Waiting {
        let mut waiting = Waiting::default();
        requests.into_iter().for_each(|request| waiting.push(request));
        waiting
    }

    fn sizes(mut waiting: Waiting) -> Vec<usize> {
        std::iter::from_fn(|| waiting.next_batch().map(|batch| batch.len())).collect()
    }

    #[test]
    fn a_call_takes_as_many_requests_as_fit() {
        assert_eq!(sizes(Waiting::default()), []);
        assert_eq!(sizes(waiting(checks(3).0)), [3]);
        assert_eq!(sizes(waiting(checks(300).0)), [128, 128, 44]);
        let logs = (0..20).map(|_| check_under(Algorithm::SlidingWindowLog).0);
        assert_eq!(sizes(waiting(logs)), [16, 4]);
    }

    #[test]
    fn requests_are_taken_in_the_order_in_which_they_were_made() {
        let (mut requests, _replies) = checks(3);
        let made: Vec<Instant> = requests.iter().map(|request| request.deadline.since).collect();
        requests.rotate_left(1);
        let batch = waiting(requests).next_batch().unwrap();
        assert_eq!(batch.iter().map(|request| request.deadline.since).collect::<Vec<_>>(), made);
    }

    #[test]
    fn what_has_expired_is_taken_out_and_the_rest_keeps_its_order() {
        let (mut requests, _replies) = checks(3);
        requests[1].deadline.limit = Duration::from_secs(1);
        let due = requests[1].deadline.instant();
        let before = requests[1].deadline.since + Duration::from_millis(999);
        let kept = [requests[0].deadline.since, requests[2].deadline.since];
        let mut waiting = waiting(requests);
        assert_eq!(waiting.next_deadline(), Some(due));
        assert!(waiting.expired(before).is_empty());
        assert_eq!(waiting.expired(due).len(), 1);
        let left = waiting.take_all();
        assert_eq!(left.iter().map(|request| request.deadline.since).collect::<Vec<_>>(), kept);
    }
}
