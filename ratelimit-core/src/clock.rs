//! Time: the one place that reads a clock.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An instant, in whole microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant `micros` microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The instant `after` from now, in whole Unix seconds, rounded up.
    pub fn unix_seconds_after(self, after: Duration) -> u64 {
        let micros = u128::from(self.0) + after.as_micros();
        u64::try_from(micros.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Where the in-memory store reads the time.
///
/// The Redis store does not ask it: there the server's clock decides, so that all instances agree.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present instant. It must not go backwards within a process.
    fn now(&self) -> Timestamp;
}

/// The monotonic clock of the process, set once by the wall clock.
///
/// Fixed windows start at multiples of the window since the epoch, hence the wall clock; a wall clock that is set
/// while the process runs changes no decision, hence the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    epoch_us: u64,
}

impl SystemClock {
    /// A clock that agrees with the wall clock now.
    #[allow(clippy::disallowed_methods, reason = "this is the place")]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), epoch_us: micros(since_epoch) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.epoch_us + micros(self.started.elapsed()))
    }
}

/// Whole microseconds; 584,000 years fit.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is moved; clones share their time.
#[cfg(any(test, feature = "test-util"))]
#[derive(Clone, Debug, Default)]
pub struct FakeClock {
    now: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

#[cfg(any(test, feature = "test-util"))]
impl FakeClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Shows `now`, which may be earlier than before.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.as_micros(), std::sync::atomic::Ordering::SeqCst);
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(micros(by), std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "test-util"))]
impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(std::sync::atomic::Ordering::SeqCst))
    }
}
