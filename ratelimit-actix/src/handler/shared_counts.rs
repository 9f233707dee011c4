//! Rules between limits that share a count: checked when the program runs, because each handler compiles by itself, and because the
//! compiler sees no policies by path.

use std::fmt;

use ratelimit_core::__private_0_1::state_id;

use super::registry::{DeclaredLimit, declared_limits};

/// Limits of the program that share a count, but must not: the error of [`check_declared_limits`].
///
/// `Display` has a line for each pair, with the places of both.
#[derive(Clone, thiserror::Error)]
#[error("{}", lines(.pairs))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
}

/// Two limits that share a count, but must not. `Display` tells why, and what to change.
#[derive(Clone, Copy, Debug)]
pub struct SharedCount {
    first: DeclaredLimit,
    second: DeclaredLimit,
    rule: SharedCountRule,
}

/// Why two limits must not share a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedCountRule {
    /// Both are of one handler, and would charge each request twice.
    OneChargePerRequest,
    /// One [leases](ratelimit_core::PolicyBuilder::lease) a token bucket and the other does not: its refunds would free units
    /// that are held.
    LeasedByAll,
}

impl DeclaredLimitsError {
    /// The pairs, each in the order of the program's limits.
    pub fn pairs(&self) -> &[SharedCount] {
        &self.pairs
    }
}

impl SharedCount {
    /// The limit that may keep its count.
    pub const fn first(&self) -> &DeclaredLimit {
        &self.first
    }

    /// The limit that needs another count: the second one of a handler, or the one without a lease.
    pub const fn second(&self) -> &DeclaredLimit {
        &self.second
    }

    /// Why they must not share a count.
    pub const fn rule(&self) -> SharedCountRule {
        self.rule
    }
}

impl fmt::Debug for DeclaredLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second, key) = (place(&self.first), place(&self.second), self.second.policy().key());
        match self.rule {
            SharedCountRule::OneChargePerRequest if self.second.policy().is_concurrency() => write!(
                f,
                "two limits of {second} both count in `{key}`, so a request holds two slots; remove one, or give it another key"
            ),
            SharedCountRule::OneChargePerRequest => write!(
                f,
                "two limits of {second} both count in `{key}`, so a request is charged twice; remove one, or give it another key \
                 or window"
            ),
            SharedCountRule::LeasedByAll => write!(
                f,
                "the limit of {second} has no lease, and that of {first} leases the same token bucket, whose units cannot be \
                 refunded; set `lease` for both, or give one another key than `{key}`"
            ),
        }
    }
}

fn place(limit: &DeclaredLimit) -> String {
    format!("`{}::{}` ({}:{})", limit.module(), limit.handler(), limit.file(), limit.line())
}

fn lines(pairs: &[SharedCount]) -> String {
    pairs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks the rules between limits that the compiler cannot see:
///
/// * Two limits of one handler need different counts, because they would charge a request twice. The compiler compares limits that
///   are written in the attribute; this function also compares policies by path and constants. It takes limits with another `by`
///   for different counts, and leaves out limits with `skip`, which may apply to different requests.
/// * If one limit over a token bucket sets a [lease](ratelimit_core::PolicyBuilder::lease), every limit over that bucket has to.
///   The refunds of the others would free units that are held. A bucket whose `max` is computed for each request is taken for
///   another one.
///
/// Call it at the start of the program or in a test.
///
/// # Errors
///
/// [`DeclaredLimitsError`] with all such limits, and their places in the source.
///
/// # Examples
///
/// ```
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     ratelimit_actix::check_declared_limits()?;
///     Ok(())
/// }
/// ```
pub fn check_declared_limits() -> Result<(), DeclaredLimitsError> {
    let limits = declared_limits();
    let rules = [
        (SharedCountRule::OneChargePerRequest, is_charged_by_both as fn(&_, &_) -> _),
        (SharedCountRule::LeasedByAll, breaks_lease_rule),
    ];
    let mut pairs = Vec::new();
    for (rule, is_broken) in rules {
        for (index, second) in limits.iter().enumerate() {
            // The limits of a handler have an order.
            let others =
                if rule == SharedCountRule::OneChargePerRequest { &limits[..index] } else { &limits[..] };
            let first = others.iter().find(|first| is_broken(first, second));
            pairs.extend(first.map(|first| SharedCount { first: *first, second: *second, rule }));
        }
    }
    if pairs.is_empty() { Ok(()) } else { Err(DeclaredLimitsError { pairs }) }
}

/// With `skip`, two limits may apply to different requests.
fn is_charged_by_both(first: &DeclaredLimit, second: &DeclaredLimit) -> bool {
    // The compiler has compared the code of a computed `max`.
    first.is_of_handler_of(second)
        && first.by() == second.by()
        && ![first, second].into_iter().any(|limit| limit.skips() || is_unknown_bucket(limit))
        && counts_together(first, second)
}

fn breaks_lease_rule(leased: &DeclaredLimit, other: &DeclaredLimit) -> bool {
    leased.policy().lease().is_some()
        && !leased.policy().is_refundable()
        && other.policy().lease().is_none()
        && !is_unknown_bucket(other)
        && counts_together(leased, other)
}

/// Whether the count depends on a `max` that is computed for each request.
fn is_unknown_bucket(limit: &DeclaredLimit) -> bool {
    limit.max().is_none() && limit.policy().algorithm().has_burst()
}

/// Only the count of a token bucket depends on `max`, so a computed one matters to [unknown buckets](is_unknown_bucket) only.
fn counts_together(one: &DeclaredLimit, other: &DeclaredLimit) -> bool {
    state_id(one.policy()) == state_id(other.policy())
}
