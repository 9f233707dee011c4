//! Shadow limits with the count of an enforced limit: found when the program runs, because each handler compiles by itself.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;

use ratelimit_core::{Mode, Policy};

use super::limit::HandlerLimit;
use super::registry::{DeclaredLimit, declared_limits};
use crate::quotas::share_count;

/// Shadow limits of the program that share a count with an enforced limit: the error of [`check_declared_limits`].
///
/// `Display` names both places of each, one pair on a line.
#[derive(Clone, thiserror::Error)]
#[error("{}", pairs_text(.pairs))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
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
}

impl fmt::Debug for DeclaredLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shadow, enforced } = self;
        let place = |limit: &DeclaredLimit| {
            format!("`{}::{}` ({}:{})", limit.module(), limit.handler(), limit.file(), limit.line())
        };
        write!(
            f,
            "the shadow limit of {} has the count of the enforced limit of {}; give it another key than `{}`",
            place(shadow),
            place(enforced),
            shadow.key()
        )
    }
}

fn pairs_text(pairs: &[SharedCount]) -> String {
    let lines: Vec<String> = pairs.iter().map(SharedCount::to_string).collect();
    lines.join("\n")
}

/// Checks the rules between the limits of different handlers, which the compiler cannot see: a [shadow limit](Mode::Shadow)
/// needs a count of its own, because it must not change what an enforced limit decides.
///
/// Call it at the start of the program or in a test. Without the call, the first request to such a handler logs the error. The
/// shadow limit does not apply then, so that it denies nothing.
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
    let (shadow, enforced): (Vec<_>, Vec<_>) =
        limits.into_iter().partition(|limit| limit.mode() == Mode::Shadow);
    let with_shared_count = |shadow: DeclaredLimit| {
        let other = enforced.iter().find(|other| counts_together(shadow.limit(), other.limit()))?;
        Some(SharedCount { shadow, enforced: *other })
    };
    let pairs: Vec<SharedCount> = shadow.into_iter().filter_map(with_shared_count).collect();
    if pairs.is_empty() { Ok(()) } else { Err(DeclaredLimitsError { pairs }) }
}

fn counts_together(one: &HandlerLimit, other: &HandlerLimit) -> bool {
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
