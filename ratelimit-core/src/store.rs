//! Where the counts live, and what every such place promises.

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::fmt;
use std::future::Future;
#[cfg(feature = "redis")]
use std::hash::Hasher;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;

#[cfg(feature = "redis")]
use siphasher::sip128::Hasher128;
use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;

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

/// What an admitted group took, so that it can be given back.
#[derive(Clone, Debug)]
pub struct Reservation<'a> {
    taken: SmallVec<[Taken<'a>; 2]>,
    degraded: bool,
}

impl<'a> Reservation<'a> {
    pub(crate) fn new(taken: SmallVec<[Taken<'a>; 2]>, degraded: bool) -> Self {
        Self { taken, degraded }
    }

    /// A reservation of one thing.
    pub(crate) fn of(taken: Taken<'a>) -> Self {
        Self { taken: smallvec::smallvec![taken], degraded: false }
    }

    /// Whether the store was out, so that this process counted by itself.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// What was taken, once for each count, in the order of the group.
    pub fn taken(&self) -> impl ExactSizeIterator<Item = Taken<'a>> + '_ {
        self.taken.iter().copied()
    }
}

/// What one limit was charged.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    check: Check<'a>,
    at: Timestamp,
    until: Timestamp,
}

impl<'a> Taken<'a> {
    pub(crate) const fn new(check: Check<'a>, at: Timestamp, until: Timestamp) -> Self {
        Self { check, at, until }
    }

    pub(crate) const fn with_check(self, check: Check<'_>) -> Taken<'_> {
        Taken { check, at: self.at, until: self.until }
    }

    /// The limit, the caller and the units.
    pub const fn check(&self) -> Check<'a> {
        self.check
    }

    /// The instant at which it was charged, by the store's clock.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The instant from which it no longer counts anyway.
    pub const fn until(&self) -> Timestamp {
        self.until
    }
}

/// Where counts live and are changed atomically.
///
/// The contract; the [conformance suite](crate::conformance) checks 1, 2, 3 and 5, and of 6 that nobody who is denied is
/// forgotten:
///
/// 1. **Atomic.** No other decision about the same counts comes between judging and charging, in this process or another.
/// 2. **All or nothing.** Either every check of a group passes and all are charged, or none is.
/// 3. **Equal.** Every decision is what [`decide`](crate::algorithm::decide) says.
/// 4. **One clock.** All instants come from one clock; the caller's is not asked.
/// 5. **Denied is an outcome.** An error means that nothing was decided, or, with a timeout, that nobody knows.
/// 6. **Bounded.** State that says nothing any more is forgotten. State that does is not, to make room for another.
/// 7. **Opaque.** Partitions are kept as digests.
///
/// A store that asks a server must also be *cancel safe*: a future that is dropped has charged all of a group or nothing.
///
/// `examples/custom_store.rs` is a store in fifty lines.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Judges a group and charges it when every limit passes.
    fn check(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Judges a group and changes nothing.
    fn peek(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Forgets what was counted for each of the checks; their costs do not matter.
    fn reset(&self, group: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives back what a reservation took, as far as it still counts.
    fn refund(&self, reservation: &Reservation<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`Store`] as an object, so that a limiter can hold any.
pub(crate) trait ErasedStore: fmt::Debug + Send + Sync {
    fn check<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome>;
    fn peek<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome>;
    fn reset<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, ()>;
    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>) -> BoxFuture<'a, ()>;
}

impl<S: Store> ErasedStore for S {
    fn check<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(Store::check(self, group))
    }

    fn peek<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, GroupOutcome> {
        Box::pin(Store::peek(self, group))
    }

    fn reset<'a>(&'a self, group: &'a [Check<'a>]) -> BoxFuture<'a, ()> {
        Box::pin(Store::reset(self, group))
    }

    fn refund<'a>(&'a self, reservation: &'a Reservation<'_>) -> BoxFuture<'a, ()> {
        Box::pin(Store::refund(self, reservation))
    }
}
