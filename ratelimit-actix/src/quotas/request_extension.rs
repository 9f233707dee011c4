//! Where a request keeps what was decided about it: in itself, and shared only once somebody holds on to it.

use std::mem;

use actix_web::dev::Extensions;
use actix_web::{HttpMessage, HttpRequest};
use smallvec::SmallVec;

use crate::quotas::request_deadline::Waited;

use super::{Decided, Group, Quota, Quotas};

/// An extension of the request.
#[allow(clippy::large_enum_variant, reason = "extensions are boxed, and the large one is the usual one")]
enum Kept {
    /// One decision, which nobody has asked for. Most requests end like this: without an allocation for sharing, and
    /// without a count of the limiter's holders, on which all threads would meet.
    Own(Group),
    /// Middleware, an argument of the handler or an error has it as well.
    Shared(Quotas),
}

/// Adds what the nearest limiter has decided.
pub(super) fn add(req: &HttpRequest, group: Group) {
    let mut extensions = req.extensions_mut();
    match shared(req, &mut extensions) {
        Some(quotas) => quotas.push(Decided::new(req, group)),
        None => drop(extensions.insert(Kept::Own(group))),
    }
}

/// What was decided, to hold on to; nothing if nothing was.
///
/// Whoever decides without sharing is the handler. Nothing is added around a request after that, so the nearest limiter is
/// still the one that has decided.
pub(super) fn share(req: &HttpRequest) -> Option<Quotas> {
    shared(req, &mut req.extensions_mut())
}

fn shared(req: &HttpRequest, extensions: &mut Extensions) -> Option<Quotas> {
    if let Kept::Shared(quotas) = extensions.get::<Kept>()? {
        return Some(quotas.clone());
    }
    let quotas = Quotas::new(Waited::of(extensions));
    let kept = extensions.get_mut::<Kept>()?;
    if let Kept::Own(group) = mem::replace(kept, Kept::Shared(quotas.clone())) {
        quotas.push(Decided::new(req, group));
    }
    Some(quotas)
}

/// Calls `look` with what was decided, if anything was.
pub(super) fn look<R>(req: &HttpRequest, look: impl FnOnce(&[&Quota]) -> R) -> Option<R> {
    match req.extensions().get::<Kept>()? {
        Kept::Own(group) => Some(match &group[..] {
            [quota] => look(&[quota]),
            group => look(&group.iter().collect::<SmallVec<[&Quota; 4]>>()),
        }),
        Kept::Shared(quotas) => Some(quotas.with(look)),
    }
}
