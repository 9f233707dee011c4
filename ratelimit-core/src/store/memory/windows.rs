//! Calendar windows in this process. They begin by the wall clock as it is set, and the store decides by a
//! clock that is never set. So a decision gets each window as it lies on the store's clock, and its outcome
//! an instant of the wall clock: a later refund finds the label by it.

use smallvec::SmallVec;

use crate::check::Check;
use crate::clock::{Clock, Timestamp};
use crate::outcome::GroupOutcome;
use crate::reservation::Charge;

/// How far the wall clock is ahead of the store's, in microseconds.
fn wall_clock_ahead_us(clock: &dyn Clock, now: Timestamp) -> i64 {
    clock.on_wall_clock(now).as_micros().wrapping_sub(now.as_micros()).cast_signed()
}

/// Calls `judge` with a group in its calendar windows.
#[cold]
pub(super) fn judge(
    clock: &dyn Clock,
    now: Timestamp,
    group: &[Check<'_>],
    judge: impl FnOnce(&[Check<'_>]) -> GroupOutcome,
) -> GroupOutcome {
    let ahead_us = wall_clock_ahead_us(clock, now);
    let wall_clock = now.on_clock_ahead(ahead_us);
    let checks = group.iter().map(|check| check.in_window(wall_clock, -ahead_us));
    let checks: SmallVec<[Check<'_>; 2]> = checks.collect();
    judge(&checks).with_windows_on_wall_clock(group, ahead_us)
}

/// A charge in its calendar window.
pub(super) fn of_charge<'c>(clock: &dyn Clock, now: Timestamp, charge: &'c Charge<'_>) -> Charge<'c> {
    let has_calendar = charge.check().policy().calendar().is_some();
    charge.in_window(if has_calendar { -wall_clock_ahead_us(clock, now) } else { 0 })
}
