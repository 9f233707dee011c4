//! Limits of one handler that charge one count twice, which the compiler cannot see: policies by path, and numbers from constants.

use std::fmt;

use ratelimit_core::Algorithm;

use super::registry::DeclaredLimit;
use super::shared_shadow::counts_together;

/// Two limits of one handler with one count.
#[derive(Clone, Copy)]
pub(super) struct ChargedTwice {
    pub(super) first: DeclaredLimit,
    pub(super) second: DeclaredLimit,
}

impl fmt::Display for ChargedTwice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = &self.second;
        write!(
            f,
            "two limits of `{}::{}` ({}:{}) both count in `{}`, so a request is charged twice; remove one, or give it another \
             key or window",
            limit.module(),
            limit.handler(),
            limit.file(),
            limit.line(),
            limit.key()
        )
    }
}

/// Each limit that counts the same callers in the same count as one before it on its handler.
///
/// With `skip`, two limits may apply to different requests. Shadow limits are compared with shadow limits only.
pub(super) fn find(limits: &[DeclaredLimit]) -> Vec<ChargedTwice> {
    let find_first = |(index, second): (usize, &DeclaredLimit)| {
        let first = limits[..index].iter().find(|first| is_charged_by_both(first, second))?;
        Some(ChargedTwice { first: *first, second: *second })
    };
    limits.iter().enumerate().filter_map(find_first).collect()
}

fn is_charged_by_both(first: &DeclaredLimit, second: &DeclaredLimit) -> bool {
    first.is_of_handler_of(second)
        && first.mode() == second.mode()
        && first.by() == second.by()
        && !first.skips()
        && !second.skips()
        && !is_unknown_bucket(first)
        && !is_unknown_bucket(second)
        && counts_together(first.limit(), second.limit())
}

/// Whether the count depends on a `max` that is computed for each request. The compiler has compared the code.
fn is_unknown_bucket(limit: &DeclaredLimit) -> bool {
    limit.max().is_none() && limit.algorithm() == Algorithm::TokenBucket
}
