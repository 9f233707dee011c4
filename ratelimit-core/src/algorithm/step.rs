//! The steps of a decision, which every algorithm's state implements.

use crate::outcome::Verdict;
use crate::policy::Policy;

/// State of one caller under one policy. All instants and waits are in microseconds.
pub(super) trait Step {
    /// Advances the state to `now`. Returns true if the advanced state must be stored even when nothing is charged.
    ///
    /// That is so if the clock went back, if the state counts for longer than it did, or if advancing again would cost as much again.
    fn advance(&mut self, policy: &Policy, now: u64) -> bool;

    /// Units available at `now`, in an advanced state. `None` if the count exceeds `max`, which happens after `max` was
    /// lowered and after a settlement; then not even a cost of 0 passes.
    fn available(&self, policy: &Policy, now: u64) -> Option<u64>;

    /// Charges `cost`, which is available.
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64);

    /// The instant from which nothing that was charged counts; 0 if nothing was charged.
    fn resets_at(&self) -> u64;

    /// By how much later than [`resets_at`](Self::resets_at) a reservation says that its charge ends.
    fn given_us(&self) -> u64 {
        0
    }

    /// The smallest wait after which `cost`, which is not available, is; `None` if it exceeds the limit.
    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64>;

    /// Whether what is charged is held until it is freed.
    fn holds_slots(&self) -> bool {
        false
    }

    /// The denial of `cost`, which is not available.
    fn denial(&self, policy: &Policy, now: u64, cost: u64) -> Verdict {
        Verdict::denied(self.retry_after(policy, now, cost))
    }

    /// Refunds what was charged at `at` and counts until `until`, as far as it still counts.
    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64);
}
