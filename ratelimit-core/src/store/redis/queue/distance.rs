//! The distance to a server, seen in round trips, and how many calls may go to it at once.

/// Round-trip time of one call that goes at once, in microseconds: a server on the same machine replies sooner than two of
/// them take.
const MICROS_PER_CALL: u64 = 100;

/// Maximum number of calls that go at once.
const MAX_AT_ONCE: u64 = 16;

/// By how much a new call counts in the mean: one eighth.
const CALLS_IN_MEAN: u64 = 8;

/// A call counts at most as that many times the shortest, so that a single late reply changes little.
const MAX_INFLATION: u64 = 2;

/// A mean that exceeds the shortest by so much, in percent or in microseconds, is that of the network and of waking up idle
/// cores, not of a queue at the server.
const TOLERANCE_PERCENT: u64 = 15;
const TOLERANCE_MICROS: u64 = 150;

/// The power of the inflation by which the number of calls falls.
const POWER: u32 = 8;

/// Distance to the server of one connection, in microseconds.
///
/// The shortest round trip is one that two calls in a row have not exceeded, so that a single wrong time is not taken for it. It
/// is never forgotten, since the queue of a server that is saturated for long would be taken for the network.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    /// Of the last call; 0 before the first.
    last: u64,
    shortest: u64,
    /// Mean of the last calls, times [`CALLS_IN_MEAN`].
    mean: u64,
}

impl Distance {
    /// Adds the time of a call that got its reply. A time of 0 is no measurement, but a clock that was set back.
    pub(super) fn add(&mut self, micros: u64) {
        // Far more than any deadline, and products of it fit.
        let time = micros.min(1 << 40);
        if time == 0 {
            return;
        }
        let last = std::mem::replace(&mut self.last, time);
        if last == 0 {
            // The first call is left out: it may find a server that is loading, or that does not know the script.
            return;
        }
        if self.shortest == 0 {
            (self.shortest, self.mean) = (time, CALLS_IN_MEAN * time);
        }
        self.shortest = self.shortest.min(time.max(last));
        let most = MAX_INFLATION * self.shortest;
        let mean = self.mean - self.mean / CALLS_IN_MEAN + time.min(most);
        self.mean = mean.min(CALLS_IN_MEAN * most);
    }

    /// The number of calls that may be in flight at once: at least 1.
    pub(super) fn calls_at_once(&self) -> usize {
        let most = (self.shortest / MICROS_PER_CALL).min(MAX_AT_ONCE);
        let tolerance = TOLERANCE_MICROS.max(self.shortest * TOLERANCE_PERCENT / 100);
        let tolerated = CALLS_IN_MEAN * (self.shortest + tolerance);
        // In percent of what is tolerated: 100 to 200, so that the powers fit.
        let inflation = (100 * self.mean / tolerated).clamp(100, 200);
        let calls = most * 100_u64.pow(POWER) / inflation.pow(POWER);
        usize::try_from(calls).unwrap_or(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance after these round trips, in microseconds.
    fn after(times: impl IntoIterator<Item = u64>) -> Distance {
        let mut distance = Distance::default();
        times.into_iter().for_each(|time| distance.add(time));
        distance
    }

    /// The number of calls that go at once after 100 more of this time.
    fn settled(mut distance: Distance, time: u64) -> usize {
        (0..100).for_each(|_| distance.add(time));
        distance.calls_at_once()
    }

    #[test]
    fn one_call_goes_at_once_for_each_100_us_of_the_round_trip() {
        assert_eq!(Distance::default().calls_at_once(), 1, "before the first reply");
        for (time, calls) in
            [(1, 1), (60, 1), (199, 1), (200, 2), (250, 2), (500, 5), (1_650, 16), (2_000, 16), (90_000, 16)]
        {
            assert_eq!(after([time]).calls_at_once(), 1, "the first call is left out");
            assert_eq!(after([time; 2]).calls_at_once(), calls, "{time} µs");
            assert_eq!(settled(after([time]), time), calls, "{time} µs");
        }
    }

    #[test]
    fn fewer_calls_go_at_once_the_busier_the_server_is() {
        for (time, calls) in [(650, 5), (690, 3), (860, 1), (5_000, 1)] {
            assert_eq!(settled(after([500; 2]), time), calls, "{time} µs instead of 500");
        }
        for (time, calls) in [(2_280, 16), (2_400, 11), (2_800, 3), (3_600, 1), (20_000, 1)] {
            assert_eq!(settled(after([2_000; 2]), time), calls, "{time} µs instead of 2000");
        }
    }

    #[test]
    fn a_saturated_server_is_noticed_within_eight_calls_and_forgotten_within_twenty() {
        let mut busy = after([500; 20].into_iter().chain([5_000; 8]));
        assert_eq!(busy.calls_at_once(), 1);
        (0..20).for_each(|_| busy.add(500));
        assert_eq!(busy.calls_at_once(), 5);
    }

    #[test]
    fn a_server_that_stays_saturated_is_not_taken_for_a_distant_one() {
        let hour = after([500; 2].into_iter().chain(std::iter::repeat_n(5_000, 1_000_000)));
        assert_eq!(hour.calls_at_once(), 1);
    }

    #[test]
    fn the_spread_of_a_network_takes_one_call_at_most() {
        let spread = [500, 540, 620, 510, 560, 700, 530, 500].repeat(100);
        assert!(after(spread).calls_at_once() >= 4);
    }

    #[test]
    fn a_first_call_to_a_server_that_was_loading_is_made_up_for_by_the_next() {
        assert_eq!(after([90_000, 60]).calls_at_once(), 1);
        assert_eq!(after([90_000, 500]).calls_at_once(), 5);
        // Also several of them.
        assert_eq!(after([90_000, 90_000, 90_000].into_iter().chain([500; 20])).calls_at_once(), 5);
    }

    #[test]
    fn a_clock_that_jumps_changes_little() {
        let hour = 3_600_000_000;
        let ahead = after([500; 20].into_iter().chain([hour]));
        assert!(ahead.calls_at_once() >= 4, "{ahead:?}");
        assert_eq!(settled(ahead, 500), 5);
        for first in [0, hour, u64::MAX] {
            let mut distance = after([first]);
            assert!((1..=16).contains(&distance.calls_at_once()));
            (0..20).for_each(|_| distance.add(500));
            assert_eq!(distance.calls_at_once(), 5, "first {first} µs");
        }
    }

    #[test]
    fn a_queue_that_was_there_from_the_start_is_noticed_by_two_calls_without_it() {
        let queue = after([1_500; 100].into_iter().chain([500, 500]).chain([1_500; 100]));
        assert_eq!(queue.calls_at_once(), 1);
    }

    #[test]
    fn a_round_trip_of_zero_is_no_measurement() {
        assert_eq!(after([0; 100]).calls_at_once(), 1);
        assert_eq!(after([500, 0, 0, 0, 0, 500]).calls_at_once(), 5);
    }

    #[test]
    fn one_time_that_is_too_short_does_not_stay_the_shortest() {
        assert_eq!(settled(after([500, 500, 1, 500, 500]), 500), 5);
    }
}
