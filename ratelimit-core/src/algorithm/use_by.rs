//! Use-by: until when units that were charged ahead may be used.

use super::mul_div::mul_div;
use super::rational::Rational;
use crate::policy::Policy;

/// Until when units of one charge may be used, by the store's clock.
///
/// A use at an instant before that decides as if its units had been charged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseBy {
    /// All units, before the end of their window, or of their sub-window of a counter. A count does not know when in its
    /// window a unit was charged.
    Before(u64),
    /// Each unit of a token bucket has an instant of its own: with `n` units left, they may be used until the theoretical
    /// arrival time after the charge, less the time in which `n` units refill. So units evaporate as fast as the bucket
    /// would have refilled.
    Refill(Rational),
}

impl UseBy {
    /// How many of `units` may be used at `now`.
    #[inline]
    pub(crate) fn usable(self, policy: &Policy, units: u64, now: u64) -> u64 {
        match self {
            Self::Before(end) => {
                if now < end {
                    units
                } else {
                    0
                }
            }
            Self::Refill(end) => units.min(refilled(policy, end, now)),
        }
    }

    /// The last instant, rounded down, at which all of `units` may be used.
    pub(crate) fn last_instant(self, policy: &Policy, units: u64) -> u64 {
        match self {
            Self::Before(end) => end.saturating_sub(1),
            Self::Refill(end) => {
                let (micros, fraction) = mul_div(units, policy.window_us(), policy.max());
                end.micros.saturating_sub(micros + u64::from(fraction > end.fraction))
            }
        }
    }

    /// Whether units evaporate one by one, so that they must never be given back.
    pub(crate) const fn evaporates(self) -> bool {
        matches!(self, Self::Refill(_))
    }

    /// Units that refill in the part of `span` that the bucket is not in arrears: while it is full, taking them costs no
    /// other caller anything. 0 for windows.
    pub(crate) fn refill_while_full(self, policy: &Policy, now: u64, span: u64) -> u64 {
        match self {
            Self::Before(_) => 0,
            Self::Refill(tat) => {
                let missing = span.saturating_sub(tat.micros.saturating_sub(now));
                mul_div(missing, policy.max(), policy.window_us()).0
            }
        }
    }
}

/// Units that refill from `now` until `end`, rounded down.
fn refilled(policy: &Policy, end: Rational, now: u64) -> u64 {
    let Some(micros) = end.micros.checked_sub(now) else { return 0 };
    let (units, rest) = mul_div(micros, policy.max(), policy.window_us());
    units.saturating_add((rest + end.fraction) / policy.window_us())
}
