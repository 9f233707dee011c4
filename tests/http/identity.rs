//! Who a request is counted for, whatever it says about itself.

mod counting;
mod forwarding;
mod hops;
mod keys;
