//! Slots that decisions of a limiter hold, also in stores that know nothing of them, and their number in metrics and statistics.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Inner;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::observe::Observer;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::slots::Slots;

/// The outcome of one limit holds no slot, so it tells only whether one is free.
pub(super) const fn operation_of_one(policy: &Policy) -> Operation {
    if policy.is_concurrency() { Operation::Peek } else { Operation::Check }
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
        let free = move || limiter.begin_refund(&charges, deadline);
        outcome = outcome.with_slots(Slots::freed_by(free));
    }
    count_held(&limiter.report, group, outcome)
}

/// Counts the slots of an outcome while they are held.
#[inline]
pub(super) fn count_held(report: &Observer, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
    if !cfg!(any(feature = "metrics", feature = "stats")) || outcome.slots().is_empty() {
        return outcome;
    }
    count_each(report, group, outcome)
}

#[cold]
fn count_each(report: &Observer, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
    let taken = outcome.slots_taken(group);
    taken.into_iter().fold(outcome, |outcome, (index, slots)| {
        outcome.with_slots(Slots::freed_by(report.hold(group[index].policy(), slots)))
    })
}
