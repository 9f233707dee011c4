//! The limits that were not checked for a request.

use actix_web::HttpRequest;
use smallvec::SmallVec;

use super::Quotas;
use crate::applied_limit::LimitRef;

/// The limits that were not checked for a request. A handler may select them by name all the same.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    /// Whether no limit is checked: the method is not counted, or the client is exempt.
    all: bool,
    /// Limits that are off, or that `skip` or a missing caller has left out.
    limits: SmallVec<[LimitRef; 1]>,
}

impl LeftOut {
    /// Notes that no limit is checked.
    #[cold]
    pub(crate) fn note_all(req: &HttpRequest) {
        Quotas::of_any(req).decisions.borrow_mut().left_out.all = true;
    }

    /// Notes that one limit is not checked.
    #[cold]
    pub(crate) fn note(req: &HttpRequest, limit: LimitRef) {
        Quotas::of_any(req).decisions.borrow_mut().left_out.limits.push(limit);
    }

    /// Whether a limit of this name may have been left out.
    pub(super) fn includes(&self, name: &str) -> bool {
        self.all || self.limits.iter().any(|limit| limit.is_named(name))
    }

    /// The names of the limits, as far as they are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(|limit| limit.public_name())
    }
}
