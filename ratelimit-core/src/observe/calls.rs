//! The calls of a store to a server, as metrics and statistics: round-trip times, sizes of batches, hits in the denial cache.

use std::time::Duration;

use crate::clock::micros;
use crate::observe::metrics;
use crate::observe::stats::{Histogram, Tally};
use crate::observe::status::Percentiles;

/// The calls of one store.
#[derive(Debug)]
pub(crate) struct Calls {
    round_trips: Histogram,
    batches: Histogram,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { round_trips: Histogram::new(), batches: Histogram::new() }
    }

    /// Records the time of a call that got its reply.
    pub(crate) fn record_round_trip(&self, time: Duration) {
        metrics::round_trip(time);
        self.round_trips.record(micros(time));
    }

    /// Records the number of requests in a call.
    pub(crate) fn record_batch(&self, requests: usize) {
        metrics::batch(requests);
        self.batches.record(requests as u64);
    }

    pub(crate) fn round_trips(&self) -> Percentiles {
        self.round_trips.percentiles()
    }

    pub(crate) fn batches(&self) -> Percentiles {
        self.batches.percentiles()
    }
}

/// Requests that were denied by the denial cache.
#[derive(Debug, Default)]
pub(crate) struct CacheHits(Tally);

impl CacheHits {
    pub(crate) fn record(&self) {
        metrics::denial_cache_hit();
        self.0.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}
