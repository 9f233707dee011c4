//! Who a request is counted for, whatever it says about itself.

#![allow(clippy::unwrap_used, reason = "also in functions that several tests call")]

mod counting;
mod forwarding;
mod hops;
mod keys;
