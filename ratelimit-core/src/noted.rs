//! A bounded set of ids: what the log has said.

use std::collections::HashSet;

use parking_lot::RwLock;

/// Largest number of ids that are told apart. With more, every id counts as one of the set, so new lines of the log are left out.
const MAX: usize = 4_096;

/// Ids, such as those of policies' states.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    ids: RwLock<HashSet<u64>>,
}

impl Noted {
    /// Adds an id. Whether the set did not have it.
    pub(crate) fn note(&self, id: u64) -> bool {
        !self.may_have(id) && self.ids.write().insert(id)
    }

    /// Whether the set has an id, or so many that it may.
    fn may_have(&self, id: u64) -> bool {
        let ids = self.ids.read();
        ids.len() > MAX || ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_4096_ids_every_id_counts_as_one_of_them_and_no_more_are_kept() {
        let set = Noted::default();
        for id in 1..=4_096 {
            assert!(set.note(id) && !set.note(id), "the first time only");
        }
        assert!(set.may_have(1) && set.may_have(4_096));
        assert!(!set.may_have(0) && !set.may_have(4_097), "told apart up to the bound");
        for id in 4_097..20_000 {
            assert_eq!(set.note(id), id == 4_097);
        }
        assert!(set.may_have(0) && set.may_have(u64::MAX), "beyond it");
        assert_eq!(set.ids.read().len(), MAX + 1);
    }
}
