//! Limits that were not checked for a request: their names are those of limits of the request all the same.

use actix_web::dev::Extensions;
use actix_web::{HttpMessage, HttpRequest};
use smallvec::SmallVec;

use crate::applied_limit::LimitRef;

/// What was left out of one request.
#[derive(Clone, Debug, Default)]
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
        req.extensions_mut().get_or_insert_with(Self::default).all = true;
    }

    /// Notes that one limit is not checked.
    #[cold]
    pub(crate) fn note(req: &HttpRequest, limit: LimitRef) {
        req.extensions_mut().get_or_insert_with(Self::default).limits.push(limit);
    }

    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
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
