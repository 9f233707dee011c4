//! What one limit decided about one request.

use std::mem;
use std::slice;
use std::time::Duration;

use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::PrivatePolicy as _;
use ratelimit_core::{Decision, Outcome, Policy};
use smallvec::SmallVec;

use crate::applied_limit::AppliedLimit;
use crate::written_limit::count::Show;

/// What one limit decided about the request.
#[derive(Clone, Debug)]
pub struct Quota {
    pub(super) limit: AppliedLimit,
    /// What is left after the last charge, refund or settlement.
    left: Outcome,
    /// The outcome of each charge, the decision about the request first. Empty until something changes
    /// `left`, which is the only charge until then: most requests need no allocation.
    charges: Vec<Outcome>,
    closed: Option<Closed>,
}

/// What follows a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Correction {
    /// The response does not count, and the request was charged.
    Refund,
    /// The response counts, and the request was charged nothing so far.
    Charge,
}

/// Why the charges cannot be settled any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// A settlement is done, or has begun.
    Settled,
    /// A refund follows the response.
    Refunded,
}

impl Quota {
    #[inline]
    pub(crate) fn new(limit: AppliedLimit, outcome: Outcome) -> Self {
        Self { limit, left: outcome, charges: Vec::new(), closed: None }
    }

    /// The policy of the limit: its `max` and window, its algorithm, and its name in metrics.
    ///
    /// For a limit whose `max` is computed for each request, it has the `max` of this request.
    pub fn policy(&self) -> &Policy {
        self.limit.policy()
    }

    /// The name of the limit in header fields and response bodies.
    ///
    /// This is the policy's name, or the function's name for an attribute without `key` and `name`. If
    /// several limits of one response have the same name, the header fields number the later ones: `-2`,
    /// `-3`.
    pub fn name(&self) -> &str {
        self.limit.written.public_name()
    }

    /// Whether the limit is a [shadow limit](ratelimit_core::Mode::Shadow), which denies nothing and is not
    /// shown to clients. Its [outcome](Self::outcome) says whether it [would deny](Outcome::would_deny).
    pub fn is_shadow(&self) -> bool {
        self.answer().is_shadow()
    }

    /// Whether clients see the limit.
    pub(crate) fn is_shown(&self) -> bool {
        !self.is_shadow() && (self.limit.show() == Show::Always || !self.answer().is_allowed())
    }

    /// False for a concurrency limit, whose slots are freed when the request ends.
    pub(crate) fn is_rate(&self) -> bool {
        !self.policy().is_concurrency()
    }

    /// Whether the request is charged before its response.
    pub(super) fn is_charged(&self) -> bool {
        self.is_rate() && !self.limit.charges_after()
    }

    /// The decision, and what is left of the quota.
    pub fn outcome(&self) -> &Outcome {
        &self.left
    }

    /// What the limit is charged or refunded because of a response with this status.
    pub(super) fn correction(&self, status: StatusCode) -> Option<Correction> {
        let counts = self.limit.written.count.includes(status);
        match (counts, self.limit.charges_after()) {
            (false, false) => Some(Correction::Refund),
            (true, true) => Some(Correction::Charge),
            _ => None,
        }
    }

    /// The outcome of each charge, in their order.
    pub(super) fn charges(&self) -> &[Outcome] {
        if self.charges.is_empty() { slice::from_ref(&self.left) } else { &self.charges }
    }

    /// The decision about the request, which is the first charge.
    fn answer(&self) -> &Outcome {
        self.charges.first().unwrap_or(&self.left)
    }

    /// Whether the decision about the request was made by the local fallback.
    pub(super) fn was_degraded(&self) -> bool {
        self.answer().is_degraded()
    }

    /// Replaces what is left. The first time, the decision becomes the first of the charges.
    pub(super) fn set_left(&mut self, left: Outcome) {
        let before = mem::replace(&mut self.left, left);
        if self.charges.is_empty() {
            self.charges.push(before);
        }
    }

