//! Warns of a limiter for each worker: one that is made inside the closure of `HttpServer`, so that every
//! worker admits a whole `max`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ratelimit_core::__private_0_1::{CountsAlone, help, limiter_id};
use ratelimit_core::{Policy, RateLimiter};

/// The limiters that decided about a limit.
#[derive(Debug)]
pub(crate) struct SoleLimiter {
    /// The id of the last one, which is nearly always the only one. Only a hint: another limiter may have the
    /// id after it.
    last: AtomicUsize,
    /// The first one that counts alone and lives.
    first: Mutex<Option<CountsAlone>>,
}

impl Clone for SoleLimiter {
    /// A copy of a limit is another limit.
    fn clone(&self) -> Self {
        Self::new()
    }
}

/// Logs the mistake once, for the handler that shows it first: the others have it, too.
static LOGGED: AtomicBool = AtomicBool::new(false);

impl SoleLimiter {
    pub(crate) const fn new() -> Self {
        Self { last: AtomicUsize::new(0), first: Mutex::new(None) }
    }

    /// Notes that a limiter decides about this `limit`. One relaxed load, if it is the limiter of the request
    /// before.
    #[inline]
    pub(crate) fn note(&self, limiter: &RateLimiter, limit: &Policy) {
        if self.last.load(Ordering::Relaxed) != limiter_id(limiter) {
            self.note_other(limiter, limit);
        }
    }

    #[cold]
    fn note_other(&self, limiter: &RateLimiter, limit: &Policy) {
        self.last.store(limiter_id(limiter), Ordering::Relaxed);
        if LOGGED.load(Ordering::Relaxed) {
            return;
        }
        let Some(other) = CountsAlone::of(limiter) else { return };
        if self.has_first_beside(other) && !LOGGED.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = limit.name(),
                help = help("a-limiter-for-each-worker"),
                "a second limiter in memory decides about one handler, and each counts by itself, so that more requests pass than \
                 the limit says; make one limiter before `HttpServer::new`, and register a clone in the closure"
            );
        }
    }

    /// Whether the first limiter lives, and is not `other`. Otherwise `other` is the first from now on.
    fn has_first_beside(&self, other: CountsAlone) -> bool {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let is_beside = first.as_ref().is_some_and(|first| first.lives_beside(&other));
        if !is_beside {
            *first = Some(other);
        }
        is_beside
    }
}
