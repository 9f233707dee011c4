//! How large a lease is: by what a caller asked for lately, and by what the last answer left.

use super::heat::Heat;
use super::units::MAX_AGE_US;
use crate::algorithm::{Standing, State};
use crate::clock::Timestamp;
use crate::policy::Policy;

/// Fewer units within an interval are not worth a lease.
const MIN_HEAT: u64 = 4;

/// The smallest lease.
const MIN_UNITS: u64 = 4;

/// A process leases at most this part of what is left, divided by the number of processes: so the units of all leases
/// together stay a small part, and little is denied here that is held elsewhere.
const SHARE: u64 = 4;

/// Shortest sub-window in which leases save calls: a few round trips.
const MIN_SUB_WINDOW_US: u64 = 50_000;

/// Whether callers of a limit can ever hold a lease.
pub(super) fn is_leasable(policy: &Policy, instances: u64) -> bool {
    policy.algorithm().spec().is_leasable
        && policy.sub_window_us() >= MIN_SUB_WINDOW_US
        && policy.max() >= MIN_UNITS * SHARE * instances
}

/// The state of a count after the last answer.
#[derive(Clone, Debug)]
pub(super) struct LastAnswer {
    state: State,
    /// Instant of the answer, by the server's clock.
    pub(super) at: u64,
    /// Instant before the call was written, by the local clock.
    asked_at: u64,
    /// Units that were left.
    pub(super) available: u64,
    /// The instant from which nothing counts, by the server's clock.
    pub(super) resets_at: u64,
}

impl LastAnswer {
    /// Notes the state of an answer. Returns it with what it said at that instant.
    pub(super) fn new(policy: &Policy, mut state: State, at: u64, asked_at: u64) -> (Self, Standing) {
        let standing = state.standing(policy, Timestamp::from_micros(at));
        let Standing { available, resets_at, .. } = standing;
        (Self { state, at, asked_at, available, resets_at }, standing)
    }

    /// The server's time at the local instant `now`, no earlier than it is there.
    pub(super) fn server_time(&self, now: u64) -> u64 {
        self.at + now.saturating_sub(self.asked_at)
    }

    /// The state of the answer.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Units of the next lease; 0 if it would not pay, or might deny a larger request.
    ///
    /// Half of the heat is what comes within half an interval to a whole one. A lease is never smaller than two of the
    /// largest requests: many small leases would take the units that such a request waits for.
    pub(super) fn lease_size(
        &mut self,
        policy: &Policy,
        heat: &Heat,
        interval: u64,
        instances: u64,
        now: u64,
    ) -> u64 {
        let asked = heat.units(now, interval);
        if asked < MIN_HEAT {
            return 0;
        }
        let at = self.server_time(now);
        let standing = self.state.standing(policy, Timestamp::from_micros(at));
        // Of a longer interval only that part counts in which a lease can be used.
        let horizon = interval.min(MAX_AGE_US);
        let demand = u128::from(asked / 2) * u128::from(horizon) / u128::from(interval);
        let spare = standing.use_by.map_or(0, |use_by| use_by.refill_while_full(policy, at, horizon / 2));
        let wanted = u64::try_from(demand).unwrap_or(u64::MAX).saturating_add(spare);
        let units = wanted.min(standing.available / SHARE.saturating_mul(instances));
        if units >= MIN_UNITS.max(heat.largest_cost.saturating_mul(2)) { units } else { 0 }
    }
}
