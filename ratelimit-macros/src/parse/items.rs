//! Reads items that have an attribute, their kinds, members and routes.

pub(crate) mod item;
pub(crate) mod item_kind;
pub(crate) mod members;
pub(crate) mod route;
