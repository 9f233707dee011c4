//! One lease: units of a count that the server has charged, and that this process may use later.
//!
//! Every unit is in one place: unused, used, given back, or expired.

use super::nodes::margin;
use crate::check::Check;

/// Longest life of a lease after its call was written, 1 s. It bounds how much more can pass because of
/// drifting clocks, pauses that no clock counts, and resets by other processes.
pub(super) const MAX_AGE_US: u64 = 1_000_000;

/// Upper bound of the server's time at the local instant `now`. The server decided a call at `at`, by its
/// clock. The call was written at or after the local instant `sent_at`.
///
/// The call was decided after it was written. So at most `now - sent_at` has passed since the decision.
const fn upper_bound(at: u64, sent_at: u64, now: u64) -> u64 {
    let age = now.saturating_sub(sent_at);
    at.saturating_add(age + margin(age))
}

/// The end of the window or sub-window that contains `at`, by the server's clock. Within it, a count does not
/// depend on the instant of a charge. So a unit that was charged at `at` may be used until this end as if it
/// were charged at its use.
pub(super) fn end_of_window(check: &Check<'_>, at: u64) -> u64 {
    let length = check.policy().sub_window_us();
    check.window.map_or(at - at % length + length, |window| window.before)
}

/// Units that one request for a lease has charged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// Units that may be used until `end`.
    pub(super) unused: u64,
    /// Units that were requested from the server.
    pub(super) size: u64,
    /// Instant of the charge, by the server's clock.
    pub(super) granted_at: u64,
    /// Instant before the call was written, by the local clock.
    pub(super) sent_at: u64,
    /// The end of the window or sub-window of the charge, by the server's clock.
    pub(super) end: u64,
    /// The instant from which the charge no longer counts, by the server's clock.
    pub(super) counts_until: u64,
    /// Instant of the last use, by the local clock.
    pub(super) last_used: u64,
    /// Units that were charged or put back.
    granted: u64,
    used: u64,
    expired: u64,
    returned: u64,
}

impl Lease {
    /// A lease of `size` units.
    pub(super) fn new(size: u64, granted_at: u64, sent_at: u64, end: u64, counts_until: u64) -> Self {
        Self {
            unused: size,
            size,
            granted_at,
            sent_at,
            end,
            counts_until,
            last_used: sent_at,
            granted: size,
            used: 0,
            expired: 0,
            returned: 0,
        }
    }

    /// Upper bound of the server's time at the local instant `now`.
    #[inline]
    pub(super) fn upper_bound(&self, now: u64) -> u64 {
        upper_bound(self.granted_at, self.sent_at, now)
    }

    /// The server's time of a use at the local instant `now`, or slightly later.
    #[inline]
    pub(super) fn used_at(&self, now: u64) -> u64 {
        self.granted_at + now.saturating_sub(self.sent_at)
    }

    /// Whether the units of the lease may no longer be used.
    #[inline]
    pub(super) fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.sent_at) > MAX_AGE_US || self.upper_bound(now) >= self.end
    }

    /// Uses `units` of the unused units.
    #[inline]
    pub(super) fn use_units(&mut self, units: u64, now: u64) {
        debug_assert!(!self.is_over(now), "used after its end");
        self.unused -= units;
        self.used += units;
        self.last_used = self.last_used.max(now);
        self.check();
    }

    /// Puts units back that a request of the same window or sub-window has used.
    pub(super) const fn put_back(&mut self, units: u64) {
        self.unused += units;
        self.granted += units;
    }

    /// Takes out the unused units, to be given back to the server.
    pub(super) fn give_back(&mut self) -> u64 {
        let units = std::mem::take(&mut self.unused);
        self.returned += units;
        self.check();
        units
    }

    /// Lets the unused units expire.
    pub(super) const fn expire(&mut self) {
        self.expired += std::mem::replace(&mut self.unused, 0);
    }

    /// Every unit is in exactly one place.
    fn check(&self) {
        debug_assert_eq!(
            self.granted,
            self.unused + self.used + self.expired + self.returned,
            "each unit of a lease is in one place"
        );
    }

    /// How many units were used, given back, and expired so far.
    pub(super) const fn tally(&self) -> [u64; 3] {
        [self.used, self.returned, self.expired]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::{Algorithm, Policy};

    #[test]
    fn the_bound_counts_from_the_call_with_a_margin_of_a_millisecond_and_a_thousandth() {
        assert_eq!(upper_bound(5_000_000, 70, 70), 5_001_000);
        assert_eq!(upper_bound(5_000_000, 70, 500_070), 5_000_000 + 500_000 + 1_000 + 500);
        assert_eq!(
            upper_bound(5_000_000, 70, 10),
            5_001_000,
            "another thread may have read the clock earlier"
        );
    }

    #[test]
    fn units_end_with_their_window_or_sub_window() {
        let builder = Policy::builder("k").window(Duration::from_secs(1));
        for (policy, end) in [
            (builder.algorithm(Algorithm::FixedWindow).build(), 8_000_000),
            (builder.build(), 8_000_000),
            (builder.sub_windows(10).build(), 7_400_000),
        ] {
            let end_of_window = |at| end_of_window(&Check::new(&policy, ""), at);
            assert_eq!(end_of_window(7_300_001), end, "{policy:?}");
            assert_eq!(end_of_window(end - 1), end, "{policy:?}");
            assert!(end_of_window(end) > end, "{policy:?}");
        }
    }
}
