//! Third stage: turns specifications into tokens. It cannot fail.

mod closure_fn;
pub(crate) mod container;
mod declaration;
mod dynamic;
mod limits;
pub(crate) mod paths;
pub(crate) mod wrapper;
