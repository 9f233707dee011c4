//! Outcomes of groups: whether all limits admit the request, and the outcome of each.

use std::any::Any;
use std::time::Duration;

use smallvec::SmallVec;

use super::{Decision, Outcome, Verdict};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::slots::Slots;

/// Outcome of a decision about a group of limits: all are charged, or none is.
///
/// Two are equal if the same was decided; the [slots](Self::take_slots) are no part of that.
#[derive(Clone, Debug)]
#[must_use = "a denial that is not handled limits nothing"]
pub struct GroupOutcome {
    at: Timestamp,
    allowed: bool,
    degraded: bool,
    outcomes: SmallVec<[Outcome; 1]>,
    slots: Slots,
}

impl PartialEq for GroupOutcome {
    fn eq(&self, other: &Self) -> bool {
        let decided = |of: &Self| (of.at, of.allowed, of.degraded);
        decided(self) == decided(other) && self.outcomes == other.outcomes
    }
}

impl Eq for GroupOutcome {}

/// The outcome of a group of one.
impl From<Outcome> for GroupOutcome {
    fn from(outcome: Outcome) -> Self {
        let (at, allowed, degraded) = (outcome.at, outcome.is_allowed(), outcome.is_degraded());
        let mut outcomes = SmallVec::new();
        outcomes.push(outcome);
        Self { at, allowed, degraded, outcomes, slots: Slots::default() }
    }
}

impl GroupOutcome {
    /// Creates the outcome of a group, with one [`Outcome`] per check in their order. Sets their instant to
    /// `at`.
    ///
    /// The group is admitted if every limit admits it. It was decided without the store if an outcome
    /// [was](Outcome::is_degraded).
    pub fn new(at: Timestamp, outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        Self { at, ..Self::decided_apart(outcomes.into_iter().map(|outcome| outcome.with_at(at))) }
    }

    /// As [`new`](Self::new), for limits that were decided at different instants, such as those of several
    /// nodes. Each keeps its own, and the latest is that of the group.
    pub(crate) fn decided_apart(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let outcomes: SmallVec<[Outcome; 1]> = outcomes.into_iter().collect();
        let at = outcomes.iter().map(Outcome::at).max().unwrap_or_default();
        let (allowed, degraded) =
            (outcomes.iter().all(Outcome::is_allowed), outcomes.iter().any(Outcome::is_degraded));
        Self { at, allowed, degraded, outcomes, slots: Slots::default() }
    }

