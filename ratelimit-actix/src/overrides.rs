//! The overrides of a request: one version for all its limits. Without the feature `overrides` there are none.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;
#[cfg_attr(not(feature = "overrides"), path = "overrides/absent.rs")]
mod request;

pub(crate) use self::request::{EffectiveRow, LimitRows, RequestOverrides, expect_pins};

/// Whether a limit rejects no request for which its caller is not known: a shadow limit, or one that is off.
#[inline]
pub(crate) fn is_lenient(rows: Option<&LimitRows>, is_shadow: bool) -> bool {
    rows.map_or(is_shadow, |rows| rows.limit().is_shadow() || rows.limit().is_off())
}
