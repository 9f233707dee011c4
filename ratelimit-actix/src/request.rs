//! Facts of a request that need no limit.

use std::borrow::Cow;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::{HttpRequest, web};
use ratelimit_core::__private_0_1::{help, response_time};
use ratelimit_core::{GroupOutcome, RateLimiter};

/// The limiter of programs that register none. A declared limit must hold, so a missing limiter is a warning
/// and not an error.
static LAST_RESORT: LazyLock<RateLimiter> = LazyLock::new(|| {
    tracing::warn!(
        help = help("no-limiter"),
        "no rate limiter is registered, so limits are counted in this process only; make one and register it with \
         `App::app_data(limiter.clone())` or `limiter.install()`, for example \
         `let limiter = RateLimiter::in_memory();`"
    );
    RateLimiter::in_memory()
});

/// The nearest limiter around the handler (resource, scope, app), then the installed one, then the last
/// resort.
///
/// Actix finds the nearest value of one type, but cannot say which of two types is nearer. `web::Data` comes
/// first, so that the usual form costs one look-up.
pub(crate) fn nearest_limiter(req: &HttpRequest) -> &RateLimiter {
    if let Some(limiter) = req.app_data::<web::Data<RateLimiter>>() {
        return limiter;
    }
    let plain = req.app_data::<RateLimiter>().or_else(|| RateLimiter::installed());
    plain.unwrap_or_else(|| &LAST_RESORT)
}

/// The time that one HTTP request has waited for stores so far. An extension of the request, shared by its
/// clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestDeadline {
    waited: Rc<Cell<Duration>>,
}

/// The result of a call of a limiter.
pub(crate) trait Decided {
    /// Whether the store has decided, and not a failure policy in its place.
    fn is_of_store(&self) -> bool {
        true
    }
}

impl Decided for () {}

impl Decided for GroupOutcome {
    fn is_of_store(&self) -> bool {
        !self.is_degraded()
    }
}

impl Decided for (u64, GroupOutcome) {
    fn is_of_store(&self) -> bool {
        self.1.is_of_store()
    }
}

impl RequestDeadline {
    /// That of the request to which the extensions belong.
    pub(crate) fn of(extensions: &mut Extensions) -> Self {
        extensions.get_or_insert_with(Self::default).clone()
    }

    /// Calls `call` with a limiter whose deadline is what the request has left. With nothing left, a call
    /// that needs a round trip fails. Only the time that the store takes counts, not the time in which the
    /// worker is busy with other requests.
    pub(crate) async fn run<T: Decided, E>(
        &self,
        limiter: &RateLimiter,
        call: impl AsyncFnOnce(&RateLimiter) -> Result<T, E>,
    ) -> Result<T, E> {
        // The memory store never waits, and a custom store may have no deadline.
        let Some(deadline) = limiter.deadline() else { return call(limiter).await };
        let left = deadline.saturating_sub(self.waited.get());
        // Most requests make one call. A limiter of its own would touch a reference count that all threads
        // share.
        let limiter =
            if left == deadline { Cow::Borrowed(limiter) } else { Cow::Owned(limiter.with_deadline(left)) };
        let is_answered = |result: &Result<T, E>| result.as_ref().is_ok_and(T::is_of_store);
        // Pinned here, the call is not moved into another future, which would have room for it twice.
        let call = pin!(call(&limiter));
        let (result, waited) = response_time(left, call, is_answered).await;
        self.waited.set(self.waited.get() + waited);
        result
    }
}
