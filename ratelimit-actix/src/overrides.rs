//! Overrides in requests: plans, and what the core needs to know of attributes.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;

pub(crate) use ratelimit_core::__private_0_1::{EffectiveRow, LimitRows};

/// Whether a limit rejects no request for which its caller is not known: a shadow limit, or one that is off.
#[inline]
pub(crate) fn is_lenient(rows: Option<&LimitRows>, is_shadow: bool) -> bool {
    rows.map_or(is_shadow, |rows| rows.limit().is_shadow() || rows.limit().is_off())
}
