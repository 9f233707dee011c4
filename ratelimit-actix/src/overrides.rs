//! Overrides in requests: plans, and what the core needs to know of attributes.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;

pub(crate) use ratelimit_core::__private_0_1::LimitRows;
use ratelimit_core::{InForce, Mode, Policy};

/// Whether a limit rejects no request for which its caller is not known: a shadow limit, or one that is off.
#[inline]
pub(crate) fn is_lenient(policy: &Policy, rows: Option<&LimitRows>) -> bool {
    let limit = rows.map(LimitRows::limit);
    limit.is_some_and(InForce::is_off) || limit.map_or(policy, InForce::policy).mode() == Mode::Shadow
}
