//! Fallback: decisions during an outage of the store, by the failure policy of each limit; and one log line
//! at the start of the outage and one at its end.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::{Clock, SystemClock, wall_clock};
use crate::error::{ErrorChain, StoreError};
use crate::observe::Observer;
use crate::observe::log::{LogLimit, help};
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::{OnError, Policy};
use crate::reservation::Reservation;
use crate::store::memory::MemoryStore;

/// The wait, in microseconds, of a request that costs more than the part of this process, and passes when the
/// store is back: how long an outage lasts is unknown. The same as for a limit that fails closed.
const RETRY_US: u64 = 1_000_000;

/// The store of last resort, and whether an outage is on.
#[derive(Debug)]
pub(crate) struct Fallback {
    local: MemoryStore,
    /// Number of processes that share the limits, and so divide them during an outage.
    instances: NonZeroU32,
    pub(crate) outage: Outage,
}

impl Fallback {
    pub(crate) fn new(instances: NonZeroU32, max_callers: usize) -> Self {
        Self { local: MemoryStore::with_max_callers(max_callers), instances, outage: Outage::default() }
    }

    /// Judges in place of the store, by the failure policy of each limit. Returns `error` if one of them
    /// fails closed, or if the program is the cause (`is_of_program`). `is_outage` is false if only this
    /// request had too little time. Only an outage is logged and counted as a failure of the store.
    pub(crate) fn judge(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        error: StoreError,
        is_outage: bool,
        observer: &Observer,
    ) -> Result<GroupOutcome, StoreError> {
        if is_outage && !error.is_of_program() {
            observer.failed(&error);
            self.outage.record_failure(&error);
        }
        let decided = self.judge_locally(group, operation, error);
        if operation.is_reported() {
            match &decided {
                Ok(outcome) => {
                    observer.observe(group, outcome.outcomes());
                    observer.degraded(group, Some(outcome.outcomes()), || self.callers());
                }
                Err(error) if error.is_of_program() => {}
                Err(_) => observer.degraded(group, None, || self.callers()),
            }
        }
        decided
    }

    fn judge_locally(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        error: StoreError,
    ) -> Result<GroupOutcome, StoreError> {
        if error.is_of_program() || group.iter().any(|check| check.on_error() == OnError::Deny) {
            return Err(error);
        }
        let parts: SmallVec<[Option<Policy>; 2]> = group.iter().map(|check| self.part(check)).collect();
        let counted = group.iter().zip(&parts);
        let counted: SmallVec<[Check<'_>; 2]> =
            counted.filter_map(|(check, part)| Some(check.with_policy(part.as_ref()?))).collect();
        let decided = self.local.judge_group(&counted, operation);
        let mut local_outcomes = decided.outcomes().iter();
        let all_outcomes = group.iter().zip(&parts).map(|(check, part)| {
            let capacity = check.policy().capacity();
            if let Some(part) = part
                && let Some(outcome) = local_outcomes.next()
            {
                // Shows the limit as configured, not the part of this process.
                let outcome = outcome.clone().with_capacity(capacity);
                let may_pass = part.capacity() < capacity && check.cost() <= capacity;
                return if may_pass { outcome.or_denied_for(RETRY_US) } else { outcome };
            }
            // `UpTo` charges every limit the same number: the one that the counted limits admit.
            let cost = match operation {
                Operation::UpTo => decided.outcomes().first().map_or(check.cost(), Outcome::cost),
                _ => check.cost(),
            };
            // Fails open: reported as untouched.
            Outcome::unknown(check).with_cost(cost).with_remaining(capacity).with_at(wall_clock())
        });
        let all_outcomes = all_outcomes.collect();
        Ok(decided.with_outcomes(all_outcomes).degraded())
    }

    /// The policy that this process enforces in place of a limit: its part of the units. `None` for a limit
    /// that fails open.
    fn part(&self, check: &Check<'_>) -> Option<Policy> {
        (check.on_error() == OnError::Local).then(|| check.policy().per_instance(self.instances))
    }

    /// Number of callers counted in this process.
    pub(crate) fn callers(&self) -> usize {
        self.local.len()
    }

    /// Refunds charges of this process, made during an outage. Refunds all, and returns the first error.
    pub(crate) fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let mut result = Ok(());
        for charge in reservation.charges() {
            let check = charge.check();
            if let Some(part) = self.part(&check) {
                let check = check.with_policy(&part);
                result = result.and(self.local.refund_all(&Reservation::single(charge.with_check(check))));
            }
        }
        result
    }

    /// Charges beyond a limit of this process, during an outage.
    pub(crate) fn overdraw(&self, check: &Check<'_>) {
        if let Some(part) = self.part(check) {
            let _ = self.local.judge_group(&[check.with_policy(&part)], Operation::Overdraw);
        }
    }

    /// Drops the state of this process.
    pub(crate) fn reset(&self, check: &Check<'_>) {
        if let Some(part) = self.part(check) {
            self.local.reset_group(&[check.with_policy(&part)]);
        }
    }
}

/// Whether an outage is on, and limits of its log lines.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    clock: SystemClock,
    is_out: AtomicBool,
    /// Instant of the last failure, in microseconds.
    failed_at: AtomicU64,
    /// For lines about corrupt states.
    corrupt_state: LogLimit,
    /// For lines about failed refunds and settlements.
    failed_correction: LogLimit,
}

/// Quiet period after the last failure, in microseconds, before the outage counts as over. A part of a
/// cluster may be out: then requests fail and succeed in turn, which is one outage.
const QUIET_US: u64 = 1_000_000;

impl Outage {
    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// Whether an outage is on. Without requests it does not end.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Records that the store replied.
    pub(crate) fn record_reply(&self) {
        // Read first: this runs for every request, and a write would take the cache line from all other
        // threads.
        if self.is_out() {
            self.end_if_quiet();
        }
    }

    /// Ends the outage after the quiet period.
    #[cold]
    fn end_if_quiet(&self) {
        let quiet = self.now().saturating_sub(self.failed_at.load(Ordering::Relaxed)) > QUIET_US;
        if quiet && self.is_out.swap(false, Ordering::Relaxed) {
            tracing::warn!(help = help("store-answers-again"), "the rate limiter's store answers again");
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
        if self.failed_correction.may_log() {
            tracing::warn!(
                error = %ErrorChain(error),
                help = help("failed-refund"),
                "a refund failed; what was charged may stay charged until its window is over"
            );
        }
    }

    /// Logs that the store failed to settle, or to charge after a response.
    pub(crate) fn log_failed_settlement(&self, error: &StoreError) {
        if self.failed_correction.may_log() {
            tracing::warn!(
                error = %ErrorChain(error),
                help = help("failed-settlement"),
                "a settlement or a charge after a response failed; the limit may count less than was used"
            );
        }
    }
}
