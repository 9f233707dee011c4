//! Heat: how many units a caller asked for lately, in this process.

/// Units that were asked for in the present epoch of one lease interval, and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heat {
    /// Start of the present epoch, by the local clock.
    since: u64,
    present: u64,
    before: u64,
    /// The largest cost that was asked for.
    pub(super) largest_cost: u64,
}

impl Heat {
    /// Records a request of `cost` units.
    #[inline]
    pub(super) fn record(&mut self, cost: u64, now: u64, interval: u64) {
        let age = now.saturating_sub(self.since);
        if age >= interval {
            self.before = if age < 2 * interval { self.present } else { 0 };
            (self.since, self.present) = (now, 0);
        }
        self.present = self.present.saturating_add(cost);
        self.largest_cost = self.largest_cost.max(cost);
    }

    /// Units that were asked for in the last one to two intervals.
    pub(super) fn units(&self, now: u64, interval: u64) -> u64 {
        let age = now.saturating_sub(self.since);
        if age < interval {
            self.present.saturating_add(self.before)
        } else if age < 2 * interval {
            self.present
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_what_came_in_this_interval_and_the_last() {
        let mut heat = Heat::default();
        for now in [1_000, 1_010, 1_099] {
            heat.record(2, now, 100);
        }
        assert_eq!(heat.units(1_099, 100), 6);
        heat.record(1, 1_100, 100);
        assert_eq!(heat.units(1_100, 100), 7);
        assert_eq!(heat.units(1_199, 100), 7);
        assert_eq!(heat.units(1_200, 100), 1, "the interval before is over");
        heat.record(5, 1_250, 100);
        assert_eq!(heat.units(1_250, 100), 6);
        heat.record(3, 1_450, 100);
        assert_eq!(heat.units(1_450, 100), 3, "an interval without requests lies between");
        assert_eq!(heat.units(1_700, 100), 0);
        assert_eq!(heat.largest_cost, 5);
    }
}
