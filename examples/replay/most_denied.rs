//! The callers that were denied most, by name, in bounded memory.

use std::collections::HashMap;

/// Characters of a name that are kept.
const MAX_CHARS: usize = 100;

/// Denials by the digest of the caller. When there are too many callers, those with the fewest denials are forgotten.
#[derive(Debug)]
pub(crate) struct MostDenied {
    denials: HashMap<u128, Row>,
    max_callers: usize,
    /// A count may be too low by this many.
    forgotten: u64,
}

#[derive(Debug)]
struct Row {
    /// The begin of a long one.
    name: Box<str>,
    denials: u64,
}

impl MostDenied {
    pub(crate) fn new(max_callers: usize) -> Self {
        Self { denials: HashMap::new(), max_callers, forgotten: 0 }
    }

    /// Adds a denial of the caller with this name and digest.
    pub(crate) fn add(&mut self, caller: &str, digest: u128) {
        if let Some(row) = self.denials.get_mut(&digest) {
            row.denials += 1;
            return;
        }
        if self.denials.len() >= self.max_callers.max(1) {
            self.forget_half();
        }
        self.denials.insert(digest, Row { name: begin(caller), denials: 1 });
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<u64> = self.denials.values().map(|row| row.denials).collect();
        let half = (counts.len() - 1) / 2;
        let median = *counts.select_nth_unstable(half).1;
        self.denials.retain(|_, row| row.denials > median);
        self.forgotten += median;
    }

    /// The ten with the most denials.
    pub(crate) fn top(&self) -> Vec<(&str, u64)> {
        let mut rows: Vec<_> = self.denials.iter().collect();
        // Long names may begin alike; their digests keep the order the same in every run.
        rows.sort_unstable_by(|(a, x), (b, y)| {
            y.denials.cmp(&x.denials).then_with(|| x.name.cmp(&y.name)).then_with(|| a.cmp(b))
        });
        rows.into_iter().take(10).map(|(_, row)| (&*row.name, row.denials)).collect()
    }

    /// How many denials a count may lack.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// A name, cut after the first characters: a client may choose it.
fn begin(name: &str) -> Box<str> {
    match name.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}..", &name[..end]).into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_CHARS, MostDenied};

    fn digest(caller: &str) -> u128 {
        caller.bytes().fold(0, |digest, byte| digest * 257 + u128::from(byte))
    }

    #[test]
    fn those_with_the_most_denials_stay() {
        let mut denied = MostDenied::new(4);
        for caller in ["a", "a", "a", "b", "c", "b", "d", "e", "a", "b", "f", "g", "h", "a"] {
            denied.add(caller, digest(caller));
        }
        assert_eq!(denied.top()[..2], [("a", 5), ("b", 3)]);
        assert!(denied.forgotten() <= 2 && denied.denials.len() <= 4, "{denied:?}");
    }

    #[test]
    fn without_pressure_all_counts_are_exact() {
        let mut denied = MostDenied::new(100);
        for caller in ["b", "a", "b", "c"] {
            denied.add(caller, digest(caller));
        }
        assert_eq!(denied.top(), [("b", 2), ("a", 1), ("c", 1)]);
        assert_eq!(denied.forgotten(), 0);
    }

    #[test]
    fn of_a_long_name_the_begin_is_kept_and_the_caller_stays_another() {
        let mut denied = MostDenied::new(100);
        let (whole, long) = ("\u{e9}".repeat(MAX_CHARS), "\u{e9}".repeat(50_000));
        for (caller, digest) in [(&whole, 1), (&long, 2), (&long, 3), (&long, 3)] {
            denied.add(caller, digest);
        }
        let cut = format!("{whole}..");
        assert_eq!(denied.top(), [(&*cut, 2), (&*whole, 1), (&*cut, 1)]);
    }
}
