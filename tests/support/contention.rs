//! Many processes at the same counts: what the contending processes and the test that starts them agree on.

use std::time::Duration;

use ratelimit_core::{Algorithm, OnError, Policy};

use crate::algorithms::shapes;

/// Callers under each policy.
pub const CALLERS: usize = 8;

/// The longest window there is, so that its edge hardly ever falls into a run, and a bucket refills nothing
/// in it.
pub const WINDOW: Duration = ratelimit_core::policy::MAX_WINDOW;

/// Every algorithm, and the counter with sub-windows as well.
pub fn policies(max: u64) -> Vec<Policy> {
    shapes(Policy::builder("contention").max(max).window(WINDOW), 6)
}

/// A bucket with a turn each 5 ms.
pub fn turns() -> Policy {
    let bucket = Policy::builder("turns").algorithm(Algorithm::TokenBucket).max(200).burst(1);
    bucket.window(Duration::from_secs(1)).on_error(OnError::Deny).build()
}

/// Number of counts: one for each policy and caller.
pub fn counts() -> usize {
    policies(1).len() * CALLERS
}

/// The name of a caller; every run has callers of its own.
pub fn caller(run: u64, number: usize) -> String {
    format!("{run}/{number}")
}
