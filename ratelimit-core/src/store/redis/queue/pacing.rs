//! Pacing: when the next call is sent, and how many requests it takes.
//!
//! Requests are sent at once while fewer than k calls are in flight: k is one for each 50 µs of the round trip, so 1 for a server on
//! the same machine, and falls to 1 when the server is busy ([`super::distance`]). Beyond that 2 k calls alternate, so that the server decides
//! one while this process handles the replies of another: a call is sent when as many requests are queued as each of the other
//! 2 k - 1 has on average, at least [`MIN_OVERLAP`], and it takes at most half of all. A call is also sent when the requests would
//! fill it, or when the last one was sent longer ago than the interval.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::distance::MIN_SEND_INTERVAL;
use super::request::QueuedRequest;
use crate::store::deadline::now;

/// Maximum weight of one call: that of 128 limits, or of 16 logs. Such a call takes the server one or two tenths of a
/// millisecond, with logs one millisecond at most, so that it does not delay other users of the server. A single group
/// that weighs more goes in a call of its own.
const MAX_BATCH_WEIGHT: usize = 128;

/// Fewest requests for a call beyond those that go at once. The fixed part of a call takes the server as long as several requests, so fewer
/// than these wait for the reply to the call in flight.
const MIN_OVERLAP: usize = 4;

/// Maximum number of calls in flight of one queue: enough for 64 * 128 limits. Further requests stay queued until their
/// deadline.
const MAX_IN_FLIGHT: usize = 64;

/// Requests for which a queue without requests keeps room. More is the room of a spike.
const KEPT_ROOM: usize = 1024;

/// What decides whether a call is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Calls in flight, and their requests.
    pub(super) calls: usize,
    pub(super) requests: usize,
    /// The number of calls that go at once.
    pub(super) at_once: usize,
    /// The time between two calls beyond these.
    pub(super) interval: Duration,
}

impl Pace {
    const fn has_room(self) -> bool {
        self.calls < MAX_IN_FLIGHT
    }
}

/// The requests that no call has taken.
pub(super) struct Waiting {
    requests: VecDeque<QueuedRequest>,
    weight: usize,
    last_call: Instant,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { requests: VecDeque::new(), weight: 0, last_call: now() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn push(&mut self, request: QueuedRequest) {
        self.weight += request.weight();
        self.requests.push_back(request);
    }

    /// Whether a call is sent at `now`.
    pub(super) fn is_ready(&self, pace: Pace, now: Instant) -> bool {
        let enough = if pace.calls < pace.at_once.max(1) { 1 } else { enough_beside(pace) };
        let fills_a_call = self.weight >= MAX_BATCH_WEIGHT;
        let is_due = now >= self.end_of_interval(pace);
        let is_enough = self.requests.len() >= enough || fills_a_call || is_due;
        !self.is_empty() && pace.has_room() && is_enough
    }

    /// Takes the requests of the call that is sent at `now`, in the order in which they were made, whichever thread queued
    /// first. `None` if they wait for others, or for replies.
    pub(super) fn next_batch(&mut self, pace: Pace, now: Instant) -> Option<Vec<QueuedRequest>> {
        if !self.is_ready(pace, now) {
            return None;
        }
        self.last_call = now;
        self.requests.make_contiguous().sort_by_key(|request| request.deadline.since);
        Some(self.take(size_of_next(self.requests.len(), pace.requests)))
    }

    /// From when on requests wait for no others.
    pub(super) fn end_of_interval(&self, pace: Pace) -> Instant {
        self.last_call + pace.interval
    }

    /// When a call is sent at the latest, unless too many are in flight.
    pub(super) fn due(&self, pace: Pace, now: Instant) -> Option<Instant> {
        let end = if pace.has_room() { self.end_of_interval(pace) } else { now + MIN_SEND_INTERVAL };
        (!self.is_empty()).then_some(end)
    }

    /// Takes at most `most` requests that fit into one call, at least one.
    fn take(&mut self, most: usize) -> Vec<QueuedRequest> {
        let mut weight = 0;
        let fitting = self.requests.iter().take(most).take_while(|request| {
            weight += request.weight();
            weight <= MAX_BATCH_WEIGHT
        });
        let size = fitting.count().max(1).min(self.requests.len());
        let batch: Vec<QueuedRequest> = self.requests.drain(..size).collect();
        self.weight -= batch.iter().map(QueuedRequest::weight).sum::<usize>();
        if self.is_empty() && self.requests.capacity() > KEPT_ROOM {
            self.requests = VecDeque::new();
        }
        batch
    }

    /// Puts the deadlines off by the time until `now` for which the process stood still, of each request since it was made.
    pub(super) fn put_off(&mut self, by: Duration, now: Instant) {
        for QueuedRequest { deadline, .. } in &mut self.requests {
            deadline.limit += by.min(now.saturating_duration_since(deadline.since));
        }
    }

    /// When a deadline passes next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.requests.iter().map(|request| request.deadline.instant()).min()
    }

    /// Takes the requests whose deadline has passed at `now`.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<QueuedRequest> {
        let is_expired = |request: &QueuedRequest| request.deadline.instant() <= now;
        if !self.requests.iter().any(is_expired) {
            return Vec::new();
        }
        let (expired, left): (Vec<_>, Vec<_>) = self.take_all().into_iter().partition(is_expired);
        for request in left {
            self.push(request);
        }
        expired
    }

    /// Takes all requests.
    pub(super) fn take_all(&mut self) -> VecDeque<QueuedRequest> {
        self.weight = 0;
        std::mem::take(&mut self.requests)
    }
}

/// The number of queued requests from which a call is sent beside those in flight, if twice as many calls alternate as go
/// at once.
fn enough_beside(pace: Pace) -> usize {
    (pace.requests / (2 * pace.at_once - 1)).clamp(MIN_OVERLAP, MAX_BATCH_WEIGHT)
}

/// The largest number of requests of the next call: half of all, if the rest is enough for a call of its own.
fn size_of_next(queued: usize, in_flight: usize) -> usize {
    let half = (queued + in_flight).div_ceil(2).max(MIN_OVERLAP);
    if queued < half + MIN_OVERLAP { queued } else { half }
}
