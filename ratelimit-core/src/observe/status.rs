//! The status of a store: its connection, circuit breaker, calls, denial cache and leases.

use std::time::Duration;

#[cfg(feature = "stats")]
use serde::{Serialize, Serializer};

/// The state of a store, as [`RateLimiter::store_status`](crate::RateLimiter::store_status) returns it.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "stats", derive(Serialize))]
#[non_exhaustive]
pub struct StoreStatus {
    /// Number of callers stored in this process, each counted once for each of its policies. `None` if the
    /// store counts elsewhere.
    pub callers: Option<usize>,
    /// The state of the connection to a server. `None` for a store without one.
    pub connection: Option<ConnectionStatus>,
    /// Number of callers that this process counts because the store did not answer in time. Expired ones are
    /// dropped when room is needed.
    pub fallback_callers: usize,
    /// Whether an outage is on: a call failed, and the store has not replied for a second without a failure.
    pub is_out: bool,
}

impl StoreStatus {
    /// A status of which nothing is known. Its fields are public.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The state of a connection to Redis.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "stats", derive(Serialize))]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// Whether there is a connection that serves; a part of a cluster may be out.
    pub is_connected: bool,
    /// Number of connections made so far, those of workers as well.
    pub connections: u64,
    /// Workers with a connection of their own, and the store's own thread; 0 while there is none.
    pub lanes: usize,
    /// Longest time that a call waits. Serialized as `deadline_us`, in microseconds.
    #[cfg_attr(feature = "stats", serde(rename = "deadline_us", serialize_with = "in_micros"))]
    pub deadline: Duration,
    /// Number of slot ranges, which have a circuit breaker each: 64 of a cluster, 1 of a single server.
    pub slot_ranges: usize,
    /// Slot ranges whose circuit breaker is open, numbered from 0. In a cluster, range *n* has the 256 slots
    /// from 256 *n* on.
    pub open_slot_ranges: Vec<usize>,
    /// Times of the calls that got a reply in the last one to two minutes, in microseconds.
    pub round_trip_us: Percentiles,
    /// Requests in each call of the last one to two minutes.
    pub batch: Percentiles,
    /// Denials in the denial cache, also those that have expired since and were not removed yet.
    pub cached_denials: usize,
    /// Requests that were denied by the denial cache.
    pub denial_cache_hits: u64,
    /// The leases of this process.
    pub leases: LeaseStatus,
}

#[cfg(feature = "stats")]
fn in_micros<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(crate::clock::micros(*time))
}

/// The leases of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "stats", derive(Serialize))]
#[non_exhaustive]
pub struct LeaseStatus {
    /// Callers with units that are not used.
    pub callers: usize,
    /// Units that are not used yet.
    pub held: u64,
    /// Units that were charged ahead, since the start.
    pub leased: u64,
    /// Units of ended leases that were used.
    pub used: u64,
    /// Units of ended leases that were given back.
    pub returned: u64,
    /// Units of ended leases that expired.
    pub expired: u64,
}

/// How numbers of the last one to two minutes are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "stats", derive(Serialize))]
#[non_exhaustive]
pub struct Percentiles {
    /// How many numbers there are.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Half of the numbers are at most this; rounded up by at most 25 %.
    pub p50: u64,
    /// 99 of 100 numbers are at most this; rounded up by at most 25 %.
    pub p99: u64,
    /// The largest number.
    pub max: u64,
}
