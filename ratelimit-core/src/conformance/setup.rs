//! What every case of the conformance suite needs.

use std::pin::Pin;
use std::time::Duration;

use crate::clock::{FakeClock, Timestamp};
use crate::policy::{Algorithm, Policy};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn policy(key: &'static str, algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder(key).algorithm(algorithm).max(max).window(MINUTE).build()
}

/// The future of a case.
pub type Run<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Creates a clock at a fixed instant in 2026 that is no multiple of a second.
pub fn clock() -> FakeClock {
    FakeClock::at(Timestamp::from_micros(1_790_000_000_123_456))
}
