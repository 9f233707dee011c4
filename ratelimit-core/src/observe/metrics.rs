//! Metrics of a limiter for the `metrics` facade, whichever exporter an application installs.
//!
//! Labels are bounded: name of a policy, outcome, failure policy, class of failures. A caller is never a
//! label. Policies whose names are made at run time make a series per name.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | [`DECISIONS`] | counter | `policy`, `outcome` |
//! | [`NEAR_LIMIT`] | counter | `policy` |
//! | [`DEGRADED`] | counter | `policy`, `on_error`, `outcome` |
//! | [`WAIT_SECONDS`] | histogram | `policy` |
//! | [`STORE_SECONDS`] | histogram | |
//! | [`STORE_FAILURES`] | counter | `class` |
//! | [`DENIAL_CACHE_HITS`] | counter | |
//! | [`CONNECTED`] | gauge | |
//! | [`CONNECTIONS`] | counter | |
//! | [`OPEN_SLOT_RANGES`] | gauge | |
//! | [`ROUND_TRIP_SECONDS`] | histogram | |
//! | [`BATCH_REQUESTS`] | histogram | |
//! | [`FALLBACK_CALLERS`] | gauge | |
//! | [`SLOTS_HELD`] | gauge | `policy` |
//! | [`LEASED_UNITS`] | counter | |
//! | [`LEASE_UNITS`] | counter | `end` |
//! | [`LEASE_HELD`] | gauge | |
//! | [`OVERRIDES_RELOADS`] | counter | `outcome` |
//! | [`OVERRIDES_CURRENT`] | gauge | |

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

use crate::check::Check;
use crate::error::StoreError;
use crate::observe::Counted;
use crate::outcome::Outcome;
use crate::policy::{OnError, Policy};

