//! Second stage: turns arguments and items into specifications, and checks the rules between several values.

mod arguments;
mod calendar;
pub(crate) mod container;
mod counts;
pub(crate) mod extractors;
pub(crate) mod handler;
pub(crate) mod inherited;
pub(crate) mod spec;
