//! What a decision says: passed or not, what is left, and when to come back.

#[cfg(test)]
mod tests;

use std::time::Duration;

use smallvec::SmallVec;

use crate::clock::Timestamp;

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
    /// [`UNKNOWN_WAIT`](Self::UNKNOWN_WAIT) while something is left, and when the store does not tell.
    next_unit_after_us: u64,
    decision: Decision,
    degraded: bool,
    overflowed: bool,
}

impl Outcome {
    const UNKNOWN_WAIT: u64 = u64::MAX;

    /// An outcome from a store's numbers; the instant is that of the group. Where nothing remains, say when one more unit
    /// passes with [`with_next_unit_after`](Self::with_next_unit_after), which clients are told.
    pub const fn new(limit: u64, cost: u64, remaining: u64, reset_after_us: u64, decision: Decision) -> Self {
        Self {
            at: Timestamp::from_micros(0),
            limit,
            cost,
            remaining,
            reset_after_us,
            next_unit_after_us: Self::UNKNOWN_WAIT,
            decision,
            degraded: false,
            overflowed: false,
        }
    }

    /// The same, with the smallest wait, in microseconds from the decision, after which one more unit passes. Has no effect
    /// while something remains.
    pub const fn with_next_unit_after(mut self, next_unit_after_us: u64) -> Self {
        if self.remaining == 0 {
            self.next_unit_after_us = next_unit_after_us;
        }
        self
    }

    /// The same, decided at this instant.
    pub(crate) const fn decided_at(mut self, at: Timestamp) -> Self {
        self.at = at;
        self
    }

    /// The same, as an outcome under this limit.
    pub(crate) const fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// The same, charged to a count that callers share for want of room.
    pub(crate) const fn overflowed(mut self) -> Self {
        self.overflowed = true;
        self
    }

    /// Whether it was charged to a count that callers share for want of room.
    pub(crate) const fn is_overflowed(&self) -> bool {
        self.overflowed
    }

    /// The instant from which the full quota is available again, if nobody comes.
    pub(crate) const fn resets_at(&self) -> Timestamp {
        Timestamp::from_micros(self.at.as_micros() + self.reset_after_us)
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

    /// Where nothing remains: the smallest wait, counted from the decision, after which a request of cost 1 passes if no
    /// other comes. `None` while something remains, and when the store does not tell.
    pub const fn next_unit_after(&self) -> Option<Duration> {
        match self.next_unit_after_us {
            Self::UNKNOWN_WAIT => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    /// The wait, counted from the decision, that header fields tell: until this request passes where it was denied; until
    /// one more unit passes where nothing remains; and until the full quota is available otherwise.
    ///
    /// After this wait at least one unit passes if no other request comes. Where nothing remains and the store does not
    /// tell [when one more passes](Self::next_unit_after), or the request can never pass, it is the time until the full
    /// quota is available.
    pub fn available_after(&self) -> Duration {
        match (self.retry_after(), self.next_unit_after()) {
            (None, None) => self.reset_after(),
            (wait, next_unit) => wait.max(next_unit).unwrap_or_default(),
        }
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

    /// An outcome about one limit.
    pub(crate) fn of_one(outcome: Outcome) -> Self {
        let (at, allowed) = (outcome.at, outcome.is_allowed());
        let mut outcomes = SmallVec::new();
        outcomes.push(outcome);
        Self { at, allowed, degraded: false, outcomes }
    }

    /// The same, with those limits marked that were charged to a count that callers share for want of room.
    pub(crate) fn overflowed(mut self, is_overflowed: impl Fn(usize) -> bool) -> Self {
        for (place, outcome) in self.outcomes.iter_mut().enumerate() {
            outcome.overflowed = is_overflowed(place);
        }
        self
    }

    /// The same, decided without the store.
    pub(crate) fn degraded(mut self) -> Self {
        self.degraded = true;
        for outcome in &mut self.outcomes {
            outcome.degraded = true;
        }
        self
    }

    /// This denial as seen at `now`: all waits shortened by the time since `received_at`, by the same clock.
    #[cfg(feature = "redis")]
    pub(crate) fn aged(mut self, received_at: Timestamp, now: Timestamp) -> Self {
        let elapsed = now.as_micros().saturating_sub(received_at.as_micros());
        self.at = Timestamp::from_micros(self.at.as_micros() + elapsed);
        for outcome in &mut self.outcomes {
            outcome.at = self.at;
            outcome.reset_after_us = outcome.reset_after_us.saturating_sub(elapsed);
            if outcome.next_unit_after_us != Outcome::UNKNOWN_WAIT {
                outcome.next_unit_after_us = outcome.next_unit_after_us.saturating_sub(elapsed);
            }
            if let Decision::RetryAfterMicros(wait) = &mut outcome.decision {
                *wait = wait.saturating_sub(elapsed);
            }
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

    /// The outcome of a group of one.
    pub(crate) fn into_only(mut self) -> Option<Outcome> {
        if self.outcomes.len() == 1 { self.outcomes.pop() } else { None }
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
    /// one with the least remaining, and of equals the one that is [available](Outcome::available_after) later. `None` for
    /// an empty group.
    pub fn tightest(&self) -> Option<usize> {
        let rank =
            |outcome: &Outcome| (outcome.decision, u64::MAX - outcome.remaining, outcome.available_after());
        // Of equals `max_by_key` takes the last; the first is what was written first.
        (0..self.outcomes.len()).rev().max_by_key(|&i| rank(&self.outcomes[i]))
    }
}
