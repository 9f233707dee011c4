//! What requests see of overrides without the feature `overrides`: none, and the compiler knows it.

use super::in_force::{InForce, OverridesStatus};
use crate::policy::Policy;

/// As with the feature.
#[derive(Debug, Default)]
pub(crate) struct Current;

/// As with the feature.
#[derive(Debug)]
pub struct OverridesGuard;

#[allow(clippy::unused_self, reason = "as with the feature")]
impl OverridesGuard {
    /// `None`.
    #[inline]
    pub const fn limit(&self, _: &Policy) -> Option<InForce<'_>> {
        None
    }
}

#[allow(clippy::unused_self, reason = "as with the feature")]
impl Current {
    pub(crate) const fn guard(&self) -> OverridesGuard {
        OverridesGuard
    }

    pub(crate) const fn status(&self) -> Option<OverridesStatus> {
        None
    }

    pub(crate) const fn given_policies(&self) -> Vec<Policy> {
        Vec::new()
    }
}
