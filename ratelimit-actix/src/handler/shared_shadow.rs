//! Rules between all limits of the program, checked when it runs, because each handler compiles by itself: a shadow limit needs a
//! count of its own.

use std::fmt;
use std::ptr;
use std::sync::LazyLock;

use ratelimit_core::{Mode, Policy};

use super::charged_twice::{self, ChargedTwice};
use super::limit::HandlerLimit;
use super::registry::{DeclaredLimit, declared_limits};
use crate::quotas::share_count;

/// Limits of the program that must not share a count, but do: the error of [`check_declared_limits`].
///
/// `Display` names the places of both, one pair on a line.
#[derive(Clone, thiserror::Error)]
#[error("{}", lines(.pairs, .charged_twice))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
    charged_twice: Vec<ChargedTwice>,
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

    /// Each two limits of one handler that charge one count, so that a request is charged twice.
    pub fn charged_twice(&self) -> impl ExactSizeIterator<Item = (&DeclaredLimit, &DeclaredLimit)> {
        self.charged_twice.iter().map(|pair| (&pair.first, &pair.second))
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

fn lines(pairs: &[SharedCount], charged_twice: &[ChargedTwice]) -> String {
    let lines = pairs.iter().map(ToString::to_string).chain(charged_twice.iter().map(ToString::to_string));
    lines.collect::<Vec<_>>().join("\n")
}

/// Checks the rules between limits that the compiler cannot see:
///
/// * A [shadow limit](Mode::Shadow) needs a count of its own, because it must not change what an enforced limit of any handler
///   decides. Without this call, the first request to such a handler logs the error. The shadow limit does not apply then, so that
///   it denies nothing.
/// * Two limits of one handler need different counts, because they would charge a request twice. The compiler compares limits that
///   are written in the attribute; this function also compares policies by path and constants. It takes limits with another `by`
///   for different counts, and leaves out limits with `skip`, which may apply to different requests.
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
    let charged_twice = charged_twice::find(&limits);
    let pairs = shadows_with_shared_count(limits);
    if pairs.is_empty() && charged_twice.is_empty() {
        return Ok(());
    }
    Err(DeclaredLimitsError { pairs, charged_twice })
}

/// Each shadow limit that has the count of an enforced limit.
fn shadows_with_shared_count(limits: Vec<DeclaredLimit>) -> Vec<SharedCount> {
    let (shadow, enforced): (Vec<_>, Vec<_>) =
        limits.into_iter().partition(|limit| limit.mode() == Mode::Shadow);
    let with_shared_count = |shadow: DeclaredLimit| {
        let other = enforced.iter().find(|other| counts_together(shadow.limit(), other.limit()))?;
        Some(SharedCount { shadow, enforced: *other })
    };
    shadow.into_iter().filter_map(with_shared_count).collect()
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
        let pairs = shadows_with_shared_count(declared_limits());
        for pair in &pairs {
            tracing::error!(
                help = "ratelimit_actix::guide::messages#shadow-without-a-count-of-its-own",
                "{pair}; until then the shadow limit does not apply"
            );
        }
        pairs.iter().map(|pair| pair.shadow.limit()).collect()
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
