//! Slots that decisions of a limiter hold, also in stores that know nothing of them, and their number in metrics and statistics.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Inner;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::observe::metrics;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::OwnedReservation;
use crate::slots::Slots;

/// The outcome of one limit holds no slot, so it tells only whether one is free.
pub(super) const fn operation_of_one(policy: &Policy) -> Operation {
    if policy.is_concurrency() { Operation::Peek } else { Operation::Check }
}

/// Slots in a store that knows nothing of them. Dropping this refunds them.
struct RefundOnDrop {
    limiter: Arc<Inner>,
    deadline: Duration,
    charges: OwnedReservation,
}

impl Drop for RefundOnDrop {
    fn drop(&mut self) {
        self.limiter.begin_refund(&self.charges.as_reservation(), self.deadline);
    }
}

/// Adds to a decision of a store the slots that the store does not hold itself, and counts all slots while they are held.
pub(super) fn hold(
    limiter: &Arc<Inner>,
    deadline: Duration,
    group: &[Check<'_>],
    mut outcome: GroupOutcome,
) -> GroupOutcome {
    if let Some(charges) = outcome.charges_to_free(group) {
        let (limiter, charges) = (Arc::clone(limiter), charges.into_owned());
        outcome = outcome.with_slots(Slots::new(RefundOnDrop { limiter, deadline, charges }));
    }
    count_held(limiter, group, outcome)
}

/// Counts the slots of an outcome while they are held.
#[inline]
pub(super) fn count_held(limiter: &Arc<Inner>, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
    if !cfg!(any(feature = "metrics", feature = "stats")) || outcome.slots().is_empty() {
        return outcome;
    }
    count_each(limiter, group, outcome)
}

#[cold]
fn count_each(limiter: &Arc<Inner>, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
    let taken = outcome.slots_taken(group);
    taken.into_iter().fold(outcome, |outcome, (index, slots)| {
        let policy = group[index].policy().clone();
        let counted = CountedSlots { limiter: Arc::clone(limiter), policy, slots };
        counted.change(true);
        outcome.with_slots(Slots::new(counted))
    })
}

/// Slots of one limit, which are counted until this is dropped.
struct CountedSlots {
    limiter: Arc<Inner>,
    policy: Policy,
    slots: u64,
}

impl CountedSlots {
    fn change(&self, are_held: bool) {
        metrics::held(&self.policy, self.slots, are_held);
        self.limiter.report.stats.held(&self.policy, self.slots, are_held);
    }
}

impl Drop for CountedSlots {
    fn drop(&mut self) {
        self.change(false);
    }
}
