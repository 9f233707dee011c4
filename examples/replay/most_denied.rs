//! The callers that were denied most, by name, in bounded memory.

use std::collections::HashMap;

/// Denials by caller. When there are too many callers, those with the fewest denials are forgotten.
#[derive(Debug)]
pub(crate) struct MostDenied {
    denials: HashMap<String, u64>,
    max_callers: usize,
    /// A count may be too low by this many.
    forgotten: u64,
}

impl MostDenied {
    pub(crate) fn new(max_callers: usize) -> Self {
        Self { denials: HashMap::new(), max_callers, forgotten: 0 }
    }

    pub(crate) fn add(&mut self, caller: &str) {
        if let Some(denials) = self.denials.get_mut(caller) {
            *denials += 1;
            return;
        }
        if self.denials.len() >= self.max_callers.max(1) {
            self.forget_half();
        }
        self.denials.insert(caller.to_owned(), 1);
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<u64> = self.denials.values().copied().collect();
        let half = (counts.len() - 1) / 2;
        let median = *counts.select_nth_unstable(half).1;
        self.denials.retain(|_, denials| *denials > median);
        self.forgotten += median;
    }

    /// The ten with the most denials.
    pub(crate) fn top(&self) -> Vec<(&str, u64)> {
        let mut callers: Vec<_> =
            self.denials.iter().map(|(caller, count)| (caller.as_str(), *count)).collect();
        callers.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        callers.truncate(10);
        callers
    }

    /// How many denials a count may lack.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::MostDenied;

    #[test]
    fn those_with_the_most_denials_stay() {
        let mut denied = MostDenied::new(4);
        for caller in ["a", "a", "a", "b", "c", "b", "d", "e", "a", "b", "f", "g", "h", "a"] {
            denied.add(caller);
        }
        assert_eq!(denied.top()[..2], [("a", 5), ("b", 3)]);
        assert!(denied.forgotten() <= 2 && denied.denials.len() <= 4, "{denied:?}");
    }

    #[test]
    fn without_pressure_all_counts_are_exact() {
        let mut denied = MostDenied::new(100);
        for caller in ["b", "a", "b", "c"] {
            denied.add(caller);
        }
        assert_eq!(denied.top(), [("b", 2), ("a", 1), ("c", 1)]);
        assert_eq!(denied.forgotten(), 0);
    }
}
