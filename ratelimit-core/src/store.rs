//! Stores: where counts are kept, and the contract of every store.

mod erased;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::fmt;
use std::future::Future;

pub(crate) use self::erased::ErasedStore;
pub use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
pub use crate::reservation::{Charge, Reservation};

/// Keeps counts, and changes them atomically.
///
/// The contract. The [conformance suite](crate::conformance) tests 1, 2, 3 and 5, and of 6 that a denied caller is not
/// dropped:
///
/// 1. **Atomic.** No other decision about the same states comes between a decision and its charge, in any process.
/// 2. **All or nothing.** Every check of a group passes and all are charged, or none is.
/// 3. **Equal.** Every decision is that of [`decide`](crate::algorithm::decide).
/// 4. **One clock.** All instants come from one clock of the store, never from the caller's.
/// 5. **A denial is an outcome.** An error means that nothing was decided, or, for a timeout, that it is unknown.
/// 6. **Bounded.** Expired states are dropped. A state that still counts is never dropped to make room for another.
/// 7. **Opaque.** Partitions are kept as digests.
///
/// A store that calls a server must also be *cancel safe*: a future that is dropped has charged all of a group or nothing.
///
/// `examples/custom_store.rs` is a store in fifty lines.
///
/// # Errors
///
/// Every method fails with a [`StoreError`] if the store cannot be reached, does not reply in time, or holds corrupt state
/// for a caller of the group.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Decides about a group, and charges it if every limit passes.
    fn check(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Decides about a group, and changes nothing.
    fn peek(&self, group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>> + Send;

    /// Drops the state of each check; the costs do not matter.
    fn reset(&self, group: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Refunds the charges of a reservation, as far as they still count.
    fn refund(&self, reservation: &Reservation<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
}