/// Defines the constant of each metric, [`ALL`] and [`describe`].
macro_rules! metrics {
    ($($(#[$doc:meta])+ $describe:ident!($constant:ident, $name:literal, $unit:ident, $description:literal);)+) => {
        $($(#[$doc])+ pub const $constant: &str = $name;)+

        /// The names of all metrics, for tests of dashboards and alerts. Exporters add `_bucket`, `_sum` and
        /// `_count` to those of histograms.
        pub const ALL: &[&str] = &[$($constant),+];

        /// Registers the descriptions of all metrics. Call it once, after installing the recorder.
        pub fn describe() {
            $($describe!($constant, Unit::$unit, $description);)+
        }
    };
}

metrics! {
    /// Counter of limits decided, by the store or without it. Labels: `policy`; `outcome`. Each limit of a
    /// group counts with an outcome of its own:
    ///
    /// * `allowed`: the request was admitted.
    /// * `denied`: this limit denied it.
    /// * `passed`: this limit passed, but another limit of the group denied. Nothing was charged.
    /// * `would_deny`: the limit is a shadow limit, and would have denied.
    describe_counter!(DECISIONS, "ratelimit_decisions_total", Count, "Limits decided");

    /// Counter of admitted requests after which less than a tenth of a limit is left, or another
    /// [share](crate::RateLimiterBuilder::near_limit_ratio). Label: `policy`. Rises before a limit denies.
    describe_counter!(NEAR_LIMIT, "ratelimit_near_limit_total", Count, "Admitted requests after which little of a limit is left");

    /// Counter of limits decided without the store, which had not answered in time. Labels: `policy`;
    /// `on_error`, its failure policy: `local`, `deny` or `allow`; `outcome`: `allowed`, `denied`, `passed`
    /// as in [`DECISIONS`], or `unavailable` if a limit of the group failed closed. A shadow limit does not
    /// deny, whatever its failure policy.
    describe_counter!(DEGRADED, "ratelimit_degraded_decisions_total", Count, "Limits decided without the store");

    /// Histogram of the time from the decision to the turn of requests that [wait](crate::RateLimiter::wait),
    /// in seconds; 0 for those that need not. Label: `policy`. Rises before waits are denied.
    describe_histogram!(WAIT_SECONDS, "ratelimit_wait_seconds", Seconds, "Time that requests wait for their turn");

    /// Counter of hits in the denial cache: requests denied without a round trip, because Redis had just
    /// denied the same.
    describe_counter!(DENIAL_CACHE_HITS, "ratelimit_denial_cache_hits_total", Count, "Requests denied by the denial cache");

    /// Histogram of the time of a decision by the store, in seconds. Without errors, hits in the denial
    /// cache, and requests that units of leases admit.
    describe_histogram!(STORE_SECONDS, "ratelimit_store_seconds", Seconds, "Time the store took to decide");

    /// Counter of calls of the store without a decision. Label `class`: `unavailable` (no connection, or it
    /// cannot serve), `misconfigured` (a password, permissions, a database: does not pass by itself),
    /// `timeout` (of the store's whole deadline; not of a request with less time), `rejected`, `protocol` or
    /// `corrupt_state`. Each class begins at 0 when a limiter over a store other than the one in memory is
    /// made, so that the first failure is a rise.
    describe_counter!(STORE_FAILURES, "ratelimit_store_failures_total", Count, "Calls of the store without a decision");

    /// Gauge of the connections to Redis that serve: one of the store, also in a cluster, and those of
    /// workers; 0 if the store has none, or a part of a cluster is out.
    describe_gauge!(CONNECTED, "ratelimit_redis_connected", Count, "Connections to Redis that serve");

    /// Counter of connections made to Redis, those of workers as well.
    describe_counter!(CONNECTIONS, "ratelimit_redis_connections_total", Count, "Connections to Redis made so far");

    /// Gauge of the slot ranges whose circuit breaker is open: of 64 in a cluster, and of 1 for a single
    /// server.
    describe_gauge!(OPEN_SLOT_RANGES, "ratelimit_redis_open_slot_ranges", Count, "Slot ranges whose circuit breaker is open");

    /// Histogram of the time of a call that decides, from sending to the reply, in seconds. A call decides
    /// one or more requests.
    describe_histogram!(ROUND_TRIP_SECONDS, "ratelimit_redis_round_trip_seconds", Seconds, "Time of a call to Redis");

    /// Histogram of the number of requests in a call; 0 for a call that only fetches leases.
    describe_histogram!(BATCH_REQUESTS, "ratelimit_redis_batch_requests", Count, "Requests in a call to Redis");

    /// Gauge of callers counted in this process because the store did not answer in time. Expired ones are
    /// dropped when room is needed.
    describe_gauge!(FALLBACK_CALLERS, "ratelimit_fallback_callers", Count, "Callers counted in this process without the store");

    /// Gauge of slots of a [concurrency limit](crate::Policy::concurrency) that requests of this process
    /// hold. Label: `policy`.
    describe_gauge!(SLOTS_HELD, "ratelimit_slots_held", Count, "Slots of concurrency limits held by requests of this process");

    /// Counter of units that [leases](crate::PolicyBuilder::lease) charged ahead.
    describe_counter!(LEASED_UNITS, "ratelimit_lease_leased_units_total", Count, "Units charged ahead by leases");

    /// Counter of units of leases that ended, by what became of them. Label `end`: `used`, `returned` to the
    /// server, or `expired`.
    describe_counter!(LEASE_UNITS, "ratelimit_lease_ended_units_total", Count, "Units of leases that ended");

    /// Gauge of units of leases that are not used yet.
    describe_gauge!(LEASE_HELD, "ratelimit_lease_held_units", Count, "Units held by leases");

    /// Counter of times at which a watched file of [overrides](crate::RateLimiterBuilder) had new contents.
    /// Label `outcome`: `applied`, or `rejected`, so that those before stay in force. Both begin at 0 with
    /// the watch.
    describe_counter!(OVERRIDES_RELOADS, "ratelimit_overrides_reloads_total", Count, "New contents of a watched file of overrides");

    /// Gauge: 1 while the newest overrides are in force, 0 after new contents of the watched file were
    /// rejected. One for the process.
    describe_gauge!(OVERRIDES_CURRENT, "ratelimit_overrides_current", Count, "1 while the newest overrides of the file are in force");
}

/// The label `outcome`.
const fn label(counted: Counted) -> &'static str {
    match counted {
        Counted::Admitted => "allowed",
        Counted::Passed => "passed",
        Counted::Denied => "denied",
        Counted::WouldDeny => "would_deny",
    }
}

pub(super) fn name(policy: &Policy) -> SharedString {
    // Only names that were made at run time are copied.
    match policy.shared_name() {
        Cow::Borrowed(name) => SharedString::const_str(name),
        Cow::Owned(name) => SharedString::from_owned(name),
    }
}

/// Records a decision about one limit, by the store or without it.
pub(super) fn count(policy: &Policy, counted: Counted, is_near_limit: bool) {
    counter!(DECISIONS, "policy" => name(policy), "outcome" => label(counted)).increment(1);
    if is_near_limit {
        counter!(NEAR_LIMIT, "policy" => name(policy)).increment(1);
    }
}

/// The classes of failures of a store.
pub(super) const CLASSES: [&str; 6] =
    ["unavailable", "misconfigured", "timeout", "rejected", "protocol", "corrupt_state"];

/// The class of an error; `None` if the store was not called, or has nothing to do with it.
fn class(error: &StoreError) -> Option<&'static str> {
    let [unavailable, misconfigured, timeout, rejected, protocol, corrupt_state] = CLASSES;
    match error {
        StoreError::Unavailable { .. } => Some(unavailable),
        StoreError::Misconfigured { .. } => Some(misconfigured),
        StoreError::Timeout { .. } => Some(timeout),
        StoreError::Rejected { .. } => Some(rejected),
        StoreError::Protocol { .. } => Some(protocol),
        StoreError::CorruptState { .. } => Some(corrupt_state),
        StoreError::NoTimeLeft
        | StoreError::GroupTooLarge { .. }
        | StoreError::SeveralCallers
        | StoreError::Forked
        | StoreError::ConcurrencyLimit { .. }
        | StoreError::TurnsNotDue => None,
    }
}

/// Records an error of the store.
pub(super) fn failed(error: &StoreError) {
    if let Some(class) = class(error) {
        counter!(STORE_FAILURES, "class" => class).increment(1);
    }
}

/// Records a decision without the store; `None` if a limit of the group failed closed.
pub(super) fn degraded(group: &[Check<'_>], decided: Option<&[Outcome]>) {
    let one = |policy: &Policy, outcome: &'static str| {
        let on_error = match policy.on_error() {
            OnError::Local => "local",
            OnError::Deny => "deny",
            OnError::Allow => "allow",
        };
        counter!(DEGRADED, "policy" => name(policy), "on_error" => on_error, "outcome" => outcome)
            .increment(1);
    };
    match decided {
        Some(outcomes) => {
            let is_admitted = outcomes.iter().all(Outcome::is_allowed);
            for (check, outcome) in group.iter().zip(outcomes) {
                one(check.policy(), label(Counted::of(outcome, is_admitted)));
            }
        }
        None => group.iter().for_each(|check| one(check.policy(), "unavailable")),
    }
}

/// Records that slots of a policy are held, or are no longer.
pub(super) fn held(policy: &Policy, units: u64, are_held: bool) {
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let (gauge, units) = (gauge!(SLOTS_HELD, "policy" => name(policy)), units as f64);
    if are_held { gauge.increment(units) } else { gauge.decrement(units) }
}
