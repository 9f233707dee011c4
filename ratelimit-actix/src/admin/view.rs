//! What the page and the JSON show: every limit, the store, and the callers that were denied most.

use std::collections::BTreeMap;

use ratelimit_core::RateLimiter;
use ratelimit_core::stats::{BAR_SECONDS, Bar, LimitStats, Totals};
use ratelimit_core::store::{ConnectionStatus, StoreStatus};
use serde::Serialize;

use super::in_force::{LimitNumbers, micros};
use super::rows;
use crate::caller::notation::notation;
use crate::handler::registry::declared_limits;

/// The limits with one name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LimitView {
    pub(super) name: String,
    /// The numbers of each policy or attribute with this name.
    pub(super) numbers: Vec<LimitNumbers>,
    pub(super) admitted: u64,
    pub(super) denied: u64,
    /// Requests that passed this limit, and that another one denied.
    pub(super) passed: u64,
    pub(super) would_deny: u64,
    pub(super) near_limit: u64,
    pub(super) degraded: u64,
    /// Bars of `bar_seconds`, the last of them not ended.
    pub(super) recent: Vec<BarView>,
    pub(super) bar_seconds: u64,
}

/// Decisions in one bar.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct BarView {
    pub(super) admitted: u64,
    pub(super) denied: u64,
    pub(super) passed: u64,
    pub(super) would_deny: u64,
}

/// A caller that was denied often.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallerView {
    pub(super) limit: String,
    pub(super) digest: String,
    /// `None` unless the application shows callers.
    pub(super) caller: Option<String>,
    pub(super) denied: u64,
    /// How many of the denials may be those of other callers.
    pub(super) error: u64,
    /// Whether the process keeps what identifies the caller: at most 256 bytes.
    pub(super) can_look: bool,
}

/// The denied callers, and what is not in the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallersView {
    pub(super) callers: Vec<CallerView>,
    /// Denials whose callers were not counted.
    pub(super) not_counted: u64,
}

/// The overrides as a whole.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OverridesView {
    /// The name of their file.
    pub(super) source: String,
    /// Numbers of limits with overrides, and of rows.
    pub(super) limits: usize,
    pub(super) rows: usize,
    /// Why the newest contents of the file are not in force. `None` if they are.
    pub(super) rejected: Option<String>,
}

/// The state of the store.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StoreView {
    pub(super) kind: &'static str,
    pub(super) is_ready: bool,
    pub(super) is_out: bool,
    /// Seconds since the limiter was built.
    pub(super) uptime: u64,
    pub(super) callers: Option<usize>,
    pub(super) fallback_callers: usize,
    pub(super) redis: Option<RedisView>,
}

/// The state of a connection to Redis. Times are in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RedisView {
    pub(super) connections: u64,
    pub(super) deadline_us: u64,
    pub(super) slot_ranges: usize,
    pub(super) open_slot_ranges: Vec<usize>,
    pub(super) calls: u64,
    pub(super) round_trip_p50_us: u64,
    pub(super) round_trip_p99_us: u64,
    pub(super) round_trip_max_us: u64,
    pub(super) batch_mean: f64,
    pub(super) batch_p99: u64,
    pub(super) batch_max: u64,
    pub(super) cached_denials: usize,
    pub(super) denial_cache_hits: u64,
    pub(super) lease_callers: usize,
    pub(super) lease_held: u64,
    pub(super) leased: u64,
    pub(super) lease_used: u64,
    pub(super) lease_returned: u64,
    pub(super) lease_expired: u64,
}

