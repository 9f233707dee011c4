//! Deadline: until when a call may wait for a store.

use std::time::{Duration, Instant};

/// The instant now, by the clock of deadlines and measurements. Not tokio's, which a test of the application
/// may pause: the store's thread has another runtime, and the server another clock.
#[cfg(not(test))]
#[allow(clippy::disallowed_methods, reason = "decides no limit")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The same for unit tests, which pause tokio's clock.
#[cfg(test)]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Ends at an instant of this clock.
#[cfg(all(feature = "redis", not(test)))]
pub(crate) fn sleep_until(end: Instant) -> crate::timer::Delay {
    crate::timer::Delay::new(end.saturating_duration_since(now()))
}

/// The same for unit tests.
#[cfg(all(feature = "redis", test))]
pub(crate) fn sleep_until(end: Instant) -> tokio::time::Sleep {
    tokio::time::sleep_until(end.into())
}

/// Until when a call may wait for a store: an instant of the process's monotonic clock.
///
/// Calls with the same deadline share it: a store that makes several round trips for one call passes it on to
/// each.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// Start of the call: also its place in the order of a queue.
    pub(crate) since: Instant,
    pub(crate) limit: Duration,
    /// The part of `limit` that was given back for stalls of the process.
    #[cfg(feature = "redis")]
    pub(super) given_back: Duration,
    /// Stalls before this instant are settled: given back, or not those of this call.
    #[cfg(feature = "redis")]
    pub(super) last_ran: Instant,
}

impl Deadline {
    /// The deadline `limit` from now.
    pub fn after(limit: Duration) -> Self {
        let now = now();
        Self {
            since: now,
            limit,
            #[cfg(feature = "redis")]
            given_back: Duration::ZERO,
            #[cfg(feature = "redis")]
            last_ran: now,
        }
    }

    /// No deadline: the call may wait as long as the store lets it.
    pub fn none() -> Self {
        Self::after(Duration::MAX)
    }

    /// This deadline, or the one `limit` after the start of the same call if that is earlier.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        Self { limit: self.limit.min(limit), ..self }
    }

    /// Longest wait, counted from the start of the call; for
    /// [`StoreError::timeout`](crate::StoreError::timeout).
    pub const fn limit(self) -> Duration {
        self.limit
    }

    /// What is left of the wait now, for a timer; zero if it is over.
    pub fn remaining(self) -> Duration {
        self.limit.saturating_sub(now().saturating_duration_since(self.since))
    }
}

#[cfg(feature = "redis")]
impl Deadline {
    /// The instant of the deadline, which a store must have [bounded](Self::at_most).
    pub(crate) fn instant(self) -> Instant {
        self.since + self.limit
    }

    /// Its limit, without what was given back.
    pub(super) const fn granted(self) -> Duration {
        self.limit.saturating_sub(self.given_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_only_brings_a_deadline_forward() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(3_600));
        assert_eq!(Deadline::after(long).at_most(short).limit(), short);
        assert_eq!(Deadline::after(short).at_most(long).limit(), short);
        assert_eq!(Deadline::none().at_most(short).limit(), short);
        assert!(Deadline::after(long).remaining() > short);
        assert_eq!(Deadline::after(Duration::ZERO).remaining(), Duration::ZERO);
        assert!(Deadline::none().remaining() > 1_000 * long);
    }
}
