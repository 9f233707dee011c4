//! The cases of the conformance suite. Each takes an empty store, the store's clock, and a function that runs a future to its
//! end; each panics if the store breaks the contract. A failure names the clause, the algorithm, what was expected and what was
//! found. Begin with the first step: its cases are the shortest.

mod blocks;
mod groups;
mod late_costs;
mod races;
mod random;
mod requests;
mod shadow;
mod slots;

pub use self::blocks::{only_an_own_denial_begins_a_block, the_first_denial_blocks_until_its_end};
pub use self::groups::{
    a_count_that_occurs_twice_is_charged_the_sum, a_group_is_all_or_nothing,
    a_group_of_the_largest_size_is_judged, a_partition_may_be_any_bytes,
    callers_policies_and_windows_are_apart, refund_does_not_reach_into_a_later_window,
    refund_gives_back_what_was_taken,
};
pub use self::late_costs::{
    a_debt_is_paid_by_time, as_many_units_as_fit_are_charged, the_largest_debt_is_bounded,
};
pub use self::races::{
    a_flood_of_callers_frees_no_denied_caller, one_of_those_that_race_for_a_unit_gets_it,
    racing_callers_get_exactly_the_limit,
};
pub use self::random::every_decision_is_that_of_the_reference;
pub use self::requests::{
    an_empty_group_passes, cost_zero_takes_nothing_and_too_high_a_cost_never_passes,
    denied_is_an_outcome_and_takes_nothing, peek_takes_nothing, reset_forgets_one_caller,
    the_given_clock_is_used,
};
pub use self::shadow::a_shadow_limit_is_charged_and_denies_nothing;
pub use self::slots::{a_group_takes_its_slots_or_none, slots_are_held_until_they_are_freed};
pub use super::setup::Run;
