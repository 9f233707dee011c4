//! Rules between limits that share a count: checked when the program runs, because each handler compiles by itself, and because the
//! compiler sees no policies by path.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;

use ratelimit_core::{Algorithm, Mode, Policy};

use super::limit::HandlerLimit;
use super::registry::{DeclaredLimit, declared_limits};
use crate::quotas::share_count;
use ratelimit_core::__private_0_1::help;

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
    /// One is enforced and the other is a [shadow limit](Mode::Shadow), which must not change what an enforced limit decides.
    ShadowCountsApart,
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

    /// The limit that needs another count: the shadow limit, the second one of a handler, or the one without a lease.
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
        let (first, second, key) = (place(&self.first), place(&self.second), self.second.key());
        match self.rule {
            SharedCountRule::ShadowCountsApart => write!(
                f,
                "the shadow limit of {second} has the count of the enforced limit of {first}; give it another key than `{key}`"
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
/// * A [shadow limit](Mode::Shadow) needs a count of its own, because it must not change what an enforced limit of any handler
///   decides. Without this call, the first request to such a handler logs the error. The shadow limit does not apply then, so that
///   it denies nothing.
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
        (SharedCountRule::ShadowCountsApart, breaks_shadow_rule as fn(&_, &_) -> _),
        (SharedCountRule::OneChargePerRequest, is_charged_by_both),
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

fn breaks_shadow_rule(enforced: &DeclaredLimit, shadow: &DeclaredLimit) -> bool {
    shadow.mode() == Mode::Shadow && enforced.mode() != Mode::Shadow && counts_together(enforced, shadow)
}

/// With `skip`, two limits may apply to different requests. Shadow limits are compared with shadow limits only.
fn is_charged_by_both(first: &DeclaredLimit, second: &DeclaredLimit) -> bool {
    // The compiler has compared the code of a computed `max`.
    first.is_of_handler_of(second)
        && first.mode() == second.mode()
        && first.by() == second.by()
        && ![first, second].into_iter().any(|limit| limit.skips() || is_unknown_bucket(limit))
        && counts_together(first, second)
}

fn breaks_lease_rule(leased: &DeclaredLimit, other: &DeclaredLimit) -> bool {
    leased.algorithm() == Algorithm::TokenBucket
        && leased.policy().lease().is_some()
        && other.policy().lease().is_none()
        && !is_unknown_bucket(other)
        && counts_together(leased, other)
}

/// Whether the count depends on a `max` that is computed for each request.
fn is_unknown_bucket(limit: &DeclaredLimit) -> bool {
    limit.max().is_none() && limit.algorithm() == Algorithm::TokenBucket
}

fn counts_together(one: &DeclaredLimit, other: &DeclaredLimit) -> bool {
    let (one, other) = (one.limit(), other.limit());
    if one.has_dynamic_max() || other.has_dynamic_max() {
        // Only the count of a token bucket depends on `max`, and `max` can become any number.
        let parts = |limit: &HandlerLimit| {
            let policy = limit.policy();
            (policy.algorithm(), policy.window(), policy.sub_windows())
        };
        return one.policy().key() == other.policy().key() && parts(one) == parts(other);
    }
    share_count(one.policy(), other.policy())
}

/// Whether a shadow limit does not apply, because it has the count of an enforced limit. The first call logs all of these.
#[inline]
pub(crate) fn is_left_out(limit: &'static HandlerLimit) -> bool {
    limit.policy().mode() == Mode::Shadow && is_among_left_out(limit)
}

#[cold]
fn is_among_left_out(limit: &'static HandlerLimit) -> bool {
    static LEFT_OUT: LazyLock<Vec<&'static HandlerLimit>> = LazyLock::new(|| {
        let Err(error) = check_declared_limits() else { return Vec::new() };
        let left_out = error.pairs.iter().filter(|pair| pair.rule == SharedCountRule::ShadowCountsApart);
        let log = |pair: &SharedCount| {
            tracing::error!(
                help = help("shadow-without-a-count-of-its-own"),
                "{pair}; until then the shadow limit does not apply"
            );
            pair.second.limit()
        };
        left_out.map(log).collect()
    });
    LEFT_OUT.iter().any(|other| ptr::eq(*other, limit))
}

/// Checks a policy of middleware against the limits of all attributes.
///
/// # Panics
///
/// If one of both is a shadow limit, the other is enforced, and they have the same count.
pub(crate) fn assert_own_count(policy: &Policy) {
    for limit in declared_limits() {
        assert!(
            limit.mode() == policy.mode() || !share_count(limit.limit().policy(), policy),
            "the middleware's limit `{}` and the limit {limit} have one count, and one of them is a shadow limit; give that \
             one a key of its own",
            policy.name()
        );
    }
}