    /// The outcome of limits that the store did not answer about: not violated, and nothing remains.
    #[cfg(feature = "redis")]
    pub(crate) fn unknown(at: Timestamp, group: &[Check<'_>]) -> Self {
        Self::new(at, group.iter().map(Outcome::unknown))
    }

    /// The outcome of a group that is known to be admitted or denied.
    pub(crate) fn decided(at: Timestamp, allowed: bool, outcomes: SmallVec<[Outcome; 1]>) -> Self {
        Self { at, allowed, degraded: false, outcomes, slots: Slots::default() }
    }

    /// Changes the outcome of each limit; the group is admitted if every limit admits it. `change` gets the
    /// index of the limit.
    pub(crate) fn map(mut self, change: impl Fn(usize, Outcome) -> Outcome) -> Self {
        for (index, outcome) in self.outcomes.iter_mut().enumerate() {
            *outcome = change(index, outcome.clone());
        }
        self.allowed = self.outcomes.iter().all(Outcome::is_allowed);
        self
    }

    /// Replaces the outcomes of the limits. The group stays admitted or denied.
    pub(crate) fn with_outcomes(self, outcomes: SmallVec<[Outcome; 1]>) -> Self {
        Self { outcomes, ..self }
    }

    /// Keeps `owner` for as long as the slots of the group are held.
    pub(crate) fn keep(&mut self, owner: impl Any + Send + Sync) {
        self.slots = self.take_slots().keeping(owner);
    }

    /// Adds slots that the group holds.
    pub(crate) fn add_slots(&mut self, slots: Slots) {
        self.slots = std::mem::take(&mut self.slots).and(slots);
    }

    /// The slots that the group holds.
    pub(crate) const fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Takes the slots of [concurrency limits](crate::Policy::concurrency) that the group holds. They are
    /// freed when what this returns is dropped; without this call, when the outcome is. Empty for a group
    /// that was denied, or has no such limit.
    pub fn take_slots(&mut self) -> Slots {
        std::mem::take(&mut self.slots)
    }

    /// Marks the outcome as decided in this process: whether by a [`SystemClock`](crate::clock::SystemClock),
    /// and the limits at which indices are charged to an overflow count.
    pub(crate) fn made_in_memory(
        mut self,
        by_system_clock: bool,
        is_overflowed: impl Fn(usize) -> bool,
    ) -> Self {
        for (index, outcome) in self.outcomes.iter_mut().enumerate() {
            (outcome.is_by_system_clock, outcome.is_overflowed) = (by_system_clock, is_overflowed(index));
        }
        self
    }

    /// The same with the instants of calendar windows on the wall clock, which is so far ahead.
    pub(crate) fn with_windows_on_wall_clock(mut self, group: &[Check<'_>], ahead_us: i64) -> Self {
        for (outcome, check) in self.outcomes.iter_mut().zip(group) {
            if check.policy().calendar().is_some() {
                outcome.at = outcome.at.on_clock_ahead(ahead_us);
                outcome.is_by_system_clock = false;
            }
        }
        self
    }

    /// Marks the outcome as decided without the store.
    pub(crate) fn degraded(mut self) -> Self {
        self.degraded = true;
        self.outcomes.iter_mut().for_each(|outcome| outcome.is_degraded = true);
        self
    }

    /// This denial as seen at `now`: all waits shortened by the time since `received_at`, by the same clock.
    /// Each limit keeps an instant of its own node.
    #[cfg(feature = "redis")]
    pub(crate) fn aged(mut self, received_at: Timestamp, now: Timestamp) -> Self {
        let elapsed = now.as_micros().saturating_sub(received_at.as_micros());
        let later = |at: Timestamp| Timestamp::from_micros(at.as_micros() + elapsed);
        self.at = later(self.at);
        for outcome in &mut self.outcomes {
            outcome.at = later(outcome.at);
            outcome.reset_after_us = outcome.reset_after_us.saturating_sub(elapsed);
            if outcome.next_unit_after_us != Outcome::UNKNOWN_WAIT {
                outcome.next_unit_after_us = outcome.next_unit_after_us.saturating_sub(elapsed);
            }
            if let Verdict::RetryAfterMicros(wait) = &mut outcome.verdict {
                *wait = wait.saturating_sub(elapsed);
            }
        }
        self
    }

    /// Joins the outcomes of parts of a group of `size` limits; each part comes with the indices of its
    /// limits.
    pub(crate) fn join<'p>(
        size: usize,
        allowed: bool,
        parts: impl Iterator<Item = (&'p [usize], &'p Self)>,
    ) -> Self {
        let nothing = Outcome::new(0, Decision::Allowed);
        let mut outcomes = SmallVec::from_elem(nothing, size);
        let (mut at, mut degraded, mut slots) = (Timestamp::default(), false, Slots::default());
        for (indices, part) in parts {
            (at, degraded) = (at.max(part.at), degraded | part.degraded);
            slots = slots.and(part.slots.clone());
            for (index, outcome) in indices.iter().zip(&part.outcomes) {
                outcomes[*index] = outcome.clone();
            }
        }
        Self { at, allowed, degraded, outcomes, slots }
    }

    /// Whether the limits' [failure policies](crate::policy::OnError) decided, during an outage of the store.
    pub const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether every limit admitted the group, so that all were charged.
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Instant of the decision, by the store's clock. Each limit has [its own](Outcome::at).
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// Outcomes of the limits, in the order of the checks.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The only outcome, if it is a group of one.
    pub(crate) fn into_only(mut self) -> Option<Outcome> {
        if self.outcomes.len() == 1 { self.outcomes.pop() } else { None }
    }

    /// Smallest wait after which the whole group passes, if no other request is charged meanwhile: the
    /// longest wait of the violated limits. If a concurrency limit is [busy](Outcome::is_busy) as well, the
    /// group certainly does not pass before.
    ///
    /// `None` if the group passed, if the cost exceeds one of its limits, and if [only slots are
    /// missing](Self::is_busy): [`is_allowed`](Self::is_allowed) and `is_busy` distinguish these.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.violated().any(|outcome| outcome.verdict == Verdict::Never) {
            return None;
        }
        self.violated().filter_map(Outcome::retry_after).max()
    }

    /// Whether the group was denied and only slots of [concurrency limits](crate::Policy::concurrency) are
    /// missing: no process knows when it passes.
    pub fn is_busy(&self) -> bool {
        !self.allowed && self.violated().all(Outcome::is_busy)
    }

    /// The outcomes of enforced limits that deny the group.
    fn violated(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| !outcome.is_shadow() && !outcome.fits())
    }
}
