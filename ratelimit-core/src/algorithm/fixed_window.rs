//! Fixed window: one count, which starts anew at every multiple of the window since the epoch.
//!
//! ```text
//! fits         count + cost <= max
//! remaining    max - count
//! reset_after  start + window - now      (0 when nothing is counted)
//! retry_after  start + window - now      (never when cost > max)
//! ```
//!
//! Two windows' worth can pass around an edge: `max` just before it and `max` just after. One count of state, constant
//! time. The method is as old as quotas, and is what RFC 6585, section 4, has in mind for status 429.
//!
//! When the clock goes back behind the stored window, the count opens a window of its own at `now`: it is kept, and
//! nobody waits longer than one window. The next window is again a multiple of the window's length, so that for each step
//! back up to `max` more can pass than without it.
//!
//! Twin: `lua/fixed_window.lua`.

use super::Step;
use super::small::{Count, Micros};
use crate::policy::Policy;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// First instant of the window that is counted.
    start: Micros,
    /// Units admitted since.
    count: Count,
}

impl State {
    pub(super) fn found(start: u64, count: u64) -> Self {
        let mut state = Self::default();
        state.start.set(start);
        state.count.set(count);
        state
    }
}

impl Step for State {
    fn settle(&mut self, policy: &Policy, now: u64) -> bool {
        let window = policy.window_us();
        let went_back = self.count.get() > 0 && now < self.start.get();
        if went_back {
            self.start.set(now);
        } else if self.count.get() == 0 || now - self.start.get() >= window {
            self.start.set(now - now % window);
            self.count.set(0);
        }
        went_back
    }

    fn fits(&self, policy: &Policy, _now: u64, cost: u64) -> bool {
        self.count.get().saturating_add(cost) <= policy.max()
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, cost: u64) {
        self.count.set(self.count.get() + cost);
    }

    fn remaining(&self, policy: &Policy, _now: u64) -> u64 {
        policy.max().saturating_sub(self.count.get())
    }

    fn resets_at(&self, policy: &Policy) -> u64 {
        if self.count.get() == 0 { 0 } else { self.start.get() + policy.window_us() }
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.max()).then(|| self.start.get() + policy.window_us() - now)
    }

    fn refund(&mut self, policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if self.start.get() <= at && at - self.start.get() < policy.window_us() {
            self.count.set(self.count.get().saturating_sub(cost));
        }
    }
}
