//! Metrics of a limiter for the `metrics` facade, whichever exporter an application installs.
//!
//! Labels are bounded: name of a policy, outcome, failure policy, class of failures. A caller is never a label. Policies
//! whose names are made at run time make a series per name.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | [`DECISIONS`] | counter | `policy`, `outcome` |
//! | [`NEAR_LIMIT`] | counter | `policy` |
//! | [`DEGRADED`] | counter | `policy`, `on_error`, `outcome` |
//! | [`STORE_SECONDS`] | histogram | |
//! | [`STORE_FAILURES`] | counter | `class` |
//! | [`DENIAL_CACHE_HITS`] | counter | |
//! | [`CONNECTED`] | gauge | |
//! | [`CONNECTIONS`] | counter | |
//! | [`FALLBACK_CALLERS`] | gauge | |

use std::borrow::Cow;
use std::time::Instant;

use metrics::{
    SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::Outcome;
use crate::policy::{OnError, Policy};

/// Counter of limits decided, by the store or without it. Labels: `policy`; `outcome`, `allowed`, `denied`, or `would_deny` of a
/// shadow limit. Each limit of a group counts with an outcome of its own.
pub const DECISIONS: &str = "ratelimit_decisions_total";

/// Counter of admitted requests after which less than a tenth of a limit is left, or another
/// [share](crate::RateLimiterBuilder::near_limit_ratio). Label: `policy`. Rises before a limit denies.
pub const NEAR_LIMIT: &str = "ratelimit_near_limit_total";

/// Counter of limits decided without the store, during an outage. Labels: `policy`; `on_error`, its failure policy: `local`,
/// `deny` or `allow`; `outcome`: `allowed`, `denied`, or `unavailable` if a limit of the group failed closed. A shadow limit is
/// `allowed`, whatever its failure policy.
pub const DEGRADED: &str = "ratelimit_degraded_decisions_total";

/// Counter of hits in the denial cache: requests denied without a round trip, because Redis had just denied the same.
pub const DENIAL_CACHE_HITS: &str = "ratelimit_denial_cache_hits_total";

/// Histogram of the time of a decision by the store, in seconds. Without errors and hits in the denial cache.
pub const STORE_SECONDS: &str = "ratelimit_store_seconds";

/// Counter of calls of the store without a decision. Label `class`: `unavailable` (no connection, or it cannot serve),
/// `misconfigured` (a password, permissions, a database: does not pass by itself), `timeout` (of the store's whole deadline;
/// not of a request with less time), `rejected`, `protocol` or `corrupt_state`.
pub const STORE_FAILURES: &str = "ratelimit_store_failures_total";

/// Gauge: 1 while there is a connection to Redis that serves, otherwise 0; also 0 while a part of a cluster is out.
pub const CONNECTED: &str = "ratelimit_redis_connected";

/// Counter of connections made to Redis; above 1 after a reconnect.
pub const CONNECTIONS: &str = "ratelimit_redis_connections_total";

/// Gauge of callers counted in this process because of an outage. Expired ones are dropped when room is needed.
pub const FALLBACK_CALLERS: &str = "ratelimit_fallback_callers";

/// Registers the descriptions of all metrics. Call it once, after installing the recorder.
pub fn describe() {
    describe_counter!(DECISIONS, Unit::Count, "Limits decided");
    describe_counter!(NEAR_LIMIT, Unit::Count, "Admitted requests after which little of a limit is left");
    describe_counter!(DEGRADED, Unit::Count, "Limits decided without the store");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "Time the store took to decide");
    describe_counter!(STORE_FAILURES, Unit::Count, "Calls of the store without a decision");
    describe_counter!(DENIAL_CACHE_HITS, Unit::Count, "Requests denied by the denial cache");
    describe_gauge!(CONNECTED, Unit::Count, "1 while there is a connection to Redis that serves");
    describe_counter!(CONNECTIONS, Unit::Count, "Connections to Redis made so far");
    describe_gauge!(FALLBACK_CALLERS, Unit::Count, "Callers counted in this process during an outage");
}

/// Measures the time of a decision.
pub(crate) struct Stopwatch(Instant);

#[allow(clippy::disallowed_methods, reason = "measures, and decides nothing")]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Records a decision of the store.
    pub(crate) fn decided(&self) {
        histogram!(STORE_SECONDS).record(self.0.elapsed());
    }
}

fn name(policy: &Policy) -> SharedString {
    // Only names that were made at run time are copied.
    match policy.shared_name() {
        Cow::Borrowed(name) => SharedString::const_str(name),
        Cow::Owned(name) => SharedString::from_owned(name),
    }
}

fn labels<'a>(
    group: &'a [Check<'_>],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = (&'a Policy, &'static str)> {
    let label = |outcome: &Outcome| match outcome.is_allowed() {
        true if outcome.would_deny() => "would_deny",
        true => "allowed",
        false => "denied",
    };
    group.iter().zip(outcomes).map(move |(check, outcome)| (check.policy(), label(outcome)))
}

/// Records the outcomes of a group, decided by the store or without it.
pub(crate) fn decided(group: &[Check<'_>], outcomes: &[Outcome], near_limit_ratio: f64) {
    for (policy, outcome) in labels(group, outcomes) {
        counter!(DECISIONS, "policy" => name(policy), "outcome" => outcome).increment(1);
    }
    if outcomes.iter().all(Outcome::is_allowed) {
        for (check, _) in group.iter().zip(outcomes).filter(|(_, one)| is_near_limit(one, near_limit_ratio)) {
            counter!(NEAR_LIMIT, "policy" => name(check.policy())).increment(1);
        }
    }
}

/// Whether less than this share of the capacity is left after a charge.
fn is_near_limit(outcome: &Outcome, ratio: f64) -> bool {
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let (remaining, limit) = (outcome.remaining() as f64, outcome.limit() as f64);
    outcome.fits() && !outcome.is_degraded() && remaining < ratio * limit
}

/// Records an error of the store.
pub(crate) fn failed(error: &StoreError) {
    let class = match error {
        StoreError::Unavailable { .. } => "unavailable",
        StoreError::Misconfigured { .. } => "misconfigured",
        StoreError::Timeout { .. } => "timeout",
        StoreError::Rejected { .. } => "rejected",
        StoreError::Protocol { .. } => "protocol",
        StoreError::CorruptState { .. } => "corrupt_state",
        // The store was not called.
        StoreError::GroupTooLarge { .. } | StoreError::SharedShadow { .. } => return,
    };
    counter!(STORE_FAILURES, "class" => class).increment(1);
}

/// Records a decision without the store; `None` if a limit of the group failed closed.
pub(crate) fn degraded(group: &[Check<'_>], decided: Option<&[Outcome]>) {
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
        Some(outcomes) => labels(group, outcomes).for_each(|(policy, outcome)| one(policy, outcome)),
        None => group.iter().for_each(|check| one(check.policy(), "unavailable")),
    }
}

/// Records the number of callers counted in this process.
pub(crate) fn fallback_callers(callers: usize) {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    gauge!(FALLBACK_CALLERS).set(callers as f64);
}

/// Records a hit in the denial cache.
#[cfg(feature = "redis")]
pub(crate) fn denial_cache_hit() {
    counter!(DENIAL_CACHE_HITS).increment(1);
}

/// Records a new connection.
#[cfg(feature = "redis")]
pub(crate) fn connected() {
    counter!(CONNECTIONS).increment(1);
    gauge!(CONNECTED).set(1.0);
}

/// Records that no connection serves.
#[cfg(feature = "redis")]
pub(crate) fn disconnected() {
    gauge!(CONNECTED).set(0.0);
}
