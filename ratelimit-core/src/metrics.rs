//! What a limiter tells the `metrics` facade, for whichever exporter an application installs.
//!
//! Labels are bounded: the name of a policy, an outcome, a failure policy, a class of failures. No caller is ever one. A
//! policy whose name is made at run time makes a series for each name.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | [`DECISIONS`] | counter | `policy`, `outcome` |
//! | [`DEGRADED`] | counter | `policy`, `on_error`, `outcome` |
//! | [`STORE_SECONDS`] | histogram | |
//! | [`STORE_FAILURES`] | counter | `class` |
//! | [`LOCAL_REFUSALS`] | counter | |
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

/// Limits judged, by the store or without it: `policy`; `outcome` is `allowed` or `denied`. In a group, of which all limits
/// pass or none is charged, each limit has its own.
pub const DECISIONS: &str = "ratelimit_decisions_total";

/// Limits that had to be judged without the store: `policy`; `on_error` is its failure policy, `local`, `deny` or `allow`;
/// `outcome` is `allowed`, `denied`, or `unavailable` when a failure policy denied the whole group.
pub const DEGRADED: &str = "ratelimit_degraded_decisions_total";

/// Requests that were denied from memory, because Redis had denied the same a moment ago.
pub const LOCAL_REFUSALS: &str = "ratelimit_local_refusals_total";

/// How long the store took to decide, in seconds; what failed or was denied from memory is not in it.
pub const STORE_SECONDS: &str = "ratelimit_store_seconds";

/// Questions to the store that got no decision; `class` is `unavailable` (no connection, or not served), `misconfigured`
/// (a password, permissions, a database: it does not pass by itself), `timeout` (a whole deadline; a request that had less time left is not counted), `refused`, `protocol` or `foreign_state`.
pub const STORE_FAILURES: &str = "ratelimit_store_failures_total";

/// 1 while there is a connection to Redis that serves, otherwise 0; also 0 while a part of a cluster is out.
pub const CONNECTED: &str = "ratelimit_redis_connected";

/// Connections to Redis made so far; more than 1 means that it was made again.
pub const CONNECTIONS: &str = "ratelimit_redis_connections_total";

/// Callers that are counted in this process because the store could not answer; they are dropped when they no longer
/// count for anything and room is needed.
pub const FALLBACK_CALLERS: &str = "ratelimit_fallback_callers";

/// Tells the installed recorder what the metrics mean. Call it once, after installing the recorder.
pub fn describe() {
    describe_counter!(DECISIONS, Unit::Count, "Limits judged");
    describe_counter!(DEGRADED, Unit::Count, "Limits judged without the store");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "Time the store took to decide");
    describe_counter!(STORE_FAILURES, Unit::Count, "Questions to the store that got no decision");
    describe_counter!(
        LOCAL_REFUSALS,
        Unit::Count,
        "Requests denied from memory, as Redis had denied the same"
    );
    describe_gauge!(CONNECTED, Unit::Count, "1 while there is a connection to Redis that serves");
    describe_counter!(CONNECTIONS, Unit::Count, "Connections to Redis made so far");
    describe_gauge!(FALLBACK_CALLERS, Unit::Count, "Callers counted in this process while the store is out");
}

/// Measures how long the store takes.
pub(crate) struct Stopwatch(Instant);

#[allow(clippy::disallowed_methods, reason = "measures, and decides nothing")]
impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The store decided.
    pub(crate) fn decided(&self) {
        histogram!(STORE_SECONDS).record(self.0.elapsed());
    }
}

fn name(policy: &Policy) -> SharedString {
    // Names that were written down are not copied.
    match policy.shared_name() {
        Cow::Borrowed(name) => SharedString::const_str(name),
        Cow::Owned(name) => SharedString::from_owned(name),
    }
}

fn labels<'a>(
    group: &'a [Check<'_>],
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = (&'a Policy, &'static str)> {
    let told = |allowed| if allowed { "allowed" } else { "denied" };
    group.iter().zip(outcomes).map(move |(check, outcome)| (check.policy(), told(outcome.is_allowed())))
}

/// A group was judged, by the store or without it.
pub(crate) fn decided(group: &[Check<'_>], outcomes: &[Outcome]) {
    for (policy, outcome) in labels(group, outcomes) {
        counter!(DECISIONS, "policy" => name(policy), "outcome" => outcome).increment(1);
    }
}

/// The store failed.
pub(crate) fn failed(error: &StoreError) {
    let class = match error {
        StoreError::Unavailable(_) => "unavailable",
        StoreError::Misconfigured { .. } => "misconfigured",
        StoreError::Timeout { .. } => "timeout",
        StoreError::Refused(_) => "refused",
        StoreError::Protocol { .. } => "protocol",
        StoreError::ForeignState { .. } => "foreign_state",
        // Not asked.
        StoreError::GroupTooLarge { .. } => return,
    };
    counter!(STORE_FAILURES, "class" => class).increment(1);
}

/// A group was judged without the store; `None` when that was denied to all.
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

/// So many callers are counted in this process.
pub(crate) fn fallback_holds(callers: usize) {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    gauge!(FALLBACK_CALLERS).set(callers as f64);
}

/// A request was denied from memory.
#[cfg(feature = "redis")]
pub(crate) fn refused_locally() {
    counter!(LOCAL_REFUSALS).increment(1);
}

/// A connection was made.
#[cfg(feature = "redis")]
pub(crate) fn connected() {
    counter!(CONNECTIONS).increment(1);
    gauge!(CONNECTED).set(1.0);
}

/// There is no connection.
#[cfg(feature = "redis")]
pub(crate) fn disconnected() {
    gauge!(CONNECTED).set(0.0);
}
