//! What one limit decided about one request, and which of several limits is the tightest.

use std::time::Duration;
use std::{mem, slice};

use actix_web::http::StatusCode;
use ratelimit_core::{Check, Outcome, Policy, Timestamp};
use smallvec::SmallVec;

use super::applied_limit::AppliedLimit;

/// What one limit decided about the request.
#[derive(Clone, Debug)]
pub struct Quota {
    limit: AppliedLimit,
    /// That of the last decision.
    outcome: Outcome,
    /// The outcomes of all charges, after a further charge, or after the outcome has been replaced. Empty before that: the only
    /// charge is the one that `outcome` tells.
    charges: Vec<Outcome>,
    closed: Option<Closed>,
}

/// What became of charges that cannot be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// They are settled, or are going to be.
    Settled,
    /// They are refunded after the response.
    Refunded,
}

impl Quota {
    #[inline]
    pub(crate) fn new(limit: AppliedLimit, outcome: Outcome) -> Self {
        Self { limit, outcome, charges: Vec::new(), closed: None }
    }

    /// The policy of the limit: its `max` and window, its algorithm, and its name in metrics.
    ///
    /// For a limit whose `max` is computed for each request, it has the `max` of this request.
    pub fn policy(&self) -> &Policy {
        self.limit.policy.policy()
    }

    /// The name of the limit in header fields and response bodies.
    ///
    /// This is the policy's name, or the function's name for an attribute without `key` and `name`. If several limits of one
    /// response have the same name, the header fields number the later ones: `-2`, `-3`.
    pub fn name(&self) -> &str {
        self.limit.policy.public_name()
    }

    /// Whether the limit is a [shadow limit](ratelimit_core::Mode::Shadow), which denies nothing and is not told to clients. Its
    /// [outcome](Self::outcome) tells what it [would deny](Outcome::would_deny).
    pub fn is_shadow(&self) -> bool {
        self.outcome.is_shadow()
    }

    /// Whether the limit counts what runs at a time: then what is left are free slots.
    pub(crate) fn is_concurrency(&self) -> bool {
        self.policy().is_concurrency()
    }

    /// The decision, and what is left of the quota.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether this is the name of the limit or of its policy.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.limit.policy.is_named(name)
    }

    /// Whether a response with this status counts under the limit.
    pub(super) fn counts(&self, status: StatusCode) -> bool {
        self.limit.count.includes(status)
    }

    /// The outcome of each charge, in their order.
    pub(super) fn charges(&self) -> &[Outcome] {
        if self.charges.is_empty() { slice::from_ref(&self.outcome) } else { &self.charges }
    }

    /// Replaces the outcome by one that charged nothing.
    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        let before = mem::replace(&mut self.outcome, outcome);
        if self.charges.is_empty() {
            self.charges.push(before);
        }
    }

    /// Replaces the outcome by that of a further charge.
    pub(super) fn add_charge(&mut self, outcome: Outcome) {
        self.set_outcome(outcome.clone());
        self.charges.push(outcome);
    }

    /// Closes the charges for `reason`. An error if they are closed.
    pub(super) fn close(&mut self, reason: Closed) -> Result<(), Closed> {
        if let Some(before) = self.closed {
            return Err(before);
        }
        self.closed = Some(reason);
        Ok(())
    }

    /// A check of the same limit for the same caller.
    pub(super) fn check(&self) -> Check<'_> {
        self.limit.check()
    }

    /// Whether this request, or another one of cost 1, has to wait.
    pub(crate) fn is_exhausted(&self) -> bool {
        !self.outcome.is_allowed() || self.outcome.remaining() == 0
    }

    /// The instant from which at least one unit is available.
    pub(crate) fn available_at(&self) -> Timestamp {
        self.outcome.at().saturating_add(self.outcome.available_after())
    }

    /// Time in which the whole quota comes back: the window of the decision, or for a token bucket the time to fill it.
    pub(crate) fn effective_window(&self) -> Duration {
        let policy = self.policy();
        let max = u128::from(policy.max());
        let micros = policy.window_at(self.outcome.at()).as_micros() * u128::from(policy.capacity());
        Duration::from_micros(u64::try_from(micros.div_ceil(max)).unwrap_or(u64::MAX))
    }

    /// Larger for the longer wait, of which that for a slot is unknown; without a wait, larger for fewer units left.
    fn tightness(&self) -> (bool, bool, bool, u64, Timestamp) {
        let is_busy = self.outcome.is_busy();
        let is_never = !self.outcome.is_allowed() && self.outcome.retry_after().is_none() && !is_busy;
        let left = if self.is_exhausted() { 0 } else { self.outcome.remaining() };
        (is_never, is_busy, self.is_exhausted(), u64::MAX - left, self.available_at())
    }
}

/// The quotas that a client may know of: those of enforced limits.
pub(crate) fn told<'a>(quotas: impl IntoIterator<Item = &'a Quota>) -> SmallVec<[&'a Quota; 4]> {
    quotas.into_iter().filter(|quota| !quota.is_shadow()).collect()
}

/// The quota that matters most to a client.
///
/// Among limits that denied the request or have nothing left, this is the one with the longest wait: after it, the next
/// request passes all of them. Otherwise it is the one with the fewest units left, and among equals the one that resets last.
pub(crate) fn tightest<'a>(quotas: &[&'a Quota]) -> Option<&'a Quota> {
    if let [only] = quotas {
        return Some(only);
    }
    // Among equals `max_by_key` takes the last; the first in the source should win.
    quotas.iter().rev().copied().max_by_key(|quota| quota.tightness())
}

#[cfg(test)]
mod tests {
    use ratelimit_core::Decision;

    use super::*;

    fn quota(policy: &Policy, caller: &str) -> Quota {
        Quota::new(AppliedLimit::of(&Check::new(policy, caller)), Outcome::new(1, Decision::Allowed))
    }

    #[test]
    fn debug_does_not_show_the_caller() {
        let quota = quota(&Policy::new("policy", 1, Duration::from_secs(1)), "AAAA");
        let shown = format!("{quota:?}");
        assert!(!shown.contains("AAAA") && !shown.contains("65, 65"), "{shown}");
    }

    #[test]
    fn a_token_bucket_needs_longer_than_its_window_to_fill() {
        let window = |max, burst| {
            let policy = Policy::builder("b")
                .algorithm(ratelimit_core::Algorithm::TokenBucket)
                .max(max)
                .burst(burst)
                .window(Duration::from_secs(1))
                .build();
            quota(&policy, "").effective_window()
        };
        assert_eq!(window(5, 20), Duration::from_secs(4));
        assert_eq!(window(5, 5), Duration::from_secs(1));
        assert_eq!(window(3, 1), Duration::from_micros(333_334));
    }
}
