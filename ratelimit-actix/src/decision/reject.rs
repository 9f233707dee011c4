//! The response to a rejected request, whose small body is read first, so that its connection stays usable.

use std::time::Duration;

use actix_web::body::{self, BodyStream};
use actix_web::dev::Payload;
use actix_web::http::Version;
use actix_web::http::header::{CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING};
use actix_web::rt::time::timeout;
use actix_web::{HttpRequest, HttpResponse};

use super::write_quotas_of;
use crate::config::RateLimitConfig;
use crate::response::{Rejection, forbid_storing, keep, number};

/// Drains a small body and renders the rejection. The future is large: box it, so that admitted requests do
/// not carry it around.
pub(crate) async fn reject(req: &HttpRequest, payload: Payload, rejection: Box<Rejection>) -> HttpResponse {
    let unread = drain(req, payload).await;
    let response = render(req, *rejection);
    match unread {
        Some(unread) => response.map_body(|_, body| keep(body, unread)),
        None => response,
    }
}

/// The response to a rejected request: that of the error handler, if there is one.
fn render(req: &HttpRequest, rejection: Rejection) -> HttpResponse {
    let Some(handler) = RateLimitConfig::nearest(req).error_handler() else {
        return HttpResponse::from_error(rejection);
    };
    let retry_after = rejection.retry_after_seconds();
    let mut response = HttpResponse::from_error(handler(rejection, req));
    write_quotas_of(req, response.headers_mut());
    forbid_storing(response.headers_mut());
    if let Some(seconds) = retry_after
        && !response.headers().contains_key(RETRY_AFTER)
    {
        response.headers_mut().insert(RETRY_AFTER, number(seconds));
    }
    response
}

/// Largest body, in bytes, that is read and dropped.
const MAX_DRAIN_BYTES: usize = 16 * 1024;

/// Longest time to read it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a small body to its end and drops it, so that the connection can carry the next request. Over
/// HTTP/2, the stream is then not reset after the response, which some clients take for a lost one.
///
/// Actix closes a connection with an unread body, and resets a stream. That is right for a large body, which
/// may never end. A small body has usually arrived, and a new connection would cost both sides more. A
/// declared length above the maximum is not read.
///
/// Returns the payload of a chunked body that was not read to its end. If it is dropped, Actix reads and
/// drops chunks as long as the client sends them. [Kept](keep) until the response is written, it closes the
/// connection after the response.
async fn drain(req: &HttpRequest, mut payload: Payload) -> Option<Payload> {
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
