//! The cases of the conformance suite. Each panics if the store breaks the contract, and names the clause, the algorithm, what was
//! expected and what was found. Begin with the random histories: a failure shows the smallest one that fails.

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
