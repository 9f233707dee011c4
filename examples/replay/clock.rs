//! The clock of the log, which never goes back: the counts of the stores are by such a clock.
//!
//! Servers write a line when a request ends, so its time may be earlier than that of the line before. Such a request counts as made
//! at the latest time before it. A time that is far earlier is a clock that was set back, such as at the end of summer time in a log
//! without offsets: then later times move forward by as much, until the log's own time has caught up.

use std::time::Duration;

use ratelimit_core::Timestamp;

/// Up to this much earlier, in microseconds, a time is late, not set back.
const LATE: u64 = 60 * 1_000_000;
/// Time zones differ by whole quarters of an hour.
const QUARTER: u64 = 15 * 60 * 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct LogClock {
    latest: u64,
    /// How far the clock of the log is set back now.
    behind: u64,
    late: u64,
    latest_by: u64,
    set_back: u64,
    set_back_by: u64,
}

impl LogClock {
    /// The instant of a request whose line has this time.
    pub(crate) fn read(&mut self, at: Timestamp) -> Timestamp {
        let at = at.as_micros();
        if at >= self.latest {
            self.behind = 0;
            self.latest = at;
        } else if self.behind > 0 && self.latest - at <= LATE && at + self.behind - self.latest > LATE {
            // A late line from just before the set-back: by the clock that is set back it would be far ahead.
            self.late += 1;
            self.latest_by = self.latest_by.max(self.latest - at);
        } else if at + self.behind >= self.latest {
            self.latest = at + self.behind;
        } else if self.latest - (at + self.behind) <= LATE {
            self.late += 1;
            self.latest_by = self.latest_by.max(self.latest - (at + self.behind));
        } else {
            self.set_back += 1;
            let back = self.latest - at;
            let quarters = back.saturating_add(QUARTER / 2) / QUARTER * QUARTER;
            // By whole quarters, windows begin at the same minutes as before.
            self.behind = if quarters.abs_diff(back) <= LATE { quarters } else { back };
            self.set_back_by = self.set_back_by.max(self.behind);
            self.latest = self.latest.max(at + self.behind);
        }
        Timestamp::from_micros(self.latest)
    }

    /// How many times were earlier than the one before, and by how much at most.
    pub(crate) fn late(&self) -> (u64, Duration) {
        (self.late, Duration::from_micros(self.latest_by))
    }

    /// How often the clock was set back, and by how much at most.
    pub(crate) fn set_back(&self) -> (u64, Duration) {
        (self.set_back, Duration::from_micros(self.set_back_by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(seconds: &[u64]) -> (Vec<u64>, LogClock) {
        let mut clock = LogClock::default();
        let at = seconds.iter().map(|at| clock.read(Timestamp::from_micros(at * 1_000_000)));
        (at.map(|at| at.as_micros() / 1_000_000).collect(), clock)
    }

    #[test]
    fn a_late_line_counts_at_the_latest_time() {
        let (at, clock) = read(&[100, 103, 101, 104, 60]);
        assert_eq!(at, [100, 103, 103, 104, 104]);
        assert_eq!(clock.late(), (2, Duration::from_secs(44)));
        assert_eq!(clock.set_back().0, 0);
    }

    #[test]
    fn at_the_end_of_summer_time_the_clock_goes_on() {
        // 02:59:58, 02:59:59, 02:00:00, .. 02:59:59, 03:00:00
        let (at, clock) = read(&[10_798, 10_799, 7_200, 7_201, 10_700, 10_799, 10_800]);
        assert_eq!(at, [10_798, 10_799, 10_800, 10_801, 14_300, 14_399, 14_400]);
        assert_eq!(clock.set_back(), (1, Duration::from_secs(3_600)));
        assert_eq!(clock.late().0, 0);
        // A late line from before the set-back.
        let (at, clock) = read(&[10_798, 10_799, 7_200, 7_201, 10_799, 7_202, 10_700, 10_799, 10_800]);
        assert_eq!(at, [10_798, 10_799, 10_800, 10_801, 10_801, 10_802, 14_300, 14_399, 14_400]);
        assert_eq!(clock.set_back(), (1, Duration::from_secs(3_600)));
        assert_eq!(clock.late(), (1, Duration::from_secs(2)));
    }

    #[test]
    fn a_log_that_catches_up_is_believed_again() {
        let (at, _) = read(&[7_200, 3_600, 3_700, 7_400, 3_801]);
        assert_eq!(at, [7_200, 7_200, 7_300, 7_400, 7_401]);
    }

    #[test]
    fn a_step_of_any_length_goes_on() {
        let (at, clock) = read(&[1_000, 400, 401]);
        assert_eq!(at, [1_000, 1_000, 1_001]);
        assert_eq!(clock.set_back().1, Duration::from_secs(600));
    }
}
