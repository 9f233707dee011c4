//! What a client sees of limits.

mod body;
mod headers;
mod rejected;
mod rejection;
mod style;

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;
use ratelimit_core::Slots;

pub(crate) use self::body::CustomBody;
pub use self::body::{BodyStyle, RejectionInfo};
pub use self::headers::HeaderStyle;
pub(crate) use self::headers::{field_names, number, write};
pub use self::rejected::Rejected;
pub use self::rejection::{MissingCaller, RateLimited, Rejection, Unavailable};
pub(crate) use self::style::{RequestStyle, StyleSettings, forbid_storing};

/// The body of a response, and what is dropped after it.
struct KeptBody<T> {
    body: BoxBody,
    _kept: T,
}

/// Keeps `kept` until the body has been sent or dropped.
pub(crate) fn keep<T: Unpin + 'static>(body: BoxBody, kept: T) -> BoxBody {
    BoxBody::new(KeptBody { body, _kept: kept })
}

/// Keeps the slots that a request holds until its response has been sent or dropped. Without slots, the
/// response stays as it is.
#[inline]
pub(crate) fn hold(response: HttpResponse, slots: Slots) -> HttpResponse {
    if slots.is_empty() { response } else { response.map_body(|_, body| keep(body, slots)) }
}

/// `try_into_bytes` stays the default: it takes no bytes out, so what is kept is not dropped before they are
/// sent.
impl<T: Unpin> MessageBody for KeptBody<T> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
