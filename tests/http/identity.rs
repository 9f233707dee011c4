//! Which caller a request is counted for, whatever it claims.

mod counting;
mod forwarding;
mod hops;
mod keys;
