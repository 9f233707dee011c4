//! Deadline: until when a call may wait for a store.

use std::time::Duration;

#[cfg(any(feature = "redis", test))]
use crate::clock::micros;

/// The instant now, in microseconds since boot, by the clock of deadlines, sleeps and measurements. It is not
/// tokio's clock, which a test of the application may pause: the store's thread has another runtime, and the
/// server another clock.
#[cfg(not(test))]
pub(crate) fn now() -> u64 {
    crate::timer::since_boot_us()
}

/// The same for unit tests, which pause tokio's clock: from an hour before the first use.
#[cfg(test)]
pub(crate) fn now() -> u64 {
    static FIRST: std::sync::LazyLock<tokio::time::Instant> =
        std::sync::LazyLock::new(tokio::time::Instant::now);
    micros((tokio::time::Instant::now() + Duration::from_secs(3_600)).saturating_duration_since(*FIRST))
}

/// The time since an instant of this clock.
pub(crate) fn since(earlier: u64) -> Duration {
    Duration::from_micros(now().saturating_sub(earlier))
}

/// Until when a call may wait for a store: an instant of the process's monotonic clock.
///
/// An operation of a limiter has one deadline, which its round trips share: a store passes it on to each.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// Start of the call.
    since: u64,
    /// Longest wait, counted from `since`.
    timeout: Duration,
    /// Extension that the deadline got when it had passed; zero before.
    #[cfg(feature = "redis")]
    grace: Duration,
}

impl Deadline {
    /// The deadline `timeout` from now.
    pub fn after(timeout: Duration) -> Self {
        Self {
            since: now(),
            timeout,
            #[cfg(feature = "redis")]
            grace: Duration::ZERO,
        }
    }

    /// No deadline: the call may wait as long as the store lets it.
    pub fn none() -> Self {
        Self::after(Duration::MAX)
    }

    /// This deadline, or the deadline `timeout` after the start of the same call if that is earlier.
    #[must_use]
    pub fn at_most(self, timeout: Duration) -> Self {
        Self { timeout: self.timeout.min(timeout), ..self }
    }

    /// Longest wait, counted from the start of the call; for
    /// [`StoreError::timeout`](crate::StoreError::timeout).
    pub const fn timeout(self) -> Duration {
        self.timeout
    }

    /// What is left of the wait now, for a timer; zero if it is over.
    pub fn remaining(self) -> Duration {
        self.timeout.saturating_sub(since(self.since))
    }
}

/// Shortest and longest grace of a deadline. A round trip to a server that answers fits into the shortest.
#[cfg(feature = "redis")]
const GRACE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

#[cfg(feature = "redis")]
impl Deadline {
    /// The deadline of a call for requests that is sent at `sent`. `made` is the instant of the first
    /// request: the call ends with it, but has at least half of the timeout.
    pub(super) fn of_call(sent: u64, made: Option<u64>, timeout: Duration) -> Self {
        let earliest = sent.saturating_sub(micros(timeout / 2));
        Self { since: made.map_or(sent, |made| made.clamp(earliest, sent)), timeout, grace: Duration::ZERO }
    }

    /// The instant of the deadline, which a store must have [bounded](Self::at_most).
    pub(super) fn instant(self) -> u64 {
        self.since.saturating_add(micros(self.timeout)).saturating_add(micros(self.grace))
    }

    /// Ends at the [instant](Self::instant) of the deadline.
    #[cfg(not(test))]
    pub(super) fn sleep(self) -> crate::timer::Delay {
        crate::timer::Delay::until(self.instant(), self.since)
    }

    /// The same for unit tests.
    #[cfg(test)]
    pub(super) fn sleep(self) -> tokio::time::Sleep {
        tokio::time::sleep(Duration::from_micros(self.instant().saturating_sub(now())))
    }

    /// Extends the deadline if `now` is the first instant at which it is seen to have passed, by as much time
    /// as this is noticed late. In that time the process stood still or the thread computed, so that calls
    /// wait to be sent and replies to be read. A deadline without any time is not extended. Returns whether
    /// time is left.
    pub(super) fn extend_once(&mut self, now: u64) -> bool {
        if self.timeout.is_zero() {
            return false;
        }
        let Some(late) = now.checked_sub(self.instant()).map(Duration::from_micros) else { return true };
        if !self.grace.is_zero() {
            return false;
        }
        // The grace counts from `now`, so the time until then is added.
        self.grace = late + late.clamp(GRACE.0, GRACE.1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_only_brings_a_deadline_forward() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(3_600));
        assert_eq!(Deadline::after(long).at_most(short).timeout(), short);
        assert_eq!(Deadline::after(short).at_most(long).timeout(), short);
        assert_eq!(Deadline::none().at_most(short).timeout(), short);
        assert!(Deadline::after(long).remaining() > short);
        assert_eq!(Deadline::after(Duration::ZERO).remaining(), Duration::ZERO);
        assert!(Deadline::none().remaining() > 1_000 * long);
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_deadline_gets_one_grace() {
        const TIMEOUT: Duration = Duration::from_millis(100);
        // Milliseconds by which the end is noticed late, and of the grace.
        for (late, grace) in [(0, 5), (5, 5), (6, 6), (150, 150), (250, 250), (60_000, 250)] {
            let [late, grace] = [late, grace].map(Duration::from_millis);
            let mut deadline = Deadline::after(TIMEOUT);
            assert!(deadline.extend_once(deadline.instant() - 1));
            let noticed = deadline.instant() + micros(late);
            assert!(deadline.extend_once(noticed), "{late:?}");
            assert_eq!(deadline.instant(), noticed + micros(grace));
            assert!(deadline.extend_once(noticed), "{late:?}");
            assert!(!deadline.extend_once(noticed + micros(grace) + 60_000_000), "only one");
            assert_eq!(deadline.timeout(), TIMEOUT, "the grace does not change it");
        }
        let mut none_left = Deadline::after(Duration::ZERO);
        assert!(!none_left.extend_once(none_left.instant() + 60_000_000));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_call_ends_with_its_first_request_and_not_before_half_of_the_timeout() {
        const TIMEOUT: Duration = Duration::from_millis(100);
        let made = now();
        // Milliseconds for which the request has waited, and that the call has.
        for (waited, left) in [(0, 100), (30, 70), (50, 50), (80, 50)] {
            let sent = made + 1_000 * waited;
            let end = Deadline::of_call(sent, Some(made), TIMEOUT).instant();
            assert_eq!(end, sent + 1_000 * left, "{waited} ms");
        }
        assert_eq!(Deadline::of_call(made, None, TIMEOUT).instant(), made + micros(TIMEOUT));
    }
}
