//! Limits of a request that were not checked: extensions of the request, so that their names are known all the same.

use actix_web::dev::Extensions;
use actix_web::{HttpMessage, HttpRequest};
use smallvec::SmallVec;

use super::policy_ref::PolicyRef;

/// No limit is checked: the method is not counted, or the client is exempt.
struct NotCounted;

/// Limits that `skip` or a missing caller has left out.
struct Skipped(SmallVec<[PolicyRef; 1]>);

/// What was left out of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    all: bool,
    limits: SmallVec<[PolicyRef; 1]>,
}

/// Notes that no limit is checked.
#[cold]
pub(crate) fn note_not_counted(req: &HttpRequest) {
    req.extensions_mut().insert(NotCounted);
}

/// Notes that one limit is not checked.
#[cold]
pub(crate) fn note_skipped(req: &HttpRequest, policy: PolicyRef) {
    let mut extensions = req.extensions_mut();
    match extensions.get_mut::<Skipped>() {
        Some(Skipped(limits)) => limits.push(policy),
        None => drop(extensions.insert(Skipped(SmallVec::from_buf([policy])))),
    }
}

impl LeftOut {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let limits = extensions.get::<Skipped>().map(|Skipped(limits)| limits.clone()).unwrap_or_default();
        Self { all: extensions.contains::<NotCounted>(), limits }
    }

    /// Whether a limit of this name may have been left out.
    pub(super) fn includes(&self, name: &str) -> bool {
        self.all || self.limits.iter().any(|policy| policy.is_named(name))
    }

    /// The names of the limits, as far as they are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(PolicyRef::public_name)
    }
}
