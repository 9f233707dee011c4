//! What an admitted group took and holds until its work ends.

use smallvec::SmallVec;

use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;
use crate::reservation::{Charge, Reservation};

impl GroupOutcome {
    /// The slots that an admitted group took: for each count the index of its first check, and their number.
    pub(crate) fn slots_taken(&self, checks: &[Check<'_>]) -> SmallVec<[(usize, u64); 1]> {
        let mut taken: SmallVec<[(usize, u64); 1]> = SmallVec::new();
        for (index, (check, outcome)) in checks.iter().zip(self.outcomes()).enumerate() {
            if !check.policy().is_concurrency() || outcome.cost() == 0 || self.was_spared(check, checks) {
                continue;
            }
            match taken.iter_mut().find(|(first, _)| checks[*first].shares_count_with(check)) {
                Some((_, sum)) => *sum = sum.saturating_add(outcome.cost()),
                None => taken.push((index, outcome.cost())),
            }
        }
        taken
    }

    /// What the group took in a store that does not hold it itself, for a refund by which it is freed. `None` if it took nothing.
    pub(crate) fn charges_to_free<'a>(&self, checks: &[Check<'a>]) -> Option<Reservation<'a>> {
        if !self.is_allowed() || !self.slots().is_empty() || self.is_degraded() {
            return None;
        }
        let charge = |(index, slots): (usize, u64)| {
            // Whenever they are freed, they count.
            let until = Timestamp::from_micros(u64::MAX);
            Charge::new(checks[index].with_cost(slots), self.outcomes()[index].at(), until)
        };
        let charges: SmallVec<[Charge<'a>; 2]> = self.slots_taken(checks).into_iter().map(charge).collect();
        (!charges.is_empty()).then(|| Reservation::new(charges, false))
    }
}