    /// Notes a further charge.
    pub(super) fn add_charge(&mut self, outcome: Outcome) {
        self.set_left(outcome.clone());
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

    /// Whether both charge one count of one caller. A limit with a cost of 0 charges nothing.
    pub(super) fn shares_count_with(&self, other: &Self) -> bool {
        let [one, two] = [&self.limit, &other.limit];
        self.policy().state_id() == other.policy().state_id()
            && *one.caller == *two.caller
            && one.cost > 0
            && two.cost > 0
    }

    /// Whether the request was denied, or nothing is left.
    pub(crate) fn is_exhausted(&self) -> bool {
        let outcome = self.outcome();
        !outcome.is_allowed() || outcome.remaining() == 0
    }

    /// Time in which the whole quota comes back: the window of the decision, or for a token bucket the time
    /// to fill it, the window * `burst` / `max`, rounded up.
    pub(crate) fn effective_window(&self) -> Duration {
        let policy = self.policy();
        let max = u128::from(policy.max());
        let micros = policy.window_at(self.outcome().at()).as_micros() * u128::from(policy.capacity());
        Duration::from_micros(u64::try_from(micros.div_ceil(max)).unwrap_or(u64::MAX))
    }

    /// What makes a limit the tightest, in this order: it never admits the request; no process knows how long
    /// to wait; nothing is left; how few units are left; how long until the next unit is available. No
    /// instant, because each limit may have another clock.
    fn tightness(&self) -> (bool, bool, bool, u64, Duration) {
        let outcome = self.outcome();
        let is_never = outcome.decision() == Decision::Denied { retry_after: None };
        let is_unknown = !outcome.is_allowed() && outcome.retry_after().is_none();
        let left = if self.is_exhausted() { 0 } else { outcome.remaining() };
        (is_never, is_unknown, self.is_exhausted(), u64::MAX - left, outcome.available_after())
    }
}

/// The quotas that clients see.
pub(crate) fn shown<'a>(quotas: impl IntoIterator<Item = &'a Quota>) -> SmallVec<[&'a Quota; 4]> {
    quotas.into_iter().filter(|quota| quota.is_shown()).collect()
}

/// The quota that matters most to a client.
///
/// Among limits that denied the request or have nothing left, this is the one with the longest wait: after
/// it, the next request passes all of them. Otherwise it is the one with the fewest units left, and among
/// equals the one that resets last.
pub(crate) fn tightest<'a>(quotas: &[&'a Quota]) -> Option<&'a Quota> {
    if let [only] = quotas {
        return Some(only);
    }
    // Among equals `max_by_key` takes the last; the first in the source should win.
    quotas.iter().rev().copied().max_by_key(|quota| quota.tightness())
}

#[cfg(test)]
mod tests {
    use ratelimit_core::Check;

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
    fn what_is_left_is_what_the_last_answer_says_and_is_no_charge() {
        let outcome = |left| Outcome::new(10, Decision::Allowed).with_remaining(left);
        let mut quota = quota(&Policy::new("policy", 10, Duration::from_secs(1)), "caller");
        let left = |quota: &Quota| quota.outcome().remaining();
        let charges = |quota: &Quota| quota.charges().iter().map(Outcome::remaining).collect::<Vec<_>>();
        assert_eq!((left(&quota), charges(&quota)), (0, vec![0]));
        quota.set_left(outcome(8));
        quota.set_left(outcome(7));
        assert_eq!((left(&quota), charges(&quota)), (7, vec![0]));
        quota.add_charge(outcome(5));
        assert_eq!((left(&quota), charges(&quota)), (5, vec![0, 5]));
        quota.set_left(outcome(6));
        assert_eq!((left(&quota), charges(&quota)), (6, vec![0, 5]));
    }

    #[test]
    fn a_limit_without_a_slot_is_tighter_than_a_rate_with_nothing_left() {
        let policy = Policy::new("policy", 10, Duration::from_secs(60));
        let of = |outcome| Quota::new(AppliedLimit::of(&Check::new(&policy, "caller")), outcome);
        let busy = of(Outcome::new(3, Decision::Busy));
        let exhausted = of(Outcome::new(10, Decision::Allowed).with_reset_after(Duration::from_secs(60)));
        for quotas in [[&busy, &exhausted], [&exhausted, &busy]] {
            assert_eq!(tightest(&quotas).unwrap().outcome().decision(), Decision::Busy);
        }
    }

    #[test]
    fn a_shadow_limit_stays_one_whatever_is_left() {
        let decided = Outcome::new(1, Decision::Allowed).in_shadow();
        let policy = Policy::new("policy", 1, Duration::from_secs(1));
        let mut quota = Quota::new(AppliedLimit::of(&Check::new(&policy, "caller")), decided);
        quota.set_left(Outcome::new(1, Decision::Allowed));
        assert!(quota.is_shadow());
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
