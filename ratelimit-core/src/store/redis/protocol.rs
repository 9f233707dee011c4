//! The protocol of the scripts: arguments and replies. No other module knows these formats.
//!
//! Arguments are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it converts many
//! arguments. All numbers are integers below 2^53. The reply holds the state found at each key and, unless all requests
//! passed, one verdict per request. `remaining`, `reset_after` and `retry_after` are derived from that state by the code
//! that the memory store runs.

mod batch;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(super) use self::batch::{Batch, LimitArg, PolicyArg, Request};
pub(super) use self::decode::{EXPECTED, Replies, Reply, Unclaimed};
pub(super) use self::encode::{Encoder, RefundArgs};
