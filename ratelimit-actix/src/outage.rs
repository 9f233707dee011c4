//! Says once when a store stops answering, and once when it answers again.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use ratelimit_core::{RateLimiter, StoreError};

/// Whether the last answer of a kind of store was an error.
///
/// By kind and not by limiter, since limiters are cloned for each worker and have no identity; so that a limiter in
/// memory, which always answers, does not speak for Redis.
fn is_out(limiter: &RateLimiter) -> &'static AtomicBool {
    static REDIS: AtomicBool = AtomicBool::new(false);
    static CUSTOM: AtomicBool = AtomicBool::new(false);
    static MEMORY: AtomicBool = AtomicBool::new(false);
    match limiter.store_kind() {
        "redis" => &REDIS,
        "custom" => &CUSTOM,
        _ => &MEMORY,
    }
}

/// The store could not decide.
#[cold]
pub(crate) fn begins(limiter: &RateLimiter, error: &StoreError) {
    if !is_out(limiter).swap(true, Ordering::Relaxed) {
        tracing::error!(
            store = limiter.store_kind(),
            error = %Chain(error),
            "the rate limiter's store cannot answer; limited requests get 503 until it does"
        );
    }
}

/// The store decided.
pub(crate) fn ends(limiter: &RateLimiter) {
    let out = is_out(limiter);
    // Read first: this runs for every request, and a write would take the cache line from all other threads.
    if out.load(Ordering::Relaxed) && out.swap(false, Ordering::Relaxed) {
        tracing::info!(store = limiter.store_kind(), "the rate limiter's store answers again");
    }
}

/// An error and its causes on one line.
struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors show their cause in their own text.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}
