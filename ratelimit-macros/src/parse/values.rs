//! Reads values of arguments.

pub(crate) mod algorithm;
pub(crate) mod bounds;
pub(crate) mod calendar;
pub(crate) mod choice;
pub(crate) mod name;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod template;
pub(crate) mod window;
