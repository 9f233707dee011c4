//! One check of a group: a policy, the caller and the cost; and the digests that stand for them.

use std::fmt;
#[cfg(feature = "redis")]
use std::hash::Hasher;
use std::hash::{BuildHasher, RandomState};

#[cfg(feature = "redis")]
use siphasher::sip128::Hasher128;
use siphasher::sip128::SipHasher13;

use crate::policy::Policy;

/// Most limits in one group.
pub const MAX_GROUP: usize = 64;

/// One limit to be checked: a policy, whose count of it, and how many units.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    policy: &'a Policy,
    partition: &'a [u8],
    cost: u64,
}

impl<'a> Check<'a> {
    /// One unit of `policy` for the caller `partition`.
    pub fn new(policy: &'a Policy, partition: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { policy, partition: partition.as_ref(), cost: 1 }
    }

    /// Another cost than 1. A cost of 0 is judged and takes nothing; one above the limit can never pass.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The rule.
    pub const fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// Whose count: any bytes. A store keeps a digest of them, never the bytes themselves.
    pub const fn partition(&self) -> &'a [u8] {
        self.partition
    }

    /// Units to be charged.
    pub const fn units(&self) -> u64 {
        self.cost
    }

    /// Whether both are charged to the same count.
    pub(crate) fn shares_count_with(&self, other: &Self) -> bool {
        self.policy.state_id() == other.policy.state_id() && self.partition == other.partition
    }

    /// A digest that stands for this count: the same for checks that share it, whatever their `max` and cost.
    ///
    /// It is keyed (`SipHash`-1-3, 128 bits), so that nobody who does not know the key can choose callers that collide.
    /// The caller's name alone is hashed, and the policy's number joined by exclusive or: one caller's digests differ
    /// whenever the numbers do, and those of two callers meet no more often than random numbers.
    pub fn digest(&self, key: &[u8; 16]) -> u128 {
        let caller: u128 = keyed(key).hash(self.partition).into();
        let policy = u128::from(self.policy.state_id());
        caller ^ (policy << 64 | policy)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
fn keyed(key: &[u8; 16]) -> SipHasher13 {
    let key = u128::from_le_bytes(*key);
    SipHasher13::new_with_keys(key as u64, (key >> 64) as u64)
}

/// A random key for [`Check::digest`].
pub(crate) fn random_key() -> [u8; 16] {
    let mut key = [0; 16];
    for half in key.chunks_exact_mut(8) {
        // The standard library's own source of random keys for hash tables.
        half.copy_from_slice(&RandomState::new().hash_one(0u8).to_le_bytes());
    }
    key
}

/// A digest that stands for all that a group asks: its counts, limits and costs, in their order.
#[cfg(feature = "redis")]
pub(crate) fn group_digest(group: &[Check<'_>], key: &[u8; 16]) -> u128 {
    let mut hasher = keyed(key);
    for check in group {
        hasher.write_u64(check.policy.state_id());
        hasher.write_u64(check.policy.max());
        hasher.write_u64(check.cost);
        hasher.write_usize(check.partition.len());
        hasher.write(check.partition);
    }
    hasher.finish128().as_u128()
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the partition: it may be an address or a name, and this may end up in a log.
        f.debug_struct("Check")
            .field("policy", &self.policy.key())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
