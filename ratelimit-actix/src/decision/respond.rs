//! The responses to requests under limits: the fields of quotas, and rejections.

use std::iter;
use std::time::Duration;

use actix_web::body::{self, BodyStream};
use actix_web::dev::Payload;
use actix_web::http::Version;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, RETRY_AFTER, TRANSFER_ENCODING};
use actix_web::rt::time::timeout;
use actix_web::{HttpRequest, HttpResponse};
use ratelimit_core::__private_0_1::wall_clock;
use ratelimit_core::{Decision, GroupOutcome, Outcome};

use crate::applied_limit::{AppliedLimit, AppliedLimits};
use crate::config::RateLimitConfig;
use crate::quotas::{Quotas, all_quotas, with_groups, with_shown};
use crate::response::{
    HeaderStyle, MissingCaller, RateLimited, Rejected, Rejection, RequestStyle, Unavailable, field_names,
    forbid_storing, keep, number, write,
};

fn style(req: &HttpRequest) -> RequestStyle {
    RequestStyle::new(RateLimitConfig::nearest(req).style(), req)
}

/// The rejection of a request about which the store cannot decide. The limiter has logged the reason.
#[cold]
pub(super) fn unavailable(req: &HttpRequest) -> Box<Rejection> {
    Box::new(Rejection::Unavailable(Unavailable(style(req))))
}

/// The rejection of a request without the caller that a limit requires.
#[cold]
pub(super) fn missing_caller(req: &HttpRequest) -> Box<Rejection> {
    Box::new(Rejection::MissingCaller(MissingCaller(style(req))))
}

/// The rejection by a limit that admits no request: its `max` is 0 or invalid, so no wait helps.
#[cold]
pub(super) fn deny_all(req: &HttpRequest, limit: AppliedLimit) -> Box<Rejection> {
    let outcome = Outcome::new(0, Decision::Denied { retry_after: None }).with_cost(limit.cost);
    let outcome = GroupOutcome::new(wall_clock(), iter::once(outcome));
    Quotas::add(req, &mut AppliedLimits::from_iter([limit]), &outcome);
    denied(req, outcome)
}

/// The rejection for a denial that is among the quotas of the request.
#[cold]
pub(super) fn denied(req: &HttpRequest, outcome: GroupOutcome) -> Box<Rejection> {
    Box::new(Rejection::RateLimited(RateLimited::new(outcome, all_quotas(req), style(req))))
}

/// Drains a small body and renders the rejection. The future is large: box it, so that the futures of
/// admitted requests stay small.
pub(crate) async fn reject(req: &HttpRequest, payload: Payload, rejection: Box<Rejection>) -> HttpResponse {
    let unread = drain(req, payload).await;
    let response = render(req, *rejection);
    match unread {
        Some(unread) => response.map_body(|_, body| keep(body, unread)),
        None => response,
    }
}

/// The error with which a handler gives the same response.
pub(super) async fn rejected(req: &HttpRequest, rejection: Box<Rejection>) -> Rejected {
    let response = render(req, Rejection::clone(&rejection));
    Rejected::new(*rejection, response).await
}

/// The response to a rejected request: that of the error handler, if there is one, with the fields that it
/// lacks.
fn render(req: &HttpRequest, rejection: Rejection) -> HttpResponse {
    let config = RateLimitConfig::nearest(req);
    let Some(handler) = config.error_handler() else {
        return HttpResponse::from_error(rejection);
    };
    let retry_after = rejection.retry_after_seconds();
    let mut response = HttpResponse::from_error(handler(rejection, req));
    write_quotas_of(req, config.header_styles(), response.headers_mut());
    forbid_storing(response.headers_mut());
    // In a redirect the field would be the wait before the redirected request (RFC 9110).
    if let Some(seconds) = retry_after
        && !response.status().is_redirection()
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

/// Sets the header fields with the quotas of a request, if any limit was checked. Fields that the handler set
/// under the same names are replaced: they would contradict what is counted.
pub(crate) fn write_quotas_of(req: &HttpRequest, styles: &[HeaderStyle], headers: &mut HeaderMap) {
    if !styles.is_empty() {
        with_groups(req, |groups| with_shown(groups, |quotas| write(styles, quotas, headers)));
    }
}

/// [`write_quotas_of`] for quotas that middleware keeps. If they have changed since fields were written,
/// these are removed, also if what is left is unknown.
pub(crate) fn write_quotas(
    quotas: &Quotas,
    is_changed: bool,
    styles: &[HeaderStyle],
    headers: &mut HeaderMap,
) {
    if is_changed {
        for name in styles.iter().flat_map(|style| field_names(*style)) {
            headers.remove(name);
        }
    }
    quotas.with(|quotas| write(styles, quotas, headers));
}
