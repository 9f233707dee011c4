//! One deadline for one HTTP request: the time that its checks, charges and refunds may wait for stores in total.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::rt::time::Instant;
use ratelimit_core::RateLimiter;

/// The time that one HTTP request has waited for stores so far. An extension of the request, shared by its clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestDeadline {
    waited: Rc<Cell<Duration>>,
}

impl RequestDeadline {
    /// That of the request to which the extensions belong.
    pub(crate) fn of(extensions: &mut Extensions) -> Self {
        if let Some(deadline) = extensions.get::<Self>() {
            return deadline.clone();
        }
        let deadline = Self::default();
        extensions.insert(deadline.clone());
        deadline
    }

    /// Calls `call` with a limiter whose deadline is what the request has left. With nothing left, a call that needs a round
    /// trip fails as if the store did not answer.
    pub(crate) async fn run<T>(&self, limiter: &RateLimiter, call: impl AsyncFnOnce(&RateLimiter) -> T) -> T {
        // The memory store never waits, and a custom store may have no deadline.
        let Some(deadline) = limiter.deadline() else { return call(limiter).await };
        let started = Instant::now();
        let result = call(&limiter.with_deadline(deadline.saturating_sub(self.waited.get()))).await;
        self.waited.set(self.waited.get() + started.elapsed());
        result
    }
}
