//! Time: the clock by which stores in this process decide.

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

    /// The instant `wait` later, in whole microseconds; at most the last instant that can be represented.
    #[must_use]
    pub fn saturating_add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(micros(wait)))
    }
}

/// Clock of the in-process store.
///
/// The Redis store uses the server's clock instead, so that all instances agree.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Present instant. Must not go backwards within a process.
    fn now(&self) -> Timestamp;
}

/// The monotonic clock of the process, set once by the wall clock.
///
/// The wall clock is needed because fixed windows start at multiples of the window since the epoch. The monotonic clock is
/// needed because a wall clock that is set while the process runs must not change a decision.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    epoch_us: u64,
}

impl SystemClock {
    /// Creates a clock that agrees with the wall clock now.
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

/// The monotonic clock that also counts while the machine is suspended, in microseconds since some instant before the
/// process began.
///
/// The standard library's monotonic clock stands still meanwhile on Linux and macOS. On other systems it is the nearest
/// there is; on Windows it counts.
#[cfg(feature = "redis")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuspendClock(());

#[cfg(all(feature = "redis", any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
impl SuspendClock {
    pub(crate) fn new() -> Self {
        Self(())
    }

    fn micros() -> u64 {
        #[cfg(target_vendor = "apple")]
        let clock = rustix::time::ClockId::Monotonic;
        #[cfg(not(target_vendor = "apple"))]
        let clock = rustix::time::ClockId::Boottime;
        let time = rustix::time::clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds.unwrap_or_default() * 1_000_000 + nanos.unwrap_or_default() / 1_000
    }
}

#[cfg(all(feature = "redis", not(any(target_os = "linux", target_os = "android", target_vendor = "apple"))))]
impl SuspendClock {
    pub(crate) fn new() -> Self {
        Self(())
    }

    #[allow(clippy::disallowed_methods, reason = "this is the place")]
    fn micros() -> u64 {
        static STARTED: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        micros(STARTED.elapsed())
    }
}

#[cfg(feature = "redis")]
impl Clock for SuspendClock {
    fn now(&self) -> Timestamp {
        Timestamp(Self::micros())
    }
}

/// Whole microseconds; saturates after 584,000 years.
pub(crate) fn micros(duration: Duration) -> u64 {
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
    /// Creates a clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Sets the time to `now`, which may be earlier than before.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.as_micros(), std::sync::atomic::Ordering::SeqCst);
    }

    /// Moves the time forward.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_an_instant_and_a_wait_stops_at_the_last_instant() {
        let at = Timestamp::from_micros(10);
        assert_eq!(at.saturating_add(Duration::from_nanos(2_999)), Timestamp::from_micros(12));
        assert_eq!(at.saturating_add(Duration::MAX), Timestamp::from_micros(u64::MAX));
    }

    #[test]
    fn the_system_clock_starts_with_the_wall_clock_and_never_goes_back() {
        #[allow(clippy::disallowed_methods, reason = "the clock to compare with")]
        let wall = || Timestamp(micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap()));
        let before = wall();
        let clock = SystemClock::new();
        let mut last = clock.now();
        assert!(before <= last);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(last <= now);
            last = now;
        }
        // The two clocks may drift apart, but not by a second within this test.
        assert!(last.as_micros() <= wall().as_micros() + 1_000_000);
    }

    #[test]
    fn a_fake_clock_moves_only_when_set_and_its_clones_with_it() {
        let clock = FakeClock::at(Timestamp::from_micros(5));
        let other = clock.clone();
        assert_eq!(other.now(), clock.now());
        clock.advance(Duration::from_micros(2));
        assert_eq!(other.now(), Timestamp::from_micros(7));
        other.set(Timestamp::from_micros(3));
        assert_eq!(clock.now(), Timestamp::from_micros(3), "it may go back");
    }
}
