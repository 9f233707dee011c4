//! Overrides in requests: plans, and what the core needs to know of attributes.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;

pub(crate) use ratelimit_core::__private_0_1::LimitRows;
