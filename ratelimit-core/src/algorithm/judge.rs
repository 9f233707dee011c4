//! Decisions about one limit: the steps of its state, one after the other.

use super::state::{State, Unpacked, each};
use super::step::Step;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{Numbers, Outcome, Verdict};
use crate::policy::Policy;

/// What a decision charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// An admitted group is charged. A limit that denies it begins its [block](Policy::block), if it has one.
    Check,
    /// Nothing is charged and no block begins; apart from that, the outcome is that of a check at the same
    /// instant.
    Peek,
    /// The check of a part of a group of which another part is denied, or a look before a charge: nothing is
    /// charged, but blocks begin.
    Judge,
    /// Charges every limit of an admitted group the same number of units: as many as fit, and at most the
    /// cost of the checks, which is the same for all. A state that occurs twice is charged twice as many. The
    /// outcome is the same as of a check of the units that were charged. If not even one unit fits, it is
    /// the denial of one.
    UpTo,
    /// Charges every limit although it may not fit, up to the [largest limit](crate::RateLimiter::settle);
    /// nothing during a block. The outcome is the same as of a peek afterwards.
    Overdraw,
    /// A [wait](crate::RateLimiter::wait) for a turn, of one enforced token bucket: if the same check would
    /// pass after at most this time, it is charged now, and the outcome has the time [until it is
    /// due](Outcome::due_after). Otherwise the outcome is the same as of a peek. Any other group is decided
    /// as by a check.
    Wait {
        /// Longest wait, in microseconds.
        at_most_us: u64,
    },
}

impl Operation {
    /// Whether an admitted group is charged.
    pub(crate) const fn charges(self) -> bool {
        matches!(self, Self::Check | Self::UpTo | Self::Wait { .. })
    }

    /// The operation by which a group is judged: only an enforced bucket that is alone has turns.
    pub(crate) fn for_group(self, group: &[Check<'_>]) -> Self {
        match self {
            Self::Wait { .. } if !matches!(group, [check] if check.has_turns()) => Self::Check,
            _ => self,
        }
    }

    /// Whether the decision is one about a request, for metrics and statistics.
    pub(crate) const fn is_reported(self) -> bool {
        self.charges() || matches!(self, Self::Judge)
    }

    /// Whether units may be charged beyond the limit.
    #[cfg(feature = "redis")]
    pub(crate) const fn overdraws(self) -> bool {
        matches!(self, Self::Overdraw | Self::Wait { .. })
    }

    /// Whether the decision is about the whole cost. Then a limit that is alone is judged by
    /// [`judge_step`].
    pub(crate) const fn takes_whole_cost(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Judge)
    }
}

/// Judges one limit by its algorithm, whatever the kind of its state.
#[inline]
pub(super) fn judge_step<const TAKES_SLOTS: bool>(
    check: &Check<'_>,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    let (policy, cost, at) = (check.policy(), check.cost(), now.as_micros());
    let (unpacked, moved_out) = state.unpack(check, at);
    each!(unpacked, step => run_step::<TAKES_SLOTS>(step, policy, at, cost, operation), (outcome, dirty) => {
        if dirty || moved_out {
            state.pack(unpacked);
        }
        outcome
    })
}

/// The steps of a decision about one limit. Returns the outcome, and whether the state must be stored.
#[inline]
fn run_step<const TAKES_SLOTS: bool>(
    state: &mut impl Step,
    policy: &Policy,
    now: u64,
    cost: u64,
    operation: Operation,
) -> (Outcome, bool) {
    let now = state.instant(now);
    let mut dirty = state.advance(policy, now);
    let available = state.available(policy, now);
    let mut remaining = available.unwrap_or(0);
    let verdict = if available.is_some_and(|available| cost <= available) {
        if operation == Operation::Check && (TAKES_SLOTS || !state.holds_slots()) {
            state.charge(policy, now, cost);
            remaining -= cost;
            dirty = true;
        }
        Verdict::Allowed
    } else {
        state.denial(policy, now, cost)
    };
    let reset_after_us = state.resets_at().saturating_sub(now);
    let capacity = policy.capacity();
    let outcome = Outcome::from_numbers(Numbers { capacity, cost, remaining, reset_after_us, verdict })
        .with_returned_us(state.returned_us())
        .with_at(Timestamp::from_micros(now));
    (if remaining == 0 { with_next_unit(outcome, state, policy, now, cost) } else { outcome }, dirty)
}

/// Adds the wait for one more unit to an outcome of which nothing remains, after a decision about `cost`.
#[cold]
pub(super) fn with_next_unit(
    outcome: Outcome,
    state: &dyn Step,
    policy: &Policy,
    now: u64,
    cost: u64,
) -> Outcome {
    let wait = match outcome.verdict() {
        // This wait is known already.
        Verdict::RetryAfterMicros(wait) if cost == 1 => Some(wait),
        _ => state.retry_after(policy, now, 1),
    };
    match wait {
        Some(wait) => outcome.with_next_unit_after_us(wait),
        // Slots: no process knows when the next is freed. Every other policy admits one unit at some time.
        None => outcome,
    }
}
