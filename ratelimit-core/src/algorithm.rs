//! The algorithms as pure arithmetic over a caller's state, a policy, an instant and a cost.
//!
//! `Algorithm` describes the formulas, costs and worst cases. The [toolkit](crate::store::toolkit) has what a
//! store needs.
//!
//! Every algorithm is a state with the same few steps, which a decision calls in this order:
//!
//! 1. `advance` brings the state to `now`: windows roll, expired entries go, a clock that went back is
//!    absorbed;
//! 2. `available` is the number of units that would pass: a cost fits if it is no more;
//! 3. `charge` takes the cost, once every limit of the group fits;
//! 4. `resets_at` and `retry_after` compute the waits, also the wait for one more unit if nothing remains.
//!
//! A Lua file of the same name in `lua/` does the same steps inside Redis. Neither uses a clock, a store or
//! async. Time is in integer microseconds, and every division is exact: Rust multiplies in 128 bits, Lua
//! divides by parts.

mod block;
mod bytes;
pub(crate) mod concurrency;
#[cfg(feature = "redis")]
pub(crate) mod encoded;
mod fixed_window;
mod group;
mod judge;
mod numbers;
mod places;
mod shadow;
mod sliding_window_counter;
mod sliding_window_log;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod token_bucket;

#[cfg(feature = "redis")]
pub(crate) use self::concurrency::OwnEntry;
pub use self::judge::Operation;
pub(crate) use self::places::{StatePlaces, judge_at};
pub(crate) use self::shadow::{judge, judge_check};
pub use self::state::State;
