//! Which limiter a handler asks: the nearest one registered, the process's, or one of last resort.

use std::sync::LazyLock;

use actix_web::{HttpRequest, web};
use ratelimit_core::RateLimiter;

/// Counts for handlers that were given no limiter. A limit that is written down must hold, so this is not an error.
static LAST_RESORT: LazyLock<RateLimiter> = LazyLock::new(|| {
    tracing::warn!(
        "no rate limiter is registered, so limits are counted in this process only; make one and register it with \
         `App::app_data(limiter.clone())` or `limiter.install()`, for example \
         `let limiter = RateLimiter::in_memory();`"
    );
    RateLimiter::in_memory()
});

/// The nearest one around the handler (resource, scope, app), then the installed one, then one for the whole process that
/// is made, with a warning, when it is first needed.
///
/// Actix tells the nearest value of one type, but not which of two types is nearer: `web::Data` goes before the limiter
/// itself, so that it costs one look-up.
pub(crate) fn nearest(req: &HttpRequest) -> &RateLimiter {
    if let Some(limiter) = req.app_data::<web::Data<RateLimiter>>() {
        return limiter;
    }
    let own = req.app_data::<RateLimiter>().or_else(|| RateLimiter::installed());
    own.unwrap_or_else(|| &LAST_RESORT)
}
