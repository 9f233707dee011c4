//! Outages: one log line at their start and one at their end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::{Clock, SystemClock};
use crate::error::{ErrorChain, StoreError};
use crate::observe::log::{LogLimit, help};

/// Whether an outage is on.
#[derive(Debug)]
pub(crate) struct Outage {
    clock: SystemClock,
    is_out: AtomicBool,
    /// Instant of the last failure, in microseconds.
    failed_at: AtomicU64,
    /// For lines about corrupt states.
    corrupt_state: LogLimit,
    /// For lines about failed refunds and settlements.
    failed_refund: LogLimit,
}

/// Quiet period after the last failure, in microseconds, before the outage counts as over. A part of a cluster may be out:
/// then requests fail and succeed in turn, which is one outage.
const QUIET_US: u64 = 1_000_000;

impl Outage {
    pub(crate) fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            is_out: AtomicBool::new(false),
            failed_at: AtomicU64::new(0),
            corrupt_state: LogLimit::new(),
            failed_refund: LogLimit::new(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// Whether an outage is on. Without requests it does not end.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Records that the store replied.
    pub(crate) fn record_reply(&self) {
        // Read first: this runs for every request, and a write would take the cache line from all other threads.
        if self.is_out() {
            self.end_if_quiet();
        }
    }

    /// Ends the outage after the quiet period.
    #[cold]
    fn end_if_quiet(&self) {
        let quiet = self.now().saturating_sub(self.failed_at.load(Ordering::Relaxed)) > QUIET_US;
        if quiet && self.is_out.swap(false, Ordering::Relaxed) {
            tracing::info!(help = help("store-answers-again"), "the rate limiter's store answers again");
        }
    }

    /// Records that the store failed.
    #[cold]
    pub(crate) fn record_failure(&self, error: &StoreError) {
        // An error about one caller is no outage of the store.
        if let StoreError::CorruptState { .. } = error {
            if self.corrupt_state.may_log() {
                tracing::error!(
                    error = %error,
                    help = help("unusable-value"),
                    "corrupt state in the store; the failure policy decides for this caller until the key expires"
                );
            }
            return;
        }
        self.failed_at.store(self.now(), Ordering::Relaxed);
        if !self.is_out.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error = %ErrorChain(error),
                help = help("store-out"),
                "the rate limiter's store cannot answer; failure policies apply until it does"
            );
        }
    }

    /// Logs that the store failed to refund.
    pub(crate) fn log_failed_refund(&self, error: &StoreError) {
        if self.failed_refund.may_log() {
            tracing::warn!(
                error = %ErrorChain(error),
                help = help("failed-refund"),
                "a refund failed; what was charged may stay charged until its window is over"
            );
        }
    }

    /// Logs that the store failed to settle.
    pub(crate) fn log_failed_settlement(&self, error: &StoreError) {
        if self.failed_refund.may_log() {
            tracing::warn!(
                error = %ErrorChain(error),
                help = help("failed-settlement"),
                "a settlement failed; the limit may count less than was used"
            );
        }
    }
}