/// Every limit: those that are declared by attributes, those that overrides may name, and those that were decided, in the order of
/// their names.
pub(super) fn limits(limiter: &RateLimiter, show_callers: bool) -> Vec<LimitView> {
    let mut views: BTreeMap<String, LimitView> = BTreeMap::new();
    for declared in declared_limits() {
        let view = views.entry(declared.name().to_owned()).or_insert_with_key(|name| LimitView::new(name));
        view.numbers.push(LimitNumbers::declared(&declared, limiter, show_callers));
    }
    for policy in rows::given_policies(limiter) {
        let view = views.entry(policy.name().to_owned()).or_insert_with_key(|name| LimitView::new(name));
        view.numbers.push(LimitNumbers::policy(&policy, limiter, show_callers));
    }
    for stats in limiter.stats().limits() {
        let view = views.entry(stats.name().to_owned()).or_insert_with_key(|name| LimitView::new(name));
        view.count(&stats);
        // A limit of middleware or of code: what it was decided with.
        if view.numbers.is_empty() {
            let numbers = |policy| LimitNumbers::policy(policy, limiter, show_callers);
            view.numbers = stats.policies().iter().map(numbers).collect();
        }
    }
    views.into_values().collect()
}

/// The overrides as a whole. `None` if there have not been any.
pub(super) fn overrides(limiter: &RateLimiter) -> Option<OverridesView> {
    rows::overview(limiter)
}

impl LimitView {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            numbers: Vec::new(),
            admitted: 0,
            denied: 0,
            passed: 0,
            would_deny: 0,
            near_limit: 0,
            degraded: 0,
            recent: Vec::new(),
            bar_seconds: BAR_SECONDS,
        }
    }

    fn count(&mut self, stats: &LimitStats) {
        let Totals { admitted, denied, passed, would_deny, near_limit, degraded, .. } = stats.totals();
        (self.admitted, self.denied, self.passed, self.would_deny) = (admitted, denied, passed, would_deny);
        (self.near_limit, self.degraded) = (near_limit, degraded);
        self.recent = stats.recent().iter().map(BarView::from).collect();
    }
}

impl From<&Bar> for BarView {
    fn from(bar: &Bar) -> Self {
        let Bar { admitted, denied, passed, would_deny, .. } = *bar;
        Self { admitted, denied, passed, would_deny }
    }
}

/// The callers that were denied most; shown by name if the application says so.
pub(super) fn callers(limiter: &RateLimiter, max: usize, show_callers: bool) -> CallersView {
    let callers = limiter.stats().denied_callers(max).into_iter().map(|denied| CallerView {
        limit: denied.limit().to_owned(),
        digest: denied.digest().to_string(),
        caller: denied.partition().filter(|_| show_callers).and_then(notation),
        denied: denied.count(),
        error: denied.error(),
        can_look: denied.partition().is_some(),
    });
    CallersView { callers: callers.collect(), not_counted: limiter.stats().denials_without_caller() }
}

/// The state of the store.
pub(super) fn store(limiter: &RateLimiter) -> StoreView {
    let StoreStatus { callers, connection, fallback_callers, is_out, .. } = limiter.store_status();
    StoreView {
        kind: limiter.store_kind(),
        is_ready: limiter.is_ready(),
        is_out,
        uptime: limiter.stats().uptime().as_secs(),
        callers,
        fallback_callers,
        redis: connection.as_ref().map(RedisView::from),
    }
}

impl From<&ConnectionStatus> for RedisView {
    fn from(status: &ConnectionStatus) -> Self {
        let (round_trip, batch, leases) = (status.round_trip_us, status.batch, status.leases);
        #[allow(clippy::cast_precision_loss, reason = "a mean for people, with one decimal")]
        let batch_mean = if batch.count == 0 { 0.0 } else { batch.sum as f64 / batch.count as f64 };
        Self {
            connections: status.connections,
            deadline_us: micros(status.deadline),
            slot_ranges: status.slot_ranges,
            open_slot_ranges: status.open_slot_ranges.clone(),
            calls: round_trip.count,
            round_trip_p50_us: round_trip.p50,
            round_trip_p99_us: round_trip.p99,
            round_trip_max_us: round_trip.max,
            batch_mean: (batch_mean * 10.0).round() / 10.0,
            batch_p99: batch.p99,
            batch_max: batch.max,
            cached_denials: status.cached_denials,
            denial_cache_hits: status.denial_cache_hits,
            lease_callers: leases.callers,
            lease_held: leases.held,
            leased: leases.leased,
            lease_used: leases.used,
            lease_returned: leases.returned,
            lease_expired: leases.expired,
        }
    }
}
