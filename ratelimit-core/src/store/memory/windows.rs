//! Calendar windows in this process. They begin by the wall clock as it is set, and the store decides by a
//! clock that is never set. So a decision gets each window as it lies on the store's clock, and its outcome
//! an instant of the wall clock: a later refund finds the label by it.

use smallvec::SmallVec;

use crate::check::Check;
use crate::clock::{Clock, Timestamp};
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::Charge;

/// How far the wall clock is ahead of the store's, in microseconds.
fn wall_clock_ahead_us(clock: &dyn Clock, now: Timestamp) -> i64 {
    clock.on_wall_clock(now).as_micros().wrapping_sub(now.as_micros()).cast_signed()
}

/// Calls `decide` with a group in its calendar windows.
#[cold]
pub(super) fn decide(
    clock: &dyn Clock,
    now: Timestamp,
    group: &[Check<'_>],
    decide: impl FnOnce(&[Check<'_>]) -> GroupOutcome,
) -> GroupOutcome {
    let ahead_us = wall_clock_ahead_us(clock, now);
    let wall_clock = now.on_clock_ahead(ahead_us);
    let policies = group.iter().map(|check| check.policy().in_window_behind(wall_clock, ahead_us));
    let policies: SmallVec<[Option<Policy>; 2]> = policies.collect();
    let checks = group.iter().zip(&policies);
    let checks: SmallVec<[Check<'_>; 2]> = checks
        .map(|(check, policy)| policy.as_ref().map_or(*check, |policy| check.with_policy(policy)))
        .collect();
    decide(&checks).with_windows_on_wall_clock(group, ahead_us)
}

/// Calls `refund` with a charge in its calendar window.
pub(super) fn refund(
    clock: &dyn Clock,
    now: Timestamp,
    charge: &Charge<'_>,
    refund: impl FnOnce(&Charge<'_>),
) {
    let (check, ahead_us) = (charge.check(), wall_clock_ahead_us(clock, now));
    match check.policy().in_window_behind(charge.at(), ahead_us) {
        Some(policy) => refund(&charge.behind(check.with_policy(&policy), ahead_us)),
        None => refund(charge),
    }
}
