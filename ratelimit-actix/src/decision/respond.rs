//! Responses: to a rejected request, and the header fields with the quotas of any other.

use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse};

use crate::config::RateLimitConfig;
use crate::quotas::{Quotas, with_quotas};
use crate::response::{self, Rejection, drain};

/// Drains a small body and renders the rejection. The future is large: box it, so that admitted requests do not carry it around.
pub(crate) async fn reject(
    req: &HttpRequest,
    payload: Payload,
    rejection: Box<Rejection>,
    config: &RateLimitConfig,
) -> HttpResponse {
    let unread = drain(req, payload).await;
    let response = render(req, *rejection, config);
    match unread {
        Some(unread) => unread.close_after(response),
        None => response,
    }
}

/// The response to a rejected request: that of the error handler, if there is one.
fn render(req: &HttpRequest, rejection: Rejection, config: &RateLimitConfig) -> HttpResponse {
    let Some(handler) = config.error_handler() else {
        return HttpResponse::from_error(rejection);
    };
    let retry_after = rejection.retry_after_seconds();
    let mut response = HttpResponse::from_error(handler(rejection, req));
    write_quotas_of(req, config, response.headers_mut());
    if let Some(seconds) = retry_after
        && !response.headers().contains_key(RETRY_AFTER)
    {
        response.headers_mut().insert(RETRY_AFTER, response::number(seconds));
    }
    response
}

/// Sets the header fields with the quotas of a request, if any limit was checked. Fields that the handler set under the same
/// names are replaced: they would contradict what is counted.
pub(crate) fn write_quotas_of(req: &HttpRequest, config: &RateLimitConfig, headers: &mut HeaderMap) {
    let styles = config.header_styles();
    if !styles.is_empty() {
        with_quotas(req, |quotas| response::write(styles, quotas, headers));
    }
}

/// [`write_quotas_of`] for quotas that middleware holds.
pub(crate) fn write_quotas(quotas: &Quotas, config: &RateLimitConfig, headers: &mut HeaderMap) {
    quotas.with(|quotas| response::write(config.header_styles(), quotas, headers));
}

/// [`write_quotas_of`] after a refund: no field of before remains, also if nothing is known any more.
pub(crate) fn rewrite_quotas_of(req: &HttpRequest, config: &RateLimitConfig, headers: &mut HeaderMap) {
    for style in config.header_styles() {
        for name in response::field_names(*style) {
            headers.remove(name);
        }
    }
    write_quotas_of(req, config, headers);
}
