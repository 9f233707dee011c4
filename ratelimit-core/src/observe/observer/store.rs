//! Events of a store with a server: calls, connections, the denial cache and leases.

#[cfg(feature = "metrics")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "metrics")]
use ::metrics::{counter, gauge, histogram};

use crate::error::StoreError;
use crate::observe::log::{LogLimit, help};
#[cfg(feature = "metrics")]
use crate::observe::metrics;
#[cfg(feature = "stats")]
use crate::observe::stats::Histogram;
use crate::observe::status::{ConnectionStatus, LeaseStatus};

/// Calls the application's metrics recorder. Its panic ends no call, and no watch over a connection.
#[cfg(feature = "metrics")]
fn recorded(record: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(record));
}

/// Passes on events of the connection of one store, and of the calls over it.
#[derive(Debug, Default)]
pub(crate) struct StoreObserver {
    /// Connections made so far.
    made: AtomicU64,
    #[cfg(feature = "stats")]
    round_trips: Histogram,
    #[cfg(feature = "stats")]
    batches: Histogram,
    #[cfg(feature = "stats")]
    denial_cache_hits: AtomicU64,
}

impl StoreObserver {
    /// A connection was made.
    pub(crate) fn connected(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        recorded(|| counter!(metrics::CONNECTIONS).increment(1));
    }

    /// So many connections serve; 0 if none can.
    pub(crate) fn serve(&self, connections: usize) {
        #[cfg(feature = "metrics")]
        recorded(|| gauge!(metrics::CONNECTED).set(connections as f64));
        #[cfg(not(feature = "metrics"))]
        let _ = connections;
    }

    /// The circuit breakers of these slot ranges are open.
    pub(crate) fn open_ranges(&self, ranges: impl Iterator) {
        #[cfg(feature = "metrics")]
        recorded(|| gauge!(metrics::OPEN_SLOT_RANGES).set(ranges.count() as f64));
    }

    /// A call with this number of requests is sent.
    pub(crate) fn sent(&self, requests: usize) {
        #[cfg(feature = "metrics")]
        recorded(|| histogram!(metrics::BATCH_REQUESTS).record(requests as f64));
        #[cfg(feature = "stats")]
        self.batches.record(requests as u64);
    }

    /// A call got its reply.
    pub(crate) fn replied(&self, round_trip: Duration) {
        #[cfg(feature = "metrics")]
        recorded(|| histogram!(metrics::ROUND_TRIP_SECONDS).record(round_trip));
        #[cfg(feature = "stats")]
        self.round_trips.record(crate::clock::micros(round_trip));
    }

    /// The denial cache denied a request.
    pub(crate) fn denied_by_cache(&self) {
        #[cfg(feature = "metrics")]
        recorded(|| counter!(metrics::DENIAL_CACHE_HITS).increment(1));
        #[cfg(feature = "stats")]
        self.denial_cache_hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the statistics to the state of the connection.
    pub(crate) fn report(&self, status: &mut ConnectionStatus) {
        status.connections = self.made.load(Ordering::Relaxed);
        #[cfg(feature = "stats")]
        {
            status.round_trip_us = self.round_trips.percentiles();
            status.batch = self.batches.percentiles();
            status.denial_cache_hits = self.denial_cache_hits.load(Ordering::Relaxed);
        }
    }
}

/// Passes on events of the leases of one store.
#[derive(Debug, Default)]
pub(crate) struct LeaseObserver {
    odd_answers: LogLimit,
    #[cfg(feature = "stats")]
    leased: AtomicU64,
    /// Units of leases that ended: used, given back, expired.
    #[cfg(feature = "stats")]
    ended: [AtomicU64; 3],
}

impl LeaseObserver {
    /// A lease was granted.
    pub(crate) fn granted(&self, units: u64) {
        #[cfg(feature = "metrics")]
        recorded(|| counter!(metrics::LEASED_UNITS).increment(units));
        #[cfg(feature = "stats")]
        self.leased.fetch_add(units, Ordering::Relaxed);
    }

    /// Leases ended: their units were used, given back, or expired.
    #[inline]
    pub(crate) fn ended(&self, units: [u64; 3]) {
        // Most events end no lease.
        if units != [0; 3] {
            #[cfg(feature = "metrics")]
            for (end, units) in ["used", "returned", "expired"].into_iter().zip(units) {
                if units > 0 {
                    recorded(|| counter!(metrics::LEASE_UNITS, "end" => end).increment(units));
                }
            }
            #[cfg(feature = "stats")]
            for (sum, units) in self.ended.iter().zip(units) {
                sum.fetch_add(units, Ordering::Relaxed);
            }
        }
    }

    /// Sets the number of units of leases that are not used.
    pub(crate) fn held(&self, units: u64) {
        #[cfg(feature = "metrics")]
        gauge!(metrics::LEASE_HELD).set(units as f64);
    }

    /// A server's answer about a lease does not follow from its state, or grants other units than were
    /// requested.
    #[cold]
    pub(crate) fn odd_answer(&self, expected: &'static str) {
        let error = StoreError::protocol(expected);
        #[cfg(feature = "metrics")]
        metrics::failed(&error);
        if self.odd_answers.may_log() {
            tracing::warn!(
                help = help("odd-lease"),
                error = %error,
                "the server's answer about a lease is not used"
            );
        }
    }

    /// Adds the units so far to the state of the leases.
    pub(crate) fn report(&self, status: &mut LeaseStatus) {
        #[cfg(feature = "stats")]
        {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            [status.used, status.returned, status.expired] = self.ended.each_ref().map(read);
            status.leased = read(&self.leased);
        }
    }
}
