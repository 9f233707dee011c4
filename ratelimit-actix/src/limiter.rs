//! Which limiter a handler asks: the nearest one registered, the process's, or one of last resort.

use std::sync::LazyLock;

use actix_web::{HttpRequest, web};
use ratelimit_core::RateLimiter;

/// Counts for handlers that were given no limiter. A limit that is written down must hold, so this is not an error.
static LAST_RESORT: LazyLock<RateLimiter> = LazyLock::new(|| {
    tracing::warn!(
        "no rate limiter is registered, so limits are counted in this process only; make one and register it with \
         `App::app_data(web::Data::new(limiter.clone()))` or `limiter.install()`, for example \
         `let limiter = RateLimiter::in_memory();`"
    );
    RateLimiter::in_memory()
});

/// The nearest `web::Data<RateLimiter>` around the handler (resource, scope, app), then the installed one, then one for
/// the whole process that is made, with a warning, when it is first needed.
pub(crate) fn nearest(req: &HttpRequest) -> &RateLimiter {
    match req.app_data::<web::Data<RateLimiter>>() {
        Some(limiter) => limiter,
        None => RateLimiter::installed().unwrap_or_else(|| &LAST_RESORT),
    }
}
