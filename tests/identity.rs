//! Who a request is counted for, whatever it says about itself.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

#[path = "identity/counting.rs"]
mod counting;
#[path = "identity/forwarding.rs"]
mod forwarding;
#[path = "identity/hops.rs"]
mod hops;
#[path = "identity/keys.rs"]
mod keys;
