//! The policy of a quota, shared instead of copied with every request.

use std::sync::Arc;

use ratelimit_core::Policy;

/// The policy of an attribute.
#[derive(Debug)]
pub(crate) struct NamedPolicy {
    source: PolicySource,
    /// The name that clients see, if it is not the policy's.
    public_name: Option<&'static str>,
}

/// Where the policy of an attribute is written.
#[derive(Debug)]
enum PolicySource {
    /// In the arguments of the attribute.
    Own(Policy),
    /// In a `static` of the user, which several attributes may name.
    Shared(&'static Policy),
}

impl NamedPolicy {
    /// A policy that the arguments of one attribute describe.
    pub(crate) const fn own(policy: Policy) -> Self {
        Self { source: PolicySource::Own(policy), public_name: None }
    }

    /// A policy in a `static` of the user.
    pub(crate) const fn shared(policy: &'static Policy) -> Self {
        Self { source: PolicySource::Shared(policy), public_name: None }
    }

    /// Sets the name that clients see.
    pub(crate) const fn set_public_name(&mut self, name: &'static str) {
        self.public_name = Some(name);
    }

    pub(crate) const fn policy(&self) -> &Policy {
        match &self.source {
            PolicySource::Own(policy) => policy,
            PolicySource::Shared(policy) => policy,
        }
    }

    pub(crate) fn public_name(&self) -> &str {
        self.public_name.unwrap_or_else(|| self.policy().name())
    }
}

/// Where a policy is kept.
#[derive(Clone, Debug)]
pub(crate) enum PolicyRef {
    /// In a `static` of the program.
    Static(&'static NamedPolicy),
    /// In a `static`, but with the numbers of this request: a computed `max`, or overrides.
    Dynamic(&'static NamedPolicy, Arc<Policy>),
    /// In middleware.
    Shared(Arc<Policy>),
}

impl PolicyRef {
    pub(crate) fn policy(&self) -> &Policy {
        match self {
            Self::Static(named) => named.policy(),
            Self::Dynamic(_, policy) | Self::Shared(policy) => policy,
        }
    }

    /// Replaces the policy, such as by that of overrides. The limit keeps its name.
    pub(crate) fn replace(&mut self, policy: Arc<Policy>) {
        *self = match self {
            Self::Static(named) | Self::Dynamic(named, _) => Self::Dynamic(named, policy),
            Self::Shared(_) => Self::Shared(policy),
        };
    }

    /// The name in header fields and response bodies.
    pub(crate) fn public_name(&self) -> &str {
        match self {
            Self::Static(named) | Self::Dynamic(named, _) => named.public_name(),
            Self::Shared(policy) => policy.name(),
        }
    }

    /// Whether this is the name of the limit in responses, or of its policy.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.public_name() == name || self.policy().name() == name
    }
}
