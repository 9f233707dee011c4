//! What an algorithm's state can do.

use crate::policy::Policy;

/// What an algorithm's state can do. All instants and waits are in microseconds.
pub(super) trait Step {
    /// Brings the state to `now`; true when that has to be kept even if nothing is charged, because the clock went
    /// back or because finding out again would cost as much again.
    fn settle(&mut self, policy: &Policy, now: u64) -> bool;
    /// The most that a request may cost to pass at `now`, in a settled state. `None` when not even one that costs nothing
    /// passes: more is counted than the policy admits, since it was charged under a larger `max`.
    fn left(&self, policy: &Policy, now: u64) -> Option<u64>;
    /// Takes `cost`, which fits; then so much less is left.
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64);
    /// The instant from which nothing of what was charged counts any more; 0 when nothing was.
    fn resets_at(&self) -> u64;
    /// The smallest wait after which `cost`, which does not fit, would; `None` when it never can.
    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64>;
    /// Gives back what was charged at `at` and counts `until`, as far as it still does, and nothing else.
    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64);
}
