//! Third stage: specifications to tokens. Nothing here can fail.

pub(crate) mod closure_fn;
pub(crate) mod dynamic;
pub(crate) mod limits;
pub(crate) mod paths;
pub(crate) mod source_text;
pub(crate) mod wrapper;
