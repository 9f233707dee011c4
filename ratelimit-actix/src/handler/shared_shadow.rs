//! Rules between limits that share a count: checked when the program runs, because each handler compiles by itself. Here are shadow
//! limits with the count of an enforced limit.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;

use ratelimit_core::{Mode, Policy};

use super::limit::HandlerLimit;
use super::registry::{DeclaredLimit, declared_limits};
use super::shared_bucket::{SharedBucket, partly_leased_buckets};
use crate::quotas::share_count;

/// Limits of the program whose shared count is a mistake: the error of [`check_declared_limits`].
///
/// `Display` names both places of each, one pair on a line.
#[derive(Clone, thiserror::Error)]
#[error("{}", lines_of(.pairs, .buckets))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
    buckets: Vec<SharedBucket>,
}

/// A shadow limit, and an enforced limit with the same count.
#[derive(Clone, Copy)]
struct SharedCount {
    shadow: DeclaredLimit,
    enforced: DeclaredLimit,
}

impl DeclaredLimitsError {
    /// Each shadow limit, with an enforced limit that has the same count.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&DeclaredLimit, &DeclaredLimit)> {
        self.pairs.iter().map(|pair| (&pair.shadow, &pair.enforced))
    }

    /// Each limit with a lease over a token bucket, with a limit without one over the same bucket.
    pub fn partly_leased_buckets(&self) -> impl ExactSizeIterator<Item = (&DeclaredLimit, &DeclaredLimit)> {
        self.buckets.iter().map(|bucket| (&bucket.leased, &bucket.other))
    }
}

impl fmt::Debug for DeclaredLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shadow, enforced } = self;
        write!(
            f,
            "the shadow limit of {} has the count of the enforced limit of {}; give it another key than `{}`",
            place(shadow),
            place(enforced),
            shadow.key()
        )
    }
}

/// Where a limit is in the source.
pub(super) fn place(limit: &DeclaredLimit) -> String {
    format!("`{}::{}` ({}:{})", limit.module(), limit.handler(), limit.file(), limit.line())
}

fn lines_of(pairs: &[SharedCount], buckets: &[SharedBucket]) -> String {
    let pairs = pairs.iter().map(SharedCount::to_string);
    let lines: Vec<String> = pairs.chain(buckets.iter().map(SharedBucket::to_string)).collect();
    lines.join("\n")
}

/// Checks the rules between the limits of different handlers, which the compiler cannot see:
///
/// * A [shadow limit](Mode::Shadow) needs a count of its own, because it must not change what an enforced limit decides.
/// * If one limit over a token bucket sets a [lease](ratelimit_core::PolicyBuilder::lease), every limit over that bucket has to.
///   The refunds of the others would free units that are held.
///
/// Call it at the start of the program or in a test. Without the call, the first request to a handler with such a shadow limit
/// logs the error. The shadow limit does not apply then, so that it denies nothing.
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
    let buckets = partly_leased_buckets(&limits);
    let (shadow, enforced): (Vec<_>, Vec<_>) =
        limits.into_iter().partition(|limit| limit.mode() == Mode::Shadow);
    let with_shared_count = |shadow: DeclaredLimit| {
        let other = enforced.iter().find(|other| counts_together(shadow.limit(), other.limit()))?;
        Some(SharedCount { shadow, enforced: *other })
    };
    let pairs: Vec<SharedCount> = shadow.into_iter().filter_map(with_shared_count).collect();
    if pairs.is_empty() && buckets.is_empty() { Ok(()) } else { Err(DeclaredLimitsError { pairs, buckets }) }
}

pub(super) fn counts_together(one: &HandlerLimit, other: &HandlerLimit) -> bool {
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
        for pair in &error.pairs {
            tracing::error!(
                help = "ratelimit_actix::guide::messages#shadow-without-a-count-of-its-own",
                "{pair}; until then the shadow limit does not apply"
            );
        }
        error.pairs.iter().map(|pair| pair.shadow.limit()).collect()
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
