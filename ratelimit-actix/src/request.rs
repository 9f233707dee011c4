//! The nearest limiter of a request.

use std::sync::LazyLock;

use actix_web::{HttpRequest, web};
use ratelimit_core::__private_0_1::help;
use ratelimit_core::RateLimiter;

/// The limiter of programs that register none. A declared limit must be enforced, so a missing limiter is a
/// warning and not an error.
static LAST_RESORT: LazyLock<RateLimiter> = LazyLock::new(|| {
    tracing::warn!(
        help = help("no-limiter"),
        "no rate limiter is registered, so limits are counted in this process only; make one and register it with \
         `App::app_data(limiter.clone())` or `limiter.install()`, for example \
         `let limiter = RateLimiter::in_memory();`"
    );
    RateLimiter::in_memory()
});

/// The limiter that counts a request, as attributes and middleware find it: the nearest in the data of its
/// resource, scope or app, then the one that is [installed](RateLimiter::install), then one in memory.
///
/// For calls that need no response of a limit, such as [`RateLimiter::peek`], and for tasks that a handler
/// spawns with a clone. A handler that may deny its request calls [`admit`](crate::admit).
// Actix finds the nearest value of one type, but cannot say which of two types is nearer. `web::Data` comes
// first, so that the usual form costs one look-up.
pub fn nearest_limiter(req: &HttpRequest) -> &RateLimiter {
    if let Some(limiter) = req.app_data::<web::Data<RateLimiter>>() {
        return limiter;
    }
    let plain = req.app_data::<RateLimiter>().or_else(|| RateLimiter::installed());
    plain.unwrap_or_else(|| &LAST_RESORT)
}
