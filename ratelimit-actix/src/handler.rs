//! The run-time half of the attribute: what its expansion calls around a limited handler.

pub(crate) mod bounds;
pub(crate) mod default_key;
pub(crate) mod dynamic;
pub(crate) mod limit;
pub(crate) mod registry;
pub(crate) mod request;
pub(crate) mod sole_limiter;
