//! What names a count outside of the table: in a request whose answer tells of it, and on the server.

use crate::policy::Policy;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::PolicyArg;

/// A limit of a queued request whose answer is of use for leases.
#[derive(Debug)]
pub(in crate::store::redis) struct LeaseTarget {
    pub(super) digest: u128,
    pub(super) policy: Policy,
    /// 0 if the answer only tells the leases of the count what has become of it.
    pub(super) interval: u64,
    /// Whether the answer may leave a debt.
    pub(super) is_overdrawn: bool,
    /// Bucket of the denial cache.
    pub(super) bucket: usize,
    /// Index of the limit in its request.
    pub(super) limit: usize,
}

impl LeaseTarget {
    /// Whether the call may ask for the next lease.
    pub(super) const fn fetches(&self) -> bool {
        self.interval > 0
    }
}

/// What names a count on the server and in the denial cache.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) digest: u128,
    /// Bucket of the denial cache.
    pub(super) bucket: usize,
    pub(super) key: StateKey,
    pub(super) policy: PolicyArg,
}

impl Origin {
    pub(super) fn of(target: &LeaseTarget, key: StateKey) -> Self {
        Self::new(target.digest, target.bucket, key, &target.policy)
    }

    pub(super) fn new(digest: u128, bucket: usize, key: StateKey, policy: &Policy) -> Self {
        Self { digest, bucket, key, policy: PolicyArg::new(policy) }
    }
}
