//! Warns of a request that is charged twice in one count, by two layers: nested scopes, or a scope and a handler in it.

use ratelimit_core::__private_0_1::{help, is_first, limiter_id};

use super::DecidedGroup;

/// Logs a limit of `group` whose count an `earlier` group has charged, once for each pair of places in the source.
///
/// Not called for a request with one layer of limits.
pub(super) fn note(earlier: &[DecidedGroup], group: &DecidedGroup) {
    let of_limiter = limiter_id(&group.limiter);
    let charged = earlier.iter().filter(|earlier| limiter_id(&earlier.limiter) == of_limiter);
    for outer in charged.flat_map(|earlier| &earlier.quotas) {
        for inner in group.quotas.iter().filter(|inner| inner.shares_count_with(outer)) {
            let places = (outer.place(), inner.place());
            if is_first("charged-twice", places) {
                tracing::warn!(
                    policy = inner.policy().name(),
                    outer = %places.0,
                    inner = %places.1,
                    help = help("charged-twice"),
                    "one request is charged twice in one count, by two layers of limits; remove one of the limits, or give it another key"
                );
            }
        }
    }
}
