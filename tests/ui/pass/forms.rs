//! Every accepted form that needs no program of its own.

mod all_arguments;
mod bare;
mod callers;
mod concurrency;
mod constants;
mod extractors;
mod generics;
mod no_prelude;
mod odd_handlers;
mod one_letter_names;
mod own_items;
mod plan;
mod policy;
mod positions;
mod reexported;
mod same_names;
mod stacked;
mod through_macros;
mod to_handler;

fn main() {
    all_arguments::main();
    bare::main();
    callers::main();
    concurrency::main();
    constants::main();
    extractors::main();
    generics::main();
    no_prelude::main();
    odd_handlers::main();
    one_letter_names::main();
    own_items::main();
    plan::main();
    policy::main();
    positions::main();
    reexported::main();
    same_names::main();
    stacked::main();
    through_macros::main();
    to_handler::main();
}
