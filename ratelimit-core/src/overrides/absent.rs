//! What requests see of overrides without the feature `overrides`: none, and the compiler knows it.

use super::in_force::{InForce, OverridesStatus};
use crate::absent::absent;
use crate::policy::Policy;

absent! {
    pub(crate) struct Current {
        pub(crate) fn guard(&self) -> OverridesGuard;
        pub(crate) fn status(&self) -> Option<OverridesStatus>;
        pub(crate) fn given_policies(&self) -> Vec<Policy>;
    }
}

absent! {
    /// As with the feature.
    pub struct OverridesGuard {
        /// `None`.
        pub fn limit(&self, _: &Policy) -> Option<InForce<'_>>;
    }
}
