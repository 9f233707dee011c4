//! The size of the next lease. It follows from the demand of the caller, and from the units that were left at
//! the last answer.

use super::units::MAX_AGE_US;
use crate::algorithm::{Operation, State, judge_check};
use crate::check::Check;
use crate::clock::{Timestamp, micros};
use crate::outcome::Outcome;
use crate::policy::Policy;

/// Minimum demand for a lease, in units.
const MIN_DEMAND: u64 = 4;

/// The smallest lease.
const MIN_UNITS: u64 = 4;

/// A lease has at most this part of the units that are left, divided by the number of processes. So all
/// leases together have a small part, and few requests are denied for units that another process has not
/// used.
const SHARE: u64 = 4;

/// Shortest sub-window in which leases save calls, 50 ms: the time of many round trips.
const MIN_SUB_WINDOW_US: u64 = 50_000;

/// Whether callers of a limit with a lease can ever have one.
pub(super) fn is_leasable(policy: &Policy, instances: u64) -> bool {
    policy.sub_window_us() >= MIN_SUB_WINDOW_US && policy.max() >= MIN_UNITS * SHARE * instances
}

/// Units that requests of a caller to this process cost in the present lease interval and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Start of the present interval, by the local clock.
    since: u64,
    present: u64,
    before: u64,
    /// The largest cost of a request.
    largest_cost: u64,
}

impl Demand {
    /// Records a request of `cost` units.
    #[inline]
    pub(super) fn record(&mut self, cost: u64, now: u64, interval: u64) {
        let age = now.saturating_sub(self.since);
        if age >= interval {
            self.before = if age < 2 * interval { self.present } else { 0 };
            (self.since, self.present) = (now, 0);
        }
        self.present = self.present.saturating_add(cost);
        self.largest_cost = self.largest_cost.max(cost);
    }

    /// Units that were requested in the last one to two intervals.
    pub(super) fn units(&self, now: u64, interval: u64) -> u64 {
        let age = now.saturating_sub(self.since);
        if age < interval {
            self.present.saturating_add(self.before)
        } else if age < 2 * interval {
            self.present
        } else {
            0
        }
    }
}

/// The state of a count after the last answer.
#[derive(Clone, Debug)]
pub(super) struct LastAnswer {
    state: State,
    /// Instant of the answer, by the server's clock.
    pub(super) at: u64,
    /// Instant before the call was written, by the local clock.
    sent_at: u64,
    /// Units that were left at that instant.
    pub(super) available: u64,
    /// The instant from which no charge counts, by the server's clock.
    pub(super) resets_at: u64,
}

impl LastAnswer {
    /// The state of an answer.
    pub(super) fn new(check: Check<'_>, state: State, at: u64, sent_at: u64) -> Self {
        let mut last = Self { state, at, sent_at, available: 0, resets_at: 0 };
        let outcome = last.peek(check, 0, at);
        (last.available, last.resets_at) = (outcome.remaining(), at + micros(outcome.reset_after()));
        last
    }

    /// The outcome that a request of this cost would get at `at`, by the server's clock.
    pub(super) fn peek(&self, check: Check<'_>, cost: u64, at: u64) -> Outcome {
        let (check, at) = (check.with_cost(cost), Timestamp::from_micros(at));
        judge_check(&check, &mut self.state.clone(), at, Operation::Peek)
    }

    /// Units that are left at the local instant `now`, if nothing was charged since.
    pub(super) fn left(&self, check: Check<'_>, now: u64) -> u64 {
        // The server's time now, or slightly later.
        self.peek(check, 0, self.at + now.saturating_sub(self.sent_at)).remaining()
    }

    /// Units of the next lease; 0 if it would save too little, or might deny a larger request.
    ///
    /// Half of the demand comes within half an interval to a whole one. A lease has at least the units of two
    /// of the largest requests, because many small leases would take the units that such a request waits for.
    pub(super) fn lease_size(
        &self,
        check: Check<'_>,
        demand: &Demand,
        interval: u64,
        instances: u64,
        now: u64,
    ) -> u64 {
        let requested = demand.units(now, interval);
        if requested < MIN_DEMAND {
            return 0;
        }
        // If an interval is longer than the life of a lease, only that part of its demand counts.
        let horizon = interval.min(MAX_AGE_US);
        let wanted = u128::from(requested / 2) * u128::from(horizon) / u128::from(interval);
        let most = self.left(check, now) / SHARE.saturating_mul(instances);
        let units = u64::try_from(wanted).unwrap_or(u64::MAX).min(most);
        if units >= MIN_UNITS.max(demand.largest_cost.saturating_mul(2)) { units } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_the_units_of_this_interval_and_the_last() {
        let mut demand = Demand::default();
        for now in [1_000, 1_010, 1_099] {
            demand.record(2, now, 100);
        }
        assert_eq!(demand.units(1_099, 100), 6);
        demand.record(1, 1_100, 100);
        assert_eq!(demand.units(1_100, 100), 7);
        assert_eq!(demand.units(1_199, 100), 7);
        assert_eq!(demand.units(1_200, 100), 1, "the interval before is over");
        demand.record(5, 1_250, 100);
        assert_eq!(demand.units(1_250, 100), 6);
        demand.record(3, 1_450, 100);
        assert_eq!(demand.units(1_450, 100), 3, "an interval without requests lies between");
        assert_eq!(demand.units(1_700, 100), 0);
        assert_eq!(demand.largest_cost, 5);
    }
}
