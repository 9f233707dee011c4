//! Whether the store is out; for one line of log at each change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};
use crate::error::{ErrorChain, StoreError};
use crate::log_limit::LogLimit;

/// Whether the store is out; for one line of log at each change.
#[derive(Debug)]
pub(super) struct Outage {
    clock: SystemClock,
    is_out: AtomicBool,
    /// When the store failed last, in microseconds.
    failed_at: AtomicU64,
    /// Of unusable values.
    unusable: LogLimit,
    /// Of refunds that failed.
    refund_failed: LogLimit,
    /// Of the number of callers, whose measuring takes every lock.
    #[cfg(feature = "metrics")]
    pub(super) measured: LogLimit,
}

/// Quiet period after the last failure, in microseconds, before the outage counts as over. A part of a cluster may be out:
/// then requests fail and succeed in turn, which is one outage. Also the minimum time between two log lines of one kind.
const QUIET_US: u64 = 1_000_000;

impl Outage {
    pub(super) fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            is_out: AtomicBool::new(false),
            failed_at: AtomicU64::new(0),
            unusable: LogLimit::new(),
            refund_failed: LogLimit::new(),
            #[cfg(feature = "metrics")]
            measured: LogLimit::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// The store answered.
    pub(super) fn store_answered(&self) {
        // Read first: this runs for every request, and a write would take the cache line from all other threads.
        if self.is_out.load(Ordering::Relaxed) {
            self.may_end();
        }
    }

    #[cold]
    fn may_end(&self) {
        let quiet = self.now().saturating_sub(self.failed_at.load(Ordering::Relaxed)) > QUIET_US;
        if quiet && self.is_out.swap(false, Ordering::Relaxed) {
            tracing::info!("the rate limiter's store answers again");
        }
    }

    #[cold]
    pub(super) fn failed(&self, error: &StoreError) {
        // About one caller, not about the store.
        if let StoreError::ForeignState { .. } = error {
            if self.unusable.may_log() {
                tracing::error!(error = %error, "a rate limit's value in the store is unusable");
            }
            return;
        }
        self.failed_at.store(self.now(), Ordering::Relaxed);
        if !self.is_out.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error = %ErrorChain(error),
                "the rate limiter's store cannot answer; failure policies apply until it does"
            );
        }
    }

    /// The store could not give something back.
    pub(super) fn refund_failed(&self, error: &StoreError) {
        if self.refund_failed.may_log() {
            tracing::warn!(
                error = %ErrorChain(error),
                "a refund failed; what was charged may stay charged until its window is over"
            );
        }
    }
}
