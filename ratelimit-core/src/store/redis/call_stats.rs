//! Statistics of a store's calls: round-trip times, sizes of batches, hits in the denial cache, ends of leases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::micros;
use crate::stats::{Histogram, Percentiles};

/// Statistics of the calls of one store.
#[derive(Debug)]
pub(super) struct CallStats {
    started: Instant,
    round_trips: Histogram,
    batches: Histogram,
}

impl CallStats {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), round_trips: Histogram::new(), batches: Histogram::new() }
    }

    fn minute(&self) -> u64 {
        self.started.elapsed().as_secs() / 60
    }

    /// Counts a call that got its reply after this time.
    pub(super) fn record_round_trip(&self, time: Duration) {
        self.round_trips.record(self.minute(), micros(time));
    }

    /// Counts a call with this number of requests.
    pub(super) fn record_batch(&self, requests: usize) {
        self.batches.record(self.minute(), requests as u64);
    }

    pub(super) fn round_trips(&self) -> Percentiles {
        self.round_trips.percentiles(self.minute())
    }

    pub(super) fn batches(&self) -> Percentiles {
        self.batches.percentiles(self.minute())
    }
}

/// A counter that only the statistics read.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
