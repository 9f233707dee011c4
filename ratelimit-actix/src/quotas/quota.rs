//! What one limit decided about one request, and which of several limits is the tightest.

use std::fmt;
use std::mem;
use std::time::Duration;

use ratelimit_core::{Check, Outcome, Policy, Timestamp};
use smallvec::SmallVec;

use super::policy_ref::PolicyRef;

/// What one limit decided about the request.
#[derive(Clone, Debug)]
pub struct Quota {
    policy: PolicyRef,
    partition: HiddenPartition,
    /// That of the last decision.
    outcome: Outcome,
    charges: Charges,
}

/// What the limit was charged for the request, until that is settled or refunded.
#[derive(Clone, Debug, Default)]
enum Charges {
    /// What the outcome says.
    #[default]
    OfOutcome,
    /// The outcomes of all charges, after a further charge, or after the outcome has been replaced.
    Outcomes(Vec<Outcome>),
    Closed(Closed),
}

/// The outcome of each charge of one limit for one request, in their order.
pub(crate) type ChargeOutcomes = SmallVec<[Outcome; 1]>;

/// What became of charges that cannot be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// They are settled, or are going to be.
    Settled,
    /// They are refunded after the response.
    Refunded,
}

/// Whose count it is; `Debug` hides it from logs.
#[derive(Clone)]
struct HiddenPartition(SmallVec<[u8; 40]>);

impl fmt::Debug for HiddenPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Quota {
    pub(crate) fn new(policy: PolicyRef, check: &Check<'_>, outcome: Outcome) -> Self {
        let partition = HiddenPartition(SmallVec::from_slice(check.partition()));
        Self { policy, partition, outcome, charges: Charges::default() }
    }

    /// The policy of the limit: its `max` and window, its algorithm, and its name in metrics.
    ///
    /// For a limit whose `max` is computed for each request, it has the `max` of this request.
    pub fn policy(&self) -> &Policy {
        self.policy.policy()
    }

    /// The name of the limit in header fields and response bodies.
    ///
    /// This is the policy's name, or the function's name for an attribute without `key` and `name`. If several limits of one
    /// response have the same name, the header fields number the later ones: `-2`, `-3`.
    pub fn name(&self) -> &str {
        self.policy.public_name()
    }

    /// Whether the limit is a [shadow limit](ratelimit_core::Mode::Shadow), which denies nothing and is not told to clients. Its
    /// [outcome](Self::outcome) tells what it [would deny](Outcome::would_deny).
    pub fn is_shadow(&self) -> bool {
        self.outcome.is_shadow()
    }

    /// The decision, and what is left of the quota.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether this is the name of the limit or of its policy.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.policy.is_named(name)
    }

    /// Replaces the outcome by one that charged nothing.
    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        let before = mem::replace(&mut self.outcome, outcome);
        if matches!(self.charges, Charges::OfOutcome) {
            self.charges = Charges::Outcomes(vec![before]);
        }
    }

    /// Replaces the outcome by that of a further charge.
    pub(super) fn add_charge(&mut self, outcome: Outcome) {
        self.set_outcome(outcome.clone());
        if let Charges::Outcomes(outcomes) = &mut self.charges {
            outcomes.push(outcome);
        }
    }

    /// Closes the charges for `reason`, and returns the outcome of each. An error if they are closed.
    pub(super) fn close(&mut self, reason: Closed) -> Result<ChargeOutcomes, Closed> {
        match mem::replace(&mut self.charges, Charges::Closed(reason)) {
            Charges::OfOutcome => Ok(ChargeOutcomes::from_iter([self.outcome.clone()])),
            Charges::Outcomes(outcomes) => Ok(outcomes.into()),
            Charges::Closed(before) => {
                self.charges = Charges::Closed(before);
                Err(before)
            }
        }
    }

    /// A check of the same limit for the same caller.
    pub(super) fn check(&self) -> Check<'_> {
        Check::new(self.policy(), &self.partition.0[..])
    }

    /// Whether this request, or another one of cost 1, has to wait.
    pub(crate) fn is_exhausted(&self) -> bool {
        !self.outcome.is_allowed() || self.outcome.remaining() == 0
    }

    /// The instant from which at least one unit is available.
    pub(crate) fn available_at(&self) -> Timestamp {
        self.outcome.at().saturating_add(self.outcome.available_after())
    }

    /// Time in which the whole quota comes back: the window, or for a token bucket the time to fill it.
    pub(crate) fn effective_window(&self) -> Duration {
        let policy = self.policy();
        let max = u128::from(policy.max());
        let micros = policy.window().as_micros() * u128::from(policy.capacity());
        Duration::from_micros(u64::try_from(micros.div_ceil(max)).unwrap_or(u64::MAX))
    }

    /// Larger for the longer wait; without a wait, larger for fewer units left.
    fn tightness(&self) -> (bool, bool, u64, Timestamp) {
        let is_never = !self.outcome.is_allowed() && self.outcome.retry_after().is_none();
        let left = if self.is_exhausted() { 0 } else { self.outcome.remaining() };
        (is_never, self.is_exhausted(), u64::MAX - left, self.available_at())
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
    // Among equals `max_by_key` takes the last; the first in the source should win.
    quotas.iter().rev().copied().max_by_key(|quota| quota.tightness())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ratelimit_core::Decision;

    use super::*;

    fn quota(policy: Policy, partition: &str) -> Quota {
        let outcome = Outcome::new(1, Decision::Allowed);
        let policy = Arc::new(policy);
        Quota::new(PolicyRef::Shared(Arc::clone(&policy)), &Check::new(&policy, partition), outcome)
    }

    #[test]
    fn debug_does_not_show_the_caller() {
        let quota = quota(Policy::new("policy", 1, Duration::from_secs(1)), "AAAA");
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
            quota(policy, "").effective_window()
        };
        assert_eq!(window(5, 20), Duration::from_secs(4));
        assert_eq!(window(5, 5), Duration::from_secs(1));
        assert_eq!(window(3, 1), Duration::from_micros(333_334));
    }
}
