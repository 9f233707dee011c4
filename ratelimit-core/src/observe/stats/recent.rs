//! The decisions of the last minutes, as bars of equal time: differences between the totals at their ends.

use std::collections::VecDeque;

use serde::Serialize;

/// Number of bars of [`LimitStats::recent`](super::LimitStats::recent): ten minutes.
pub const BARS: usize = 120;

/// Length of a bar, in seconds.
pub const BAR_SECONDS: u64 = 5;

/// Counts of decisions about one limit, by this process. Each is the sum of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// The request was admitted.
    pub admitted: u64,
    /// The limit denied the request.
    pub denied: u64,
    /// The limit passed, but another limit of the request denied it. Nothing was charged.
    pub passed: u64,
    /// The limit is a shadow limit, and would have denied the request.
    pub would_deny: u64,
    /// The request was admitted, and less than a tenth of the limit was left, or another
    /// [share](crate::RateLimiterBuilder::near_limit_ratio).
    pub near_limit: u64,
    /// The limit was decided without the store, during an outage. Those that failed closed are only counted here.
    pub degraded: u64,
}

/// Decisions about one limit in [`BAR_SECONDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Bar {
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that the limit denied.
    pub denied: u64,
    /// Requests that passed the limit, and that another limit denied.
    pub passed: u64,
    /// Requests that a shadow limit would have denied.
    pub would_deny: u64,
}

impl Bar {
    const fn between(earlier: Totals, later: Totals) -> Self {
        Self {
            admitted: later.admitted - earlier.admitted,
            denied: later.denied - earlier.denied,
            passed: later.passed - earlier.passed,
            would_deny: later.would_deny - earlier.would_deny,
        }
    }
}

/// The ended bars of one limit.
#[derive(Debug, Default)]
pub(super) struct Recent {
    ended: VecDeque<Bar>,
    /// Number of the present bar; `None` before the first.
    present: Option<u64>,
    /// Totals at the begin of the present bar.
    at_begin: Totals,
}

impl Recent {
    /// Ends the present bar, and begins the one with this number. Bars between them are empty: their time has passed without a
    /// call, and its decisions are in the bar that ends.
    pub(super) fn begin(&mut self, bar: u64, totals: Totals) {
        // The first bar of a limit began with it.
        let present =
            self.present.unwrap_or(if totals == Totals::default() { bar } else { bar - bar.min(1) });
        if self.present.is_some() || present != bar {
            let Some(passed @ 1..) = bar.checked_sub(present) else { return };
            self.ended.push_back(Bar::between(self.at_begin, totals));
            for _ in 1..passed.min(BARS as u64) {
                self.ended.push_back(Bar::default());
            }
            let surplus = self.ended.len().saturating_sub(BARS - 1);
            self.ended.drain(..surplus);
        }
        self.present = Some(bar);
        self.at_begin = totals;
    }

    /// The ended bars and the present one.
    pub(super) fn bars(&mut self, bar: u64, totals: Totals) -> Vec<Bar> {
        if self.present.is_some() {
            self.begin(bar, totals);
        }
        let present = Bar::between(self.at_begin, totals);
        self.ended.iter().copied().chain([present]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(admitted: u64) -> Totals {
        Totals { admitted, ..Totals::default() }
    }

    fn admitted(bars: &[Bar]) -> Vec<u64> {
        bars.iter().map(|bar| bar.admitted).collect()
    }

    #[test]
    fn a_bar_has_the_decisions_between_its_ends() {
        let mut recent = Recent::default();
        assert_eq!(admitted(&recent.bars(7, totals(2))), [2], "all so far, without a sample");
        recent.begin(7, totals(2));
        recent.begin(7, totals(3));
        recent.begin(8, totals(5));
        assert_eq!(admitted(&recent.bars(8, totals(9))), [2, 3, 4], "the first bar is not lost");
        assert_eq!(admitted(&recent.bars(10, totals(9))), [2, 3, 4, 0, 0], "two bars later");
        recent.begin(9, totals(10));
        assert_eq!(admitted(&recent.bars(10, totals(10))), [2, 3, 4, 0, 1], "a bar that is over stays so");
    }

    #[test]
    fn the_number_of_bars_is_bounded() {
        let mut recent = Recent::default();
        for bar in 0..1_000 {
            recent.begin(bar, totals(bar));
        }
        let bars = recent.bars(999, totals(1_000));
        assert_eq!((bars.len(), bars[0].admitted), (BARS, 1));
        assert_eq!(admitted(&recent.bars(u64::MAX, totals(1_000))), [0; BARS], "after a long time");
    }
}
