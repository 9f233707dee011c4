//! The overrides of a request: one version for all its limits. Without the feature `overrides` there are none.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;
#[cfg_attr(not(feature = "overrides"), path = "overrides/absent.rs")]
mod request;

pub(crate) use self::request::{LimitRules, RequestOverrides, Rule, expect_pins};

/// Whether a limit rejects no request for which its caller is not known: a shadow limit, or one that is off.
#[inline]
pub(crate) fn is_lenient(rules: Option<&LimitRules>, is_shadow: bool) -> bool {
    rules.map_or(is_shadow, |rules| rules.limit().is_shadow() || rules.limit().is_off())
}
