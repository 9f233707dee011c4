//! What the integration tests share: real servers, and vectors as data.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "test support"
)]

pub mod redis;

use std::time::{Duration, Instant};

/// Whether `condition` comes true within `limit`.
#[allow(clippy::disallowed_methods, reason = "a deadline for a real process, not logic")]
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
