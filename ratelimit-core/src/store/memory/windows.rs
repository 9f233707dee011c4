//! Calendar windows in this process. They begin by the wall clock as it is set, and the store decides by a clock
//! that is never set. So a decision gets each window as it lies on the store's clock, and its outcome an instant
//! of the wall clock: a later refund finds the label by it.

use smallvec::SmallVec;

use super::MemoryStore;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::Charge;

impl MemoryStore {
    /// How far the wall clock is ahead of the store's, in microseconds.
    fn wall_clock_ahead_us(&self, now: Timestamp) -> i64 {
        self.clock.on_wall_clock(now).as_micros().wrapping_sub(now.as_micros()).cast_signed()
    }

    /// [Decides](Self::decide_group) about a group with calendar windows.
    #[cold]
    pub(super) fn decide_in_windows(
        &self,
        now: Timestamp,
        group: &[Check<'_>],
        operation: Operation,
    ) -> GroupOutcome {
        let ahead_us = self.wall_clock_ahead_us(now);
        let in_window =
            |check: &Check<'_>| check.policy().in_window_behind(now.on_clock_ahead(ahead_us), ahead_us);
        let policies: SmallVec<[Option<Policy>; 2]> = group.iter().map(in_window).collect();
        let checks = group.iter().zip(&policies);
        let checks: SmallVec<[Check<'_>; 2]> = checks
            .map(|(check, policy)| policy.as_ref().map_or(*check, |policy| check.with_policy(policy)))
            .collect();
        self.decide_at(now, &checks, operation).with_windows_on_wall_clock(group, ahead_us)
    }

    /// Calls `refund` with a charge and its calendar window, as these lie on the store's clock.
    pub(super) fn with_window(&self, charge: &Charge<'_>, now: Timestamp, refund: impl FnOnce(&Charge<'_>)) {
        let (check, ahead_us) = (charge.check(), self.wall_clock_ahead_us(now));
        match check.policy().in_window_behind(charge.at(), ahead_us) {
            Some(policy) => refund(&charge.behind(check.with_policy(&policy), ahead_us)),
            None => refund(charge),
        }
    }
}
