//! The contract of [`Store`](crate::store::Store) as tests, for the built-in stores and for your own.
//!
//! [`conformance_suite!`](crate::conformance_suite) makes one `#[test]` per [case](cases). It takes two
//! functions: one that makes an empty store on a clock, or returns `None` to skip, and one that runs a
//! future to its end. A minor release may add cases.
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

/// The cases of the conformance suite. Each panics if the store breaks the contract, and names the clause,
/// the algorithm, what was expected and what was found. Begin with the random histories: a failure shows the
/// smallest one that fails.
pub mod cases {
    mod races;
    pub(super) mod random;
    mod slots;

    pub use self::races::{
        a_flood_of_callers_frees_no_denied_caller, one_of_those_that_race_for_a_unit_gets_it,
        racing_callers_get_exactly_the_limit,
    };
    pub use self::random::every_decision_is_that_of_the_reference;
    pub use self::slots::{a_group_takes_its_slots_or_none, slots_are_held_until_they_are_freed};
    pub use super::tested::Run;
}
mod clause;
mod history;
mod tested;

pub use self::cases::random::Reference;
pub use self::tested::{Fixture, Tested, clock};

/// Makes one test per case of the suite, in modules in the order in which to look at them; see the
/// [module](crate::conformance).
#[macro_export]
macro_rules! conformance_suite {
    (store: $store:path, block_on: $block_on:path $(,)?) => {
        use $block_on as run_future;
        use $store as store_under_test;
        $crate::conformance_suite! { @tests
            step_2_slots:
                slots_are_held_until_they_are_freed
                a_group_takes_its_slots_or_none;
            step_3_races_and_floods:
                one_of_those_that_race_for_a_unit_gets_it
                racing_callers_get_exactly_the_limit
                a_flood_of_callers_frees_no_denied_caller
        }
        mod step_1_random_histories {
            #[test]
            fn every_decision_is_that_of_the_reference() {
                $crate::conformance::cases::every_decision_is_that_of_the_reference(
                    super::store_under_test,
                    |future| super::run_future(future),
                );
            }
        }
    };
    (@tests $($step:ident: $($case:ident)*);*) => {
        $(
            mod $step {
                $(
                    #[test]
                    fn $case() {
                        let clock = $crate::conformance::clock();
                        let Some(fixture) = super::store_under_test(&clock) else { return };
                        let store = $crate::conformance::Tested::new(&fixture);
                        $crate::conformance::cases::$case(&store, &clock, |future| super::run_future(future));
                    }
                )*
            }
        )*
    };
}
