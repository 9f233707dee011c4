//! The policies that were passed to the builder, which overrides may name beside the limits of attributes.

use std::borrow::Borrow;

use parking_lot::RwLock;

use super::check::{KnownLimit, known_limits};
use crate::policy::Policy;

/// Policies of one builder.
#[derive(Debug, Default)]
pub(crate) struct KnownPolicies(RwLock<Vec<KnownLimit>>);

impl KnownPolicies {
    pub(crate) fn add(&self, policies: impl IntoIterator<Item: Borrow<Policy>>) {
        self.0.write().extend(policies.into_iter().map(KnownLimit::of_policy));
    }

    /// Every declared limit, and these policies.
    pub(super) fn and_declared(&self) -> Vec<KnownLimit> {
        known_limits(&self.0.read())
    }

    pub(super) fn list(&self) -> Vec<Policy> {
        self.0.read().iter().map(|known| known.policy.clone()).collect()
    }
}
