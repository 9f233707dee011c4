//! What is wrong with the limits of all attributes together.
//!
//! Limits of one handler that share a count are found when the program runs, because each handler compiles by
//! itself, and because the compiler sees no policies by path.

use std::{fmt, ptr};

use ratelimit_core::__private_0_1::PrivatePolicy as _;

use super::{DeclaredLimit, declared_limits};

/// Limits of one handler that share a count, and would charge each request twice: the error of
/// [`check_declared_limits`].
///
/// `Display` has a line for each pair, with the places of both.
#[derive(Clone, thiserror::Error)]
#[error("{}", lines(.pairs))]
pub struct DeclaredLimitsError {
    pairs: Vec<SharedCount>,
}

/// Two limits of one handler that share a count. `Display` says what to change.
#[derive(Clone, Copy, Debug)]
pub struct SharedCount {
    first: DeclaredLimit,
    second: DeclaredLimit,
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

    /// The limit that needs another count.
    pub const fn second(&self) -> &DeclaredLimit {
        &self.second
    }
}

impl fmt::Debug for DeclaredLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, key) = (self.second.place(), self.second.policy().key());
        if self.second.policy().is_concurrency() {
            return write!(
                f,
                "two limits of {second} both count in `{key}`, so a request holds two slots; remove one, or give it another key"
            );
        }
        write!(
            f,
            "two limits of {second} both count in `{key}`, so a request is charged twice; remove one, or give it another key or \
             window"
        )
    }
}

fn lines(pairs: &[SharedCount]) -> String {
    pairs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks what the compiler cannot see: two limits of one handler need different counts, because they would
/// charge a request twice.
///
/// The compiler compares limits that are written in the attribute; this function also compares policies by
/// path and constants. It takes limits with another `by` for different counts, and leaves out limits with
/// `skip`, which may apply to different requests.
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
    let mut pairs = Vec::new();
    for (index, second) in limits.iter().enumerate() {
        // The limits of a handler have an order.
        let first = limits[..index].iter().find(|first| is_charged_by_both(first, second));
        pairs.extend(first.map(|first| SharedCount { first: *first, second: *second }));
    }
    if pairs.is_empty() { Ok(()) } else { Err(DeclaredLimitsError { pairs }) }
}

/// With `skip`, two limits may apply to different requests.
fn is_charged_by_both(first: &DeclaredLimit, second: &DeclaredLimit) -> bool {
    // The compiler has compared the code of a computed `max`.
    ptr::eq(first.declaration, second.declaration)
        && first.by() == second.by()
        && ![first, second].into_iter().any(|limit| limit.skips() || is_unknown_bucket(limit))
        // Only the count of a token bucket depends on `max`, so a computed one matters to unknown buckets
        // only.
        && first.policy().state_id() == second.policy().state_id()
}

/// Whether the count depends on a `max` that is computed for each request.
fn is_unknown_bucket(limit: &DeclaredLimit) -> bool {
    limit.max().is_none() && limit.policy().algorithm().has_burst()
}
