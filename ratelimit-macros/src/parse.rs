//! First stage: turns tokens into arguments and items, and checks each value on its own.

pub(crate) mod args;
pub(crate) mod code;
pub(crate) mod items;
mod keywords;
pub(crate) mod kind;
pub(crate) mod suggest;
pub(crate) mod usage;
pub(crate) mod values;
