//! The overrides in force for a policy, as rows.

use ratelimit_core::__private_0_1::LimitRows;
use ratelimit_core::overrides::{self, Field, InForce};
use ratelimit_core::{Policy, RateLimiter};

use super::row::{Origin, OverridesView, Row};

/// What is in force for callers without a row of their own.
pub(super) fn for_all(limiter: &RateLimiter, policy: &Policy) -> Row {
    row(&limiter.in_force(policy), None)
}

/// What is in force for one caller, whose requests have no plan.
pub(super) fn for_caller(limiter: &RateLimiter, policy: &Policy, partition: &[u8]) -> Row {
    row(&limiter.in_force_for(policy, None, partition), None)
}

/// The numbers of rows of plans, and of callers.
pub(super) fn counts(limiter: &RateLimiter, policy: &Policy) -> (usize, usize) {
    let guard = limiter.overrides_guard();
    let rows = guard.as_ref().and_then(|guard| guard.limit(policy));
    rows.map_or((0, 0), LimitRows::row_counts)
}

/// The rows of plans, then those of callers; at most `max`.
pub(super) fn named(limiter: &RateLimiter, policy: &Policy, max: usize) -> Vec<Row> {
    let guard = limiter.overrides_guard();
    let Some(rows) = guard.as_ref().and_then(|guard| guard.limit(policy)) else { return Vec::new() };
    rows.named_rows(max).into_iter().map(|(name, in_force)| row(&in_force, Some(name))).collect()
}

/// The policies that the limiter was given, so that overrides may name them.
pub(super) fn given_policies(limiter: &RateLimiter) -> Vec<Policy> {
    limiter.given_policies()
}

/// The overrides as a whole. `None` if there have not been any.
pub(super) fn overview(limiter: &RateLimiter) -> Option<OverridesView> {
    let snapshot = limiter.overrides_snapshot()?;
    let (source, (limits, rows)) = snapshot.summary();
    let rejected = limiter.rejected_overrides().map(|error| error.to_string());
    Some(OverridesView { source: source.to_owned(), limits, rows, rejected })
}

fn row(in_force: &InForce<'_>, name: Option<String>) -> Row {
    let overridden = Field::ALL.iter().map(|field| (field.as_str(), origin(in_force.origin_of(*field))));
    Row {
        origin: origin(in_force.origin()),
        name,
        policy: in_force.policy().clone(),
        is_off: in_force.is_off(),
        overridden: overridden.filter(|(_, origin)| *origin != Origin::Program).collect(),
    }
}

fn origin(origin: overrides::Origin) -> Origin {
    match origin {
        overrides::Origin::Limit => Origin::Limit,
        overrides::Origin::Plan => Origin::Plan,
        overrides::Origin::Caller => Origin::Caller,
        _ => Origin::Program,
    }
}
