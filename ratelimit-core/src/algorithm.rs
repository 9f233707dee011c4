//! The four algorithms: pure arithmetic over a caller's state, a policy, an instant and a cost.
//!
//! | algorithm | state per caller | burst at a window's edge | choose it when |
//! |---|---|---|---|
//! | [`FixedWindow`](Algorithm::FixedWindow) | one count | up to 2 × max in one window | quotas by the clock hour or day; cheapest |
//! | [`SlidingWindowCounter`](Algorithm::SlidingWindowCounter) | sub-windows + 1 counts | below 2 × max in one window | the default: small state, smooth |
//! | [`SlidingWindowLog`](Algorithm::SlidingWindowLog) | every admitted request | none | the rule must hold for every window, to the microsecond |
//! | [`TokenBucket`](Algorithm::TokenBucket) | one instant | burst + max | a steady rate with room for bursts |
//!
//! The counter's estimate of the oldest sub-window is rounded down to whole units. At worst just under 2 × max pass
//! within one window: when all requests of a sub-window come at its end. 178 of 100 were the most that simulated traffic
//! reached by default. In the log, an entry that is exactly one window old still counts.
//!
//! Every algorithm is a state with the same few functions, which a decision calls in this order:
//!
//! 1. `settle` brings the state to `now`: windows roll, what has expired goes, a clock that went back is absorbed;
//! 2. `left` says how many units would pass: a cost fits when it is no more, and what then remains is the difference;
//! 3. `charge` takes it, once every limit of the group has said yes;
//! 4. `resets_at` and `retry_after` report; the latter also about one more unit, where nothing is left.
//!
//! A Lua file of the same name in `lua/` does the same steps with the same names inside Redis, where `left` is `fits` and
//! `remaining`. Neither knows a clock, a store or async. Time is in integer microseconds, and every division is exact: Rust multiplies in 128 bits, Lua
//! divides by parts (`lua/lib/mul_div.lua`).

mod compact;
mod decide;
#[cfg(feature = "redis")]
pub(crate) mod encoded;
mod fixed_window;
mod mul_div;
mod sliding_window_counter;
mod sliding_window_log;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod token_bucket;

pub(crate) use self::decide::decide_one;
pub use self::decide::{Member, Mode, decide};
pub use self::state::State;
pub use crate::policy::Algorithm;
