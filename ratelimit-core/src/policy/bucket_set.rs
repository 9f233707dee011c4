//! A bounded set of token buckets whose charges are not refunded, because requests wait in them for a turn.

use std::collections::HashSet;

use parking_lot::RwLock;

use super::Policy;

/// Largest number of buckets that are told apart. With more, every bucket counts as one of them: a refund without effect admits
/// too few requests, a refund that moves turns admits too many.
const MAX: usize = 4_096;

/// The state ids of token buckets.
///
/// An id depends on the numbers of a bucket, so a limit whose `max` is computed has one for each number.
#[derive(Debug, Default)]
pub(crate) struct BucketSet {
    ids: RwLock<HashSet<u64>>,
}

impl BucketSet {
    /// Adds the bucket of a policy.
    pub(crate) fn note(&self, policy: &Policy) {
        if !self.may_have(policy) {
            self.ids.write().insert(policy.state_id());
        }
    }

    /// Whether the set has the bucket of a policy, or so many that it may.
    pub(crate) fn may_have(&self, policy: &Policy) -> bool {
        let ids = self.ids.read();
        ids.len() > MAX || ids.contains(&policy.state_id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_4096_buckets_every_bucket_counts_as_one_of_them_and_no_more_are_kept() {
        let set = BucketSet::default();
        let bucket = |number: u32| {
            Policy::new("k", 1, crate::policy::MIN_WINDOW).with_key(number.to_string()).unwrap()
        };
        for number in 1..=4_096 {
            set.note(&bucket(number));
            set.note(&bucket(number));
        }
        assert!(set.may_have(&bucket(1)) && set.may_have(&bucket(4_096)));
        assert!(!set.may_have(&bucket(0)) && !set.may_have(&bucket(4_097)), "told apart up to the bound");
        for number in 4_097..20_000 {
            set.note(&bucket(number));
        }
        assert!(set.may_have(&bucket(0)) && set.may_have(&bucket(u32::MAX)), "beyond it");
        assert_eq!(set.ids.read().len(), MAX + 1);
    }
}
