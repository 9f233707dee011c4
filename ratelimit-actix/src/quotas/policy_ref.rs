//! The policy of a quota, shared instead of copied with every request.

use std::sync::Arc;

use ratelimit_core::Policy;

/// A policy of an attribute, in its `static`.
#[derive(Debug)]
pub(crate) struct NamedPolicy {
    pub(crate) policy: Policy,
    /// The name that clients see, if it is not the policy's.
    pub(crate) public_name: Option<&'static str>,
}

impl NamedPolicy {
    fn public_name(&self) -> &str {
        self.public_name.unwrap_or(self.policy.name())
    }
}

/// Where a policy is kept.
#[derive(Clone, Debug)]
pub(crate) enum PolicyRef {
    /// In a `static` of the program.
    Static(&'static NamedPolicy),
    /// In a `static`, but with a `max` computed for this request.
    Dynamic(&'static NamedPolicy, Arc<Policy>),
    /// In middleware.
    Shared(Arc<Policy>),
}

impl PolicyRef {
    pub(crate) fn policy(&self) -> &Policy {
        match self {
            Self::Static(named) => &named.policy,
            Self::Dynamic(_, policy) | Self::Shared(policy) => policy,
        }
    }

    /// The name in header fields and response bodies.
    pub(crate) fn public_name(&self) -> &str {
        match self {
            Self::Static(named) | Self::Dynamic(named, _) => named.public_name(),
            Self::Shared(policy) => policy.name(),
        }
    }
}
