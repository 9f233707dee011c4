//! What a decision says: passed or not, what is left, and when to come back.

use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::store::{Check, Reservation, Taken};

/// Whether one limit lets a request pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It does.
    Allowed,
    /// It does not; the same request passes after this many microseconds if nobody else comes, and not earlier.
    RetryAfterMicros(u64),
    /// It does not and never will, because the request costs more than the limit.
    Never,
}

/// What was decided about one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denial that is not looked at limits nothing"]
pub struct Outcome {
    at: Timestamp,
    limit: u64,
    cost: u64,
    remaining: u64,
    reset_after_us: u64,
    decision: Decision,
    degraded: bool,
}

impl Outcome {
    /// An outcome from a store's numbers; the instant is that of the group.
    pub const fn new(limit: u64, cost: u64, remaining: u64, reset_after_us: u64, decision: Decision) -> Self {
        Self {
            at: Timestamp::from_micros(0),
            limit,
            cost,
            remaining,
            reset_after_us,
            decision,
            degraded: false,
        }
    }

    /// Whether the store could not answer, so that the limit's [failure policy](crate::policy::OnError) decided.
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// The instant of the decision, by the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether this limit let the request pass, and if not, when it will.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Whether this limit let the request pass. In a group it passes only when every limit does.
    pub const fn is_allowed(&self) -> bool {
        matches!(self.decision, Decision::Allowed)
    }

    /// The quota from which `remaining` counts down: `max`, or the burst of a token bucket.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Units that the request costs under this limit.
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// How many requests of cost 1 would pass right now, after this decision.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Time from the decision until the full quota is available again, if nobody comes.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// The smallest wait, counted from the decision, after which this very request passes if nobody else comes.
    ///
    /// Exact to the microsecond: one earlier it would still be denied. `None` when the limit let it pass, and when it
    /// can never pass because it costs more than the limit.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.decision {
            Decision::RetryAfterMicros(micros) => Some(Duration::from_micros(micros)),
            Decision::Allowed | Decision::Never => None,
        }
    }
}

/// What was decided about a group of limits, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denial that is not looked at limits nothing"]
pub struct GroupOutcome {
    at: Timestamp,
    allowed: bool,
    degraded: bool,
    outcomes: SmallVec<[Outcome; 2]>,
}

impl GroupOutcome {
    /// An outcome from a store's parts, one [`Outcome`] for each check in their order.
    pub fn new(at: Timestamp, allowed: bool, mut outcomes: SmallVec<[Outcome; 2]>) -> Self {
        for outcome in &mut outcomes {
            outcome.at = at;
        }
        Self { at, allowed, degraded: false, outcomes }
    }

    /// The same, decided without the store.
    pub(crate) fn degraded(mut self) -> Self {
        self.degraded = true;
        for outcome in &mut self.outcomes {
            outcome.degraded = true;
        }
        self
    }

    /// One outcome from those of its parts, each with the places of its limits in the group of `size`.
    #[cfg(feature = "redis")]
    pub(crate) fn join<'p>(
        size: usize,
        allowed: bool,
        parts: impl Iterator<Item = (&'p [usize], &'p Self)>,
    ) -> Self {
        let nothing = Outcome::new(0, 0, 0, 0, Decision::Allowed);
        let mut outcomes = SmallVec::from_elem(nothing, size);
        let mut at = Timestamp::default();
        for (places, part) in parts {
            at = at.max(part.at);
            for (place, outcome) in places.iter().zip(&part.outcomes) {
                outcomes[*place] = outcome.clone();
            }
        }
        Self { at, allowed, degraded: false, outcomes }
    }

    /// Whether the store could not answer, so that the limits' [failure policies](crate::policy::OnError) decided.
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether every limit passed, and so all were charged.
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The instant of the decision, by the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// One outcome for each limit, in the order of the checks.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The smallest wait after which the whole group passes if nobody else comes: the longest of the violated limits.
    ///
    /// `None` when it passed, and when one of the limits can never pass.
    pub fn retry_after(&self) -> Option<Duration> {
        let violated = || self.outcomes.iter().filter(|outcome| !outcome.is_allowed());
        if violated().any(|outcome| outcome.retry_after().is_none()) {
            return None;
        }
        violated().filter_map(Outcome::retry_after).max()
    }

    /// The position of the limit that a client should look at: the violated one with the longest wait, otherwise the
    /// one with the least remaining, and of equals the one that takes longer to reset. `None` for an empty group.
    pub fn tightest(&self) -> Option<usize> {
        let rank =
            |outcome: &Outcome| (outcome.decision, u64::MAX - outcome.remaining, outcome.reset_after_us);
        // Of equals `max_by_key` takes the last; the first is what was written first.
        (0..self.outcomes.len()).rev().max_by_key(|&i| rank(&self.outcomes[i]))
    }

    /// What this decision took from `checks`, the very group it was made about, to be [refunded] in case it turns out
    /// not to be needed. `None` when nothing was taken.
    ///
    /// [refunded]: crate::RateLimiter::refund
    pub fn reservation<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        (self.allowed && checks.len() == self.outcomes.len()).then(|| {
            let taken = checks.iter().zip(&self.outcomes).map(|(check, outcome)| {
                let until = outcome.at.as_micros() + outcome.reset_after_us;
                Taken::new(*check, outcome.at, Timestamp::from_micros(until))
            });
            Reservation::new(taken.collect(), self.degraded)
        })
    }
}
