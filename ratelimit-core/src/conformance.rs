//! The contract of [`Store`](crate::store::Store) as tests, for the built-in stores and for your own.
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
mod clause;
mod reference;
mod setup;
mod tested;

pub use self::reference::Reference;
pub use self::tested::{Fixture, Tested};
use crate::clock::{FakeClock, Timestamp};

/// Makes one test per case of the suite, in modules that begin with the shortest cases; see the [module](crate::conformance).
#[macro_export]
macro_rules! conformance_suite {
    (store: $store:path, block_on: $block_on:path $(,)?) => {
        use {$block_on as run_future, $store as store_under_test};
        $crate::conformance_suite! { @tests
            step_1_one_limit:
                the_given_clock_is_used
                an_empty_group_passes
                denied_is_an_outcome_and_takes_nothing
                peek_takes_nothing
                cost_zero_takes_nothing_and_too_high_a_cost_never_passes
                reset_forgets_one_caller;
            step_2_groups_and_refunds:
                a_group_is_all_or_nothing
                a_count_that_occurs_twice_is_charged_the_sum
                callers_policies_and_windows_are_apart
                a_partition_may_be_any_bytes
                a_group_of_the_largest_size_is_judged
                refund_gives_back_what_was_taken
                refund_does_not_reach_into_a_later_window;
            step_3_blocks_shadows_and_debts:
                the_first_denial_blocks_until_its_end
                only_an_own_denial_begins_a_block
                a_shadow_limit_is_charged_and_denies_nothing
                as_many_units_as_fit_are_charged
                a_debt_is_paid_by_time
                the_largest_debt_is_bounded;
            step_4_slots:
                slots_are_held_until_they_are_freed
                a_group_takes_its_slots_or_none;
            step_5_races_and_floods:
                one_of_those_that_race_for_a_unit_gets_it
                racing_callers_get_exactly_the_limit
                a_flood_of_callers_frees_no_denied_caller;
            step_6_random_requests:
                every_decision_is_that_of_the_reference
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

/// Creates a clock at a fixed instant in 2026 that is no multiple of a second.
pub fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_790_000_000_123_456))
}
