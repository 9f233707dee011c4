//! Which token buckets limits of this process lease, as far as requests have shown: a bounded set.

use std::collections::HashSet;

use parking_lot::RwLock;

/// Largest number of buckets that are told apart. With more, every bucket counts as leased: a refund without effect admits too
/// few requests, a refund of units that are held elsewhere admits too many.
const MAX: usize = 4_096;

/// The state ids of token buckets that were asked for under a limit with a lease.
///
/// An id depends on the numbers of a bucket, so a limit whose `max` is computed has one for each number.
#[derive(Debug, Default)]
pub(super) struct LeasedBuckets {
    ids: RwLock<HashSet<u64>>,
}

impl LeasedBuckets {
    /// Notes that a limit leases the bucket with this state id.
    pub(super) fn note(&self, id: u64) {
        if !self.may_have(id) {
            self.ids.write().insert(id);
        }
    }

    /// Whether a limit leases the bucket with this state id, or so many buckets are leased that it may.
    pub(super) fn may_have(&self, id: u64) -> bool {
        let ids = self.ids.read();
        ids.len() > MAX || ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_4096_leased_buckets_every_bucket_counts_as_leased_and_no_more_are_kept() {
        let buckets = LeasedBuckets::default();
        for id in 1..=4_096 {
            buckets.note(id);
            buckets.note(id);
        }
        assert!(buckets.may_have(1) && buckets.may_have(4_096));
        assert!(!buckets.may_have(0) && !buckets.may_have(4_097), "told apart up to the bound");
        for id in 4_097..20_000 {
            buckets.note(id);
        }
        assert!(buckets.may_have(0) && buckets.may_have(u64::MAX), "beyond it");
        assert_eq!(buckets.ids.read().len(), MAX + 1);
    }
}
