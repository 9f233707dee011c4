//! Second stage: turns arguments and items into specifications, and checks the rules between several values.

mod arguments;
mod calendar;
pub(crate) mod container;
mod counts;
pub(crate) mod extractors;
pub(crate) mod group;
pub(crate) mod handler;
mod inherited;
mod lease;
pub(crate) mod spec;
