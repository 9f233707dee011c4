//! A body that keeps something until it has been sent or dropped: slots, or the payload of a rejected request, whose small body is
//! drained so that its connection stays usable.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{self, BodySize, BodyStream, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::Version;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::rt::time::timeout;
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
pub(crate) use ratelimit_core::Slots as Held;

/// The body of a response, and what is dropped after it.
struct KeptBody<T> {
    body: BoxBody,
    _kept: T,
}

/// Keeps `kept` until the body has been sent or dropped.
pub(crate) fn keep<T: Unpin + 'static>(body: BoxBody, kept: T) -> BoxBody {
    BoxBody::new(KeptBody { body, _kept: kept })
}

/// Holds what a request holds until its response has been sent or dropped. A response for which nothing is held stays as it is.
#[inline]
pub(crate) fn hold(response: HttpResponse, held: Held) -> HttpResponse {
    if held.is_empty() { response } else { response.map_body(|_, body| keep(body, held)) }
}

/// `try_into_bytes` stays the default, by which nothing takes the bytes out and drops what is kept before they are sent.
impl<T: Unpin> MessageBody for KeptBody<T> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

/// Largest body, in bytes, that is read and dropped.
const MAX_DRAIN_BYTES: usize = 16 * 1024;

/// Longest time to read it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a small body to its end and drops it, so that the connection can carry the next request. Over HTTP/2, the stream is then
/// not reset after the response, which some clients take for a lost one.
///
/// Actix closes a connection with an unread body, and resets a stream. That is right for a large body, which may never end. A small
/// body has usually arrived, and a new connection would cost both sides more. A declared length above the maximum is not read.
///
/// Returns the payload of a chunked body that was not read to its end. If it is dropped, Actix reads and drops chunks as long as the
/// client sends them. [Kept](keep) until the response is written, it closes the connection after the response.
pub(crate) async fn drain(req: &HttpRequest, mut payload: Payload) -> Option<Payload> {
    let is_chunked = req.headers().contains_key(TRANSFER_ENCODING);
    let length = req.headers().get(CONTENT_LENGTH);
    let is_undeclared = is_chunked || length.is_none() && req.version() == Version::HTTP_2;
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if !is_undeclared && !length.is_some_and(|length| (1..=MAX_DRAIN_BYTES).contains(&length)) {
        return None;
    }
    let read =
        timeout(DRAIN_TIMEOUT, body::to_bytes_limited(BodyStream::new(&mut payload), MAX_DRAIN_BYTES)).await;
    // Errors do not matter: the request is rejected anyway.
    let is_ended = matches!(read, Ok(Ok(Ok(_))));
    (is_chunked && !is_ended).then_some(payload)
}
