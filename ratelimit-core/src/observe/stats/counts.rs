//! The counters of one limit: atomics that every decision adds to, and the last minutes as bars of equal
//! time, which are differences between the totals at their ends.

use std::collections::VecDeque;
use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::observe::Counted;
use crate::policy::Policy;

/// Maximum number of policies with one name that are kept.
const MAX_POLICIES: usize = 8;

/// The counters of one limit, shared by the tables that name it. On a cache line of their own, so that two
/// busy limits do not slow each other.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct LimitCounts {
    admitted: AtomicU64,
    denied: AtomicU64,
    passed: AtomicU64,
    would_deny: AtomicU64,
    near_limit: AtomicU64,
    degraded: AtomicU64,
    unavailable: AtomicU64,
    held: AtomicU64,
    name: Box<str>,
    /// Policies that do not share their counts.
    policies: Mutex<Vec<Policy>>,
    recent: Mutex<Recent>,
}

impl LimitCounts {
    pub(super) fn new(name: &str) -> Self {
        Self {
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            would_deny: AtomicU64::new(0),
            near_limit: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
            unavailable: AtomicU64::new(0),
            held: AtomicU64::new(0),
            name: name.into(),
            policies: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    pub(crate) const fn name(&self) -> &str {
        &self.name
    }

    /// Keeps a policy, unless one with the same states is kept.
    #[cold]
    pub(super) fn keep(&self, policy: &Policy) {
        let mut policies = self.policies.lock();
        let is_kept = policies.iter().any(|kept| kept.state_id() == policy.state_id());
        if !is_kept && policies.len() < MAX_POLICIES {
            policies.push(policy.clone());
        }
    }

    pub(super) fn policies(&self) -> Vec<Policy> {
        self.policies.lock().clone()
    }

    #[inline]
    pub(super) fn record(&self, decided: Counted, is_near_limit: bool) {
        let counter = match decided {
            Counted::Admitted => &self.admitted,
            Counted::Denied => &self.denied,
            Counted::Passed => &self.passed,
            Counted::WouldDeny => &self.would_deny,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if is_near_limit {
            self.near_limit.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn record_degraded(&self, is_decided: bool) {
        let counter = if is_decided { &self.degraded } else { &self.unavailable };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts slots that are held, or are no longer.
    pub(crate) fn hold(&self, slots: u64, are_held: bool) {
        let change = if are_held { AtomicU64::fetch_add } else { AtomicU64::fetch_sub };
        change(&self.held, slots, Ordering::Relaxed);
    }

    /// Slots that are held.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            admitted: read(&self.admitted),
            denied: read(&self.denied),
            passed: read(&self.passed),
            would_deny: read(&self.would_deny),
            near_limit: read(&self.near_limit),
            degraded: read(&self.degraded),
            unavailable: read(&self.unavailable),
        }
    }

    /// Ends all bars before the one with this number.
    pub(super) fn begin_bar(&self, bar: u64) {
        self.recent.lock().begin(bar, self.totals());
    }

    /// The bars so far, with the present one.
    pub(super) fn recent(&self, bar: u64) -> Vec<Totals> {
        self.recent.lock().bars(bar, self.totals())
    }
}

/// Number of bars of [`LimitStats::recent`](super::LimitStats::recent): ten minutes.
pub const BARS: usize = 120;

/// Length of a bar, in seconds.
pub const BAR_SECONDS: u64 = 5;

/// Number of bars of the last minute.
pub(super) const BARS_PER_MINUTE: usize = BARS / 10;

/// Counts of requests under one limit, by this process. Each is the sum of a metric.
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
    /// The limit was decided without the store, which had not answered in time. These are also counted above.
    pub degraded: u64,
    /// Neither admitted nor denied: the store did not answer in time, and a limit of the request fails
    /// closed.
    pub unavailable: u64,
}

impl Totals {
    /// Joins each count with the same count of other totals.
    fn join(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            admitted: join(self.admitted, other.admitted),
            denied: join(self.denied, other.denied),
            passed: join(self.passed, other.passed),
            would_deny: join(self.would_deny, other.would_deny),
            near_limit: join(self.near_limit, other.near_limit),
            degraded: join(self.degraded, other.degraded),
            unavailable: join(self.unavailable, other.unavailable),
        }
    }

    /// What was counted since earlier totals.
    fn since(self, earlier: Self) -> Self {
        self.join(earlier, |now, then| now - then)
    }
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum.join(one, |sum, one| sum + one))
    }
}

/// Requests under one limit in [`BAR_SECONDS`], each counted once.
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
    /// Requests that failed closed, because the store did not answer in time.
    pub unavailable: u64,
}

impl From<Totals> for Bar {
    fn from(Totals { admitted, denied, passed, would_deny, unavailable, .. }: Totals) -> Self {
        Self { admitted, denied, passed, would_deny, unavailable }
    }
}

/// The ended bars of one limit.
#[derive(Debug, Default)]
pub(super) struct Recent {
    ended: VecDeque<Totals>,
    /// Number of the present bar; `None` before the first.
    present: Option<u64>,
    /// Totals at the begin of the present bar.
    at_begin: Totals,
}

impl Recent {
    /// Ends the present bar, and begins the one with this number. Bars between them are empty: their time has
    /// passed without a call, and its decisions are in the bar that ends.
    pub(super) fn begin(&mut self, bar: u64, totals: Totals) {
        // The first bar of a limit began with it.
        let present =
            self.present.unwrap_or(if totals == Totals::default() { bar } else { bar - bar.min(1) });
        if self.present.is_some() || present != bar {
            let Some(passed @ 1..) = bar.checked_sub(present) else { return };
            self.ended.push_back(totals.since(self.at_begin));
            for _ in 1..passed.min(BARS as u64) {
                self.ended.push_back(Totals::default());
            }
            let surplus = self.ended.len().saturating_sub(BARS - 1);
            self.ended.drain(..surplus);
        }
        self.present = Some(bar);
        self.at_begin = totals;
    }

    /// The ended bars and the present one.
    pub(super) fn bars(&mut self, bar: u64, totals: Totals) -> Vec<Totals> {
        if self.present.is_some() {
            self.begin(bar, totals);
        }
        let present = totals.since(self.at_begin);
        self.ended.iter().copied().chain([present]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(admitted: u64) -> Totals {
        Totals { admitted, ..Totals::default() }
    }

    fn admitted(bars: &[Totals]) -> Vec<u64> {
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
