//! The contract of [`Store`] as tests, for the built-in stores and for your own.
//!
//! [`conformance_suite!`](crate::conformance_suite) makes one `#[test]` per [case](cases). It takes two functions: one that
//! makes an empty store on a given clock, or returns `None` to skip, and one that runs a future to its end. A minor release
//! may add cases.
//!
//! ```
//! # mod block { pub fn on<F: Future>(future: F) -> F::Output {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
//! # } }
//! use ratelimit_core::MemoryStore;
//! use ratelimit_core::clock::FakeClock;
//!
//! fn memory(clock: &FakeClock) -> Option<MemoryStore> {
//!     Some(MemoryStore::new().with_clock(clock.clone()))
//! }
//!
//! mod memory_store {
//!     ratelimit_core::conformance_suite! { store: super::memory, block_on: super::block::on }
//! }
//! # fn main() {}
//! ```
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "every function here is a test and panics by design"
)]

pub mod cases;
mod reference;
mod setup;
mod tested;

pub use self::reference::Reference;
pub use self::tested::Tested;
use crate::clock::{FakeClock, Timestamp};
use crate::store::Store;

/// Result of a suite's store function: a store, or a value that holds a store and what it needs, such as a server.
pub trait Fixture: Sync {
    /// Type of the store.
    type Store: Store;
    /// The store under test.
    fn store(&self) -> &Self::Store;

    /// Another handle on the same counts, such as one with a connection of its own; by default none. Then every case calls both
    /// in turns.
    fn second(&self) -> Option<&Self::Store> {
        None
    }
}

impl<S: Store> Fixture for S {
    type Store = S;

    fn store(&self) -> &S {
        self
    }
}

/// Makes one test per case of the suite; see the [module](crate::conformance).
#[macro_export]
macro_rules! conformance_suite {
    (store: $store:path, block_on: $block_on:path $(,)?) => {
        $crate::conformance_suite! { @tests $store, $block_on:
            denied_is_an_outcome_and_takes_nothing
            a_group_is_all_or_nothing
            a_count_that_occurs_twice_is_charged_the_sum
            callers_policies_and_windows_are_apart
            a_partition_may_be_any_bytes
            peek_takes_nothing
            reset_forgets_one_caller
            refund_gives_back_what_was_taken
            refund_does_not_reach_into_a_later_window
            cost_zero_takes_nothing_and_too_high_a_cost_never_passes
            the_first_denial_blocks_until_its_end
            only_an_own_denial_begins_a_block
            a_shadow_limit_is_charged_and_denies_nothing
            as_many_units_as_fit_are_charged
            a_debt_is_paid_by_time
            the_largest_debt_is_bounded
            an_empty_group_passes
            a_group_of_the_largest_size_is_judged
            racing_callers_get_exactly_the_limit
            a_flood_of_callers_frees_no_denied_caller
            every_decision_is_that_of_the_reference
        }
    };
    (@tests $store:path, $block_on:path: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                let clock = $crate::conformance::clock();
                let Some(fixture) = $store(&clock) else { return };
                $crate::conformance::cases::$case(
                    &$crate::conformance::Tested::new(&fixture),
                    &clock,
                    |future| $block_on(future),
                );
            }
        )*
    };
}

/// Creates a clock at a fixed instant in 2026 that is no multiple of a second.
pub fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_790_000_000_123_456))
}
