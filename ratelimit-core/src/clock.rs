//! Time: the clock by which stores in this process decide.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::timer::{Delay, since_boot_us};

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

    /// The same instant on a clock that is so many microseconds ahead.
    pub(crate) const fn on_clock_ahead(self, ahead_us: i64) -> Self {
        Self(self.0.saturating_add_signed(ahead_us))
    }
}

/// Clock of the in-process store.
///
/// The Redis store uses the server's clock instead, so that all instances agree.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Present instant. Must not go backwards within a process.
    fn now(&self) -> Timestamp;

    /// What a wall clock shows, as it is set now, when this clock shows `instant`. Windows of a calendar
    /// begin by it. By default the same instant, so they begin by this clock.
    fn on_wall_clock(&self, instant: Timestamp) -> Timestamp {
        instant
    }

    /// Ends when this much time has passed. By default the clock of the process measures it, which goes on
    /// while the machine is suspended; after a suspension the end may be a second late. Needs no runtime.
    ///
    /// One thread of the process ends all of these sleeps. So the waker of a task that sleeps must not block:
    /// until it returns, no other sleep ends, and no request meets its deadline.
    fn sleep(&self, wait: Duration) -> Sleep {
        Box::pin(Delay::new(wait))
    }
}

/// Future of [`Clock::sleep`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The clock of the process, set once by the wall clock. On Linux, macOS and Windows it also goes on while
/// the machine is suspended.
///
/// The wall clock is needed because fixed windows start at multiples of the window since the epoch. A wall
/// clock that is set while the process runs must not change a decision about windows of one length. So all
/// system clocks of a process agree, and follow no later change. Days, weeks, months and years follow each
/// change, within half a second.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// Time by which the wall clock was ahead of the clock since boot when the process first read both, in
    /// microseconds; wraps around.
    ahead_us: u64,
}

impl SystemClock {
    /// Creates a clock that agrees with all others of the process.
    pub fn new() -> Self {
        static AHEAD_US: LazyLock<u64> = LazyLock::new(|| wall_clock().0.wrapping_sub(since_boot_us()));
        Self { ahead_us: *AHEAD_US }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.ahead_us.wrapping_add(since_boot_us()))
    }

    fn on_wall_clock(&self, instant: Timestamp) -> Timestamp {
        thread_local! {
            // When the wall clock was read, and how far ahead it was, which wraps around.
            static READ: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
        }
        let is_recent = |&(read_at, _): &(u64, u64)| instant.0 < read_at.saturating_add(WALL_CLOCK_AGE_US);
        let (_, ahead) = READ.get().filter(is_recent).unwrap_or_else(|| {
            let now = self.now().0;
            let read = (now, wall_clock().0.wrapping_sub(now));
            READ.set(Some(read));
            read
        });
        Timestamp(instant.0.wrapping_add(ahead))
    }
}

/// What the wall clock shows now.
#[allow(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn wall_clock() -> Timestamp {
    Timestamp(micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// Age of a sample of the wall clock, in microseconds, from which the clock is read again.
const WALL_CLOCK_AGE_US: u64 = 500_000;

/// Whole microseconds; saturates after 584,000 years.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is moved; clones share their time. A sleep by it ends when it is
/// moved far enough. Its wall clock shows the same until it is set apart.
#[cfg(any(test, feature = "test-util"))]
#[derive(Clone, Debug, Default)]
pub struct FakeClock {
    now: std::sync::Arc<std::sync::atomic::AtomicU64>,
    /// How far the wall clock is ahead, which wraps around.
    wall_clock_ahead_us: std::sync::Arc<std::sync::atomic::AtomicU64>,
    sleepers: std::sync::Arc<parking_lot::Mutex<Vec<std::task::Waker>>>,
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
        self.wake();
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(micros(by), std::sync::atomic::Ordering::SeqCst);
        self.wake();
    }

    /// Sets the wall clock to `wall`, by which days, weeks, months and years begin. From then on it moves
    /// with this clock.
    pub fn set_wall_clock(&self, wall: Timestamp) {
        let ahead_us = wall.as_micros().wrapping_sub(self.now().as_micros());
        self.wall_clock_ahead_us.store(ahead_us, std::sync::atomic::Ordering::SeqCst);
    }

    fn wake(&self) {
        let sleepers = std::mem::take(&mut *self.sleepers.lock());
        sleepers.into_iter().for_each(std::task::Waker::wake);
    }
}

#[cfg(any(test, feature = "test-util"))]
impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn on_wall_clock(&self, instant: Timestamp) -> Timestamp {
        let ahead_us = self.wall_clock_ahead_us.load(std::sync::atomic::Ordering::SeqCst);
        Timestamp(instant.0.wrapping_add(ahead_us))
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        use std::task::Poll;

        let (clock, until) = (self.clone(), self.now().saturating_add(wait));
        Box::pin(std::future::poll_fn(move |context| {
            // Before the look, so that a move between the two wakes it.
            clock.sleepers.lock().push(context.waker().clone());
            if clock.now() < until { Poll::Pending } else { Poll::Ready(()) }
        }))
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
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(last <= now);
            last = now;
        }
        // The two clocks may drift apart, but not by a second within this test.
        assert!(last.as_micros().abs_diff(wall_clock().as_micros()) < 1_000_000);
        assert!(clock.on_wall_clock(last).as_micros().abs_diff(wall_clock().as_micros()) < 1_000_000);
        assert_eq!(SystemClock::new().ahead_us, clock.ahead_us);
    }

    #[test]
    fn a_sleep_by_a_fake_clock_ends_when_the_clock_is_moved_far_enough() {
        use std::task::{Context, Poll, Waker};

        let clock = FakeClock::default();
        let mut sleep = clock.sleep(Duration::from_micros(5));
        let mut is_over = || sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(());
        assert!(!is_over());
        clock.advance(Duration::from_micros(4));
        assert!(!is_over());
        clock.advance(Duration::from_micros(1));
        assert!(is_over());
    }

    #[tokio::test]
    async fn a_move_of_a_fake_clock_wakes_the_tasks_that_sleep_by_it() {
        let clock = FakeClock::default();
        let sleeps = [1, 2].map(|micros| tokio::spawn(clock.sleep(Duration::from_micros(micros))));
        tokio::task::yield_now().await;
        assert!(sleeps.iter().all(|sleep| !sleep.is_finished()));
        clock.set(Timestamp::from_micros(2));
        for sleep in sleeps {
            sleep.await.unwrap();
        }
    }

    #[test]
    fn a_sleep_by_the_system_clock_is_not_shorter_than_asked_and_needs_no_runtime() {
        use std::sync::Arc;
        use std::task::{Context, Wake};
        use std::thread::{self, Thread};

        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let (clock, wait) = (SystemClock::new(), Duration::from_millis(20));
        let (began, waker) = (clock.now(), Arc::new(Unpark(thread::current())).into());
        let mut sleep = clock.sleep(wait);
        while sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
        assert!(clock.now() >= began.saturating_add(wait));
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
        assert_eq!(clock.on_wall_clock(clock.now()), clock.now());
        for wall in [100, 1] {
            other.set_wall_clock(Timestamp::from_micros(wall));
            assert_eq!(clock.on_wall_clock(clock.now()), Timestamp::from_micros(wall));
        }
        clock.advance(Duration::from_micros(4));
        assert_eq!((clock.now().0, clock.on_wall_clock(clock.now()).0), (7, 5), "both move");
    }
}
