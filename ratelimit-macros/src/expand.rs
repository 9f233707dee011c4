//! Third stage: turns specifications into tokens. It cannot fail.

pub(crate) mod block;
mod closure_fn;
mod declaration;
mod dynamic;
mod limits;
pub(crate) mod paths;
pub(crate) mod wrapper;
