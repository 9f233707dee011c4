//! What goes to the scripts and what comes back; the one place that knows both formats.
//!
//! Arguments are strings of little-endian doubles, because Lua unpacks one string of numbers faster than it converts many
//! arguments. All numbers are integers below 2^53. A script answers which requests pass, and with what it found; what a
//! client is told beyond that, whoever asked works out from it, with the same steps as in memory.

mod batch;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(super) use self::batch::{Limit, Request};
pub(super) use self::decode::{EXPECTED, Reply};
pub(super) use self::encode::{Encoder, RefundArguments};
