//! How an argument is written. The function that reads its value gets this.

use crate::parse::kind::Kind;

/// What an argument describes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A policy, whose builder has a setter of this name. With `policy = PATH` it is set there.
    Policy,
    /// A policy as well, but it has no setter: it is part of the builder's start or of another argument.
    Part,
    Limit,
    Handler,
}

/// How an argument is written.
pub(crate) struct Usage {
    pub(crate) name: &'static str,
    pub(crate) of: Of,
    pub(crate) example: &'static str,
    /// Names of the same argument in other rate limiters, in lower case and without underscores.
    pub(crate) aliases: &'static [&'static str],
    /// Why `#[concurrency_limit]` does not have it.
    pub(crate) rate_only: Option<&'static str>,
}

impl Usage {
    /// Whether the attribute has this argument.
    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        kind == Kind::Rate || self.rate_only.is_none()
    }

    /// Whether `policy` replaces it.
    pub(crate) fn is_of_policy(&self) -> bool {
        matches!(self.of, Of::Policy | Of::Part)
    }
}
