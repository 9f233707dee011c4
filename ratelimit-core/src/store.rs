//! Where the counts live, and what every such place promises.

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
pub use crate::reservation::{Reservation, Taken};

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
