//! First stage: turns tokens into arguments and items, and checks each value on its own.

pub(crate) mod algorithm;
pub(crate) mod args;
pub(crate) mod by;
pub(crate) mod choice;
mod expr;
mod extractor_type;
mod facade;
pub(crate) mod impl_header;
mod inner;
pub(crate) mod item;
pub(crate) mod item_kind;
mod keywords;
pub(crate) mod lease;
pub(crate) mod members;
pub(crate) mod name;
pub(crate) mod number;
pub(crate) mod plan;
mod policy;
pub(crate) mod request_fn;
pub(crate) mod route;
mod skip;
mod template;
pub(crate) mod tokens;
pub(crate) mod window;
