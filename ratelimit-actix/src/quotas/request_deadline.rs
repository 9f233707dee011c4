//! One deadline for one HTTP request: how long its questions have waited for stores so far, and how long they still may.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix_web::dev::Extensions;
use actix_web::rt::time::Instant;
use actix_web::{HttpMessage, HttpRequest};
use ratelimit_core::RateLimiter;

/// Time that one HTTP request has waited for stores, over all its questions: of middleware, handler, charges and refunds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waited(Rc<Cell<Duration>>);

impl Waited {
    /// That of the request to which the extensions belong.
    pub(crate) fn of(extensions: &mut Extensions) -> Self {
        if let Some(waited) = extensions.get::<Self>() {
            return waited.clone();
        }
        let waited = Self::default();
        extensions.insert(waited.clone());
        waited
    }

    /// Asks a limiter that has no more time than the request has left. Without any left, a store that would have to be
    /// waited for counts as one that did not answer.
    pub(crate) async fn ask<T>(&self, limiter: &RateLimiter, ask: impl AsyncFnOnce(&RateLimiter) -> T) -> T {
        // Memory never waits, and a store of the application's own keeps its own time.
        let Some(deadline) = limiter.deadline() else { return ask(limiter).await };
        let begun = Instant::now();
        let answer = ask(&limiter.with_deadline(deadline.saturating_sub(self.0.get()))).await;
        self.0.set(self.0.get() + begun.elapsed());
        answer
    }
}

/// [`Waited::ask`] for a question about a request.
pub(crate) async fn ask<T>(
    req: &HttpRequest,
    limiter: &RateLimiter,
    ask: impl AsyncFnOnce(&RateLimiter) -> T,
) -> T {
    if limiter.deadline().is_none() {
        return ask(limiter).await;
    }
    let waited = Waited::of(&mut req.extensions_mut());
    waited.ask(limiter, ask).await
}
