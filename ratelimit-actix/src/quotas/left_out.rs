//! The limits that were not checked for a request.

use smallvec::SmallVec;

use crate::applied_limit::LimitRef;

/// The limits that were not checked for a request. A handler may select them by name all the same.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Whether no limit is checked: the method is not counted, or the client is exempt.
    pub(super) all: bool,
    /// Limits that are off, or that `skip` or a missing caller has left out.
    pub(super) limits: SmallVec<[LimitRef; 1]>,
}

impl LeftOut {
    /// Whether a limit of this name may have been left out.
    pub(super) fn includes(&self, name: &str) -> bool {
        self.all || self.limits.iter().any(|limit| limit.is_named(name))
    }

    /// The names of the limits, as far as they are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(|limit| limit.public_name())
    }
}
