//! The batches of a queue that are in flight: each until all of its calls have a reply, or for the store's
//! deadline.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::call::Call;
use super::request::ReplySender;
use crate::store::Deadline;
use crate::store::redis::link::Link;
use crate::store::redis::topology::{Connection, SLOT_RANGES};

/// A call in flight: its batch, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) batch: u64,
    pub(super) index: usize,
}

/// Batches in flight.
#[derive(Default)]
pub(super) struct InFlight {
    /// In the order of their numbers.
    batches: VecDeque<BatchInFlight>,
    next: u64,
    busy: usize,
}

/// A batch in flight: one call on a single server, one per caller in a cluster.
pub(super) struct BatchInFlight {
    number: u64,
    /// Without those that have ended.
    calls: SmallVec<[Option<Call>; 1]>,
    open: usize,
    requests: usize,
    start: Instant,
    /// Over which its calls were written; it lives until they have ended, although another may have taken its
    /// place. `None` if they may follow redirects.
    connection: Option<Connection>,
    /// When a deadline passes next.
    due: Instant,
    is_timeout_recorded: bool,
    answered: RangeSet,
    failed: RangeSet,
}

/// A call that has ended.
pub(super) struct EndedCall {
    pub(super) call: Call,
    /// Whether it is the first reply, or the first failure, of its slot range. A batch counts once per slot
    /// range.
    pub(super) counts: bool,
    pub(super) connection: Option<Connection>,
    /// If this was the last call of its batch, when that was sent.
    pub(super) ends_batch: Option<Instant>,
}

/// What became due at an instant.
#[derive(Default)]
pub(super) struct Due {
    pub(super) requests: Vec<(ReplySender, Deadline)>,
    /// The slot ranges of calls that took too long, and the generation of their connection.
    pub(super) timeouts: Vec<(usize, u64)>,
    /// The connection of each of their batches.
    pub(super) silent: Vec<Connection>,
    /// Dropped last: that ends what waits for them.
    pub(super) given_up: Vec<BatchInFlight>,
}

impl BatchInFlight {
    pub(super) fn new(
        calls: impl IntoIterator<Item = Call>,
        requests: usize,
        start: Instant,
        connection: Option<Connection>,
    ) -> Self {
        let calls: SmallVec<_> = calls.into_iter().map(Some).collect();
        let (answered, failed) = (RangeSet::default(), RangeSet::default());
        let open = calls.len();
        Self {
            number: 0,
            calls,
            open,
            requests,
            start,
            connection,
            due: start,
            is_timeout_recorded: false,
            answered,
            failed,
        }
    }

    /// The calls that have not ended.
    fn calls(&mut self) -> impl Iterator<Item = &mut Call> {
        self.calls.iter_mut().flatten()
    }

    /// When a deadline of a request passes next; when all have passed, the store's: until then the reply
    /// still shows how the server is, and its leases are of use.
    fn next_due(&mut self, limit: Duration) -> Instant {
        let next = self.calls().filter_map(|call| call.next_deadline()).min();
        next.unwrap_or(self.start + limit)
    }

    /// The failures of requests that hit their deadline: one for each slot range, however many requests are
    /// in it, and the generation of its connection.
    fn timeouts(&mut self, link: &Link) -> SmallVec<[(usize, u64); 1]> {
        if self.is_timeout_recorded {
            return SmallVec::new();
        }
        let mut ranges = RangeSet::default();
        let calls = self.calls().filter(|call| ranges.insert(call.range));
        let timeouts = calls.filter_map(|call| Some((call.range, link.to_blame(&call.progress)?)));
        let timeouts = timeouts.collect::<SmallVec<_>>();
        self.is_timeout_recorded = !timeouts.is_empty();
        timeouts
    }
}

impl InFlight {
    /// Batches of requests; commands without requests do not count.
    pub(super) const fn busy(&self) -> usize {
        self.busy
    }

    /// Adds a batch. Returns its number, and when its next deadline passes.
    pub(super) fn add(&mut self, mut batch: BatchInFlight, limit: Duration) -> (u64, Instant) {
        self.next += 1;
        // A command may have been given none of its waiter's time: that is no alarm that was missed.
        (batch.number, batch.due) = (self.next, batch.next_due(limit).max(batch.start));
        self.busy += usize::from(batch.requests > 0);
        let due = batch.due;
        self.batches.push_back(batch);
        (self.next, due)
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.batches.binary_search_by_key(&number, |batch| batch.number).ok()
    }

    fn remove(&mut self, index: usize) -> Option<BatchInFlight> {
        let batch = self.batches.remove(index)?;
        self.busy -= usize::from(batch.requests > 0);
        Some(batch)
    }

    /// Ends a call. `None` if the batch was given up.
    pub(super) fn end(&mut self, id: CallId, is_answered: bool) -> Option<EndedCall> {
        let index = self.index_of(id.batch)?;
        let batch = &mut self.batches[index];
        let call = batch.calls.get_mut(id.index)?.take()?;
        let counted = if is_answered { &mut batch.answered } else { &mut batch.failed };
        let counts = counted.insert(call.range);
        let connection = batch.connection.clone();
        batch.open -= 1;
        let ended = if batch.open == 0 { self.remove(index) } else { None };
        let ends_batch = ended.map(|batch| batch.start);
        Some(EndedCall { call, counts, connection, ends_batch })
    }

    /// A call, and when its batch was sent.
    pub(super) fn get_mut(&mut self, id: CallId) -> Option<(&mut Call, Instant)> {
        let index = self.index_of(id.batch)?;
        let batch = &mut self.batches[index];
        Some((batch.calls.get_mut(id.index)?.as_mut()?, batch.start))
    }

    /// The connection of a batch.
    pub(super) fn connection(&self, batch: u64) -> Option<Connection> {
        self.batches[self.index_of(batch)?].connection.clone()
    }

    /// Takes what is due at `now`.
    pub(super) fn due(&mut self, now: Instant, link: &Link) -> Due {
        let mut due = Due::default();
        let mut index = 0;
        while let Some(batch) = self.batches.get_mut(index) {
            if batch.due > now {
                index += 1;
                continue;
            }
            let timeouts = batch.timeouts(link);
            if !timeouts.is_empty() {
                due.silent.extend(batch.connection.clone());
            }
            due.timeouts.extend(timeouts);
            for call in batch.calls() {
                due.requests.extend(call.expire(now));
            }
            // A deadline that was put off may be later than that of the store.
            let is_awaited = batch.calls().any(|call| call.next_deadline().is_some());
            if !is_awaited && batch.start + link.deadline() <= now {
                due.given_up.extend(self.remove(index));
            } else {
                batch.due = batch.next_due(link.deadline());
                index += 1;
            }
        }
        due
    }

    /// When a deadline passes next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.batches.iter().map(|batch| batch.due).min()
    }
}

/// Slot ranges of which a batch has recorded an event.
#[derive(Default)]
struct RangeSet(u64);

impl RangeSet {
    /// Adds a range. Returns whether it is new.
    fn insert(&mut self, range: usize) -> bool {
        let bit = 1 << range;
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

const _: () = assert!(SLOT_RANGES <= 64, "one bit per range");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_counts_once_per_slot_range() {
        let mut seen = RangeSet::default();
        assert_eq!([3, 4, 3, 63, 63].map(|range| seen.insert(range)), [true, true, false, true, false]);
    }
}
