//! First stage: turns tokens into arguments and items, and checks each value on its own.

pub(crate) mod algorithm;
pub(crate) mod args;
pub(crate) mod bounds;
pub(crate) mod by;
pub(crate) mod calendar;
pub(crate) mod choice;
mod expr;
mod extractor_type;
pub(crate) mod item;
pub(crate) mod item_kind;
mod keywords;
pub(crate) mod kind;
pub(crate) mod members;
pub(crate) mod name;
pub(crate) mod number;
mod path;
pub(crate) mod request_fn;
pub(crate) mod route;
pub(crate) mod suggest;
mod template;
pub(crate) mod tokens;
pub(crate) mod usage;
pub(crate) mod window;
