//! What a client sees: header fields, and the responses to rejected requests.

pub(crate) mod body;
pub(crate) mod drain;
pub(crate) mod headers;
pub(crate) mod rejection;
