//! The slots that an admitted group takes: they are held until the work ends, also in stores without slots of
//! their own, and counted in metrics and statistics.

use smallvec::SmallVec;

use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::observe::Observer;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::{Charge, Reservation};
use crate::slots::Slots;

/// A check of one limit returns an outcome, which holds no slot. So it is a peek: it says whether a slot is
/// free.
pub(crate) const fn operation_of_one(policy: &Policy) -> Operation {
    if policy.is_concurrency() { Operation::Peek } else { Operation::Check }
}

impl GroupOutcome {
    /// The slots that an admitted group took: for each count the index of its first check, and their number.
    pub(crate) fn slots_taken(&self, checks: &[Check<'_>]) -> SmallVec<[(usize, u64); 1]> {
        let mut taken: SmallVec<[(usize, u64); 1]> = SmallVec::new();
        for (index, (check, outcome)) in checks.iter().zip(self.outcomes()).enumerate() {
            if !check.policy().is_concurrency() || outcome.cost() == 0 || self.was_spared(index, checks) {
                continue;
            }
            let at = outcome.at();
            match taken.iter_mut().find(|(first, _)| checks[*first].shares_count_with(at, (check, at))) {
                Some((_, sum)) => *sum = sum.saturating_add(outcome.cost()),
                None => taken.push((index, outcome.cost())),
            }
        }
        taken
    }

    /// The slots that the group took in a store that counts them as charges: the refund that frees them.
    /// `None` if the group took none, or if the store frees them itself.
    pub(crate) fn charges_to_free<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        if !self.is_allowed() || !self.slots().is_empty() || self.is_degraded() {
            return None;
        }
        let charge = |(index, slots): (usize, u64)| {
            // A slot counts until it is freed.
            let until = Timestamp::from_micros(u64::MAX);
            Charge::new(checks[index].with_cost(slots), self.outcomes()[index].at(), until)
        };
        let charges: SmallVec<[Charge<'a>; 2]> = self.slots_taken(checks).into_iter().map(charge).collect();
        (!charges.is_empty()).then(|| Reservation::new(charges, false))
    }

    /// Adds slots for the charges of a store that has no slots of its own, and counts all slots while they
    /// are held. `free` makes the function that refunds these charges.
    #[inline]
    pub(crate) fn hold_slots<F: Fn() + Send + Sync + 'static>(
        &mut self,
        group: &[Check<'_>],
        observer: &Observer,
        free: impl FnOnce(Reservation<'static>) -> F,
    ) {
        // Most groups have no concurrency limit.
        if !group.iter().any(|check| check.policy().is_concurrency()) {
            return;
        }
        if let Some(charges) = self.charges_to_free(group) {
            self.add_slots(Slots::freed_by(free(charges.into_owned())));
        }
        self.count_slots(group, observer);
    }

    /// Counts the slots of the group while they are held.
    #[inline]
    pub(crate) fn count_slots(&mut self, group: &[Check<'_>], observer: &Observer) {
        if cfg!(any(feature = "metrics", feature = "stats")) && !self.slots().is_empty() {
            self.count_each(group, observer);
        }
    }

    #[cold]
    fn count_each(&mut self, group: &[Check<'_>], observer: &Observer) {
        for (index, slots) in self.slots_taken(group) {
            self.add_slots(Slots::freed_by(observer.hold(group[index].policy(), slots)));
        }
    }
}
