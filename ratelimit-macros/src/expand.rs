//! Third stage: specifications to tokens. Nothing here can fail.

pub(crate) mod block;
mod closure_fn;
mod declaration;
mod dynamic;
mod limits;
pub(crate) mod paths;
pub(crate) mod wrapper;
