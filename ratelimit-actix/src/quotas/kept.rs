//! Where a request keeps what was decided about it: in itself, and shared only once somebody holds on to it.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use actix_web::{HttpMessage, HttpRequest};
use smallvec::SmallVec;

use super::{Decided, List, Quotas};

/// An extension of the request.
enum Kept {
    /// Nobody has asked for it. Most requests end like this, and do without the allocation for sharing.
    Own(List),
    /// Middleware, an argument of the handler or an error has it as well.
    Shared(Quotas),
}

/// Adds what was decided.
pub(super) fn add(req: &HttpRequest, decided: Decided) {
    let mut extensions = req.extensions_mut();
    match extensions.get_mut::<Kept>() {
        Some(Kept::Own(list)) => list.push(decided),
        Some(Kept::Shared(quotas)) => quotas.0.borrow_mut().push(decided),
        None => drop(extensions.insert(Kept::Own(SmallVec::from_buf([decided])))),
    }
}

/// What was decided, to hold on to; nothing if nothing was.
pub(super) fn share(req: &HttpRequest) -> Option<Quotas> {
    let mut extensions = req.extensions_mut();
    let kept = extensions.get_mut::<Kept>()?;
    let quotas = match kept {
        Kept::Own(list) => Quotas(Rc::new(RefCell::new(mem::take(list)))),
        Kept::Shared(quotas) => return Some(quotas.clone()),
    };
    *kept = Kept::Shared(quotas.clone());
    Some(quotas)
}

/// Calls `look` with what was decided, if anything was.
pub(super) fn look<R>(req: &HttpRequest, look: impl FnOnce(&List) -> R) -> Option<R> {
    match req.extensions().get::<Kept>()? {
        Kept::Own(list) => Some(look(list)),
        Kept::Shared(quotas) => Some(look(&quotas.0.borrow())),
    }
}
