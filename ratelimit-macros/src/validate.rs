//! Second stage: turns arguments and items into specifications, and checks the rules between several values.

mod arguments;
pub(crate) mod block;
mod calendar;
mod counts;
pub(crate) mod extractors;
pub(crate) mod group;
pub(crate) mod handler;
mod inherited;
mod lease;
pub(crate) mod spec;
