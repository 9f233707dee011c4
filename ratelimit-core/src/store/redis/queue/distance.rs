//! The round trips of one queue's calls: the distance to the server, and how many calls may go to it at once.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::micros;
use crate::store::redis::topology::ConnectionId;

/// Round-trip time of one call that goes at once, in microseconds: a server on the same machine replies sooner than two of
/// them take.
const MICROS_PER_CALL: u64 = 50;

/// Maximum number of calls that go at once.
const MAX_AT_ONCE: u64 = 32;

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

/// Calls of a run, whose longest time may become the shortest round trip. The shortest of single calls would fall for ever on a
/// network whose times vary.
const CALLS_IN_RUN: u64 = 8;

/// The shortest round trip rises by this part in each minute, so that a longer route is noticed on the same connection: one of
/// 1.5 times the length within half an hour, if a run takes less than a minute. It rises no faster, since a server that is saturated for an hour is not farther away.
const RISE_PER_MINUTE: u64 = 64;
const MINUTE: Duration = Duration::from_secs(60);

/// Distance to the server of one connection, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    /// The longest time of the run of [`CALLS_IN_RUN`] calls for which that is shortest; in the first run, that of two calls in a row.
    shortest: u64,
    /// Mean of the last calls, times [`CALLS_IN_MEAN`].
    mean: u64,
    /// Of the last call.
    last: u64,
    /// Calls of the present run, and the longest of them.
    run: (u64, u64),
    is_first_run: bool,
    /// When the shortest time last rose. `None` before the first call.
    risen: Option<Instant>,
}

impl Distance {
    /// Adds the time of a call whose reply came at `now`. A time of 0 is no measurement, but a clock that was set back.
    pub(super) fn add(&mut self, micros: u64, now: Instant) {
        // Far more than any deadline, and products of it fit.
        let time = micros.min(1 << 40);
        if time == 0 {
            return;
        }
        let Some(risen) = self.risen else {
            // The first call is left out: it may find a server that is loading, or that does not know the script.
            (self.risen, self.last, self.is_first_run) = (Some(now), time, true);
            return;
        };
        let last = std::mem::replace(&mut self.last, time);
        if self.shortest == 0 {
            (self.shortest, self.mean) = (time, CALLS_IN_MEAN * time);
        }
        if self.is_first_run {
            self.shortest = self.shortest.min(time.max(last));
        }
        self.run = (self.run.0 + 1, self.run.1.max(time));
        if self.run.0 == CALLS_IN_RUN {
            let (_, longest) = std::mem::take(&mut self.run);
            self.is_first_run = false;
            if now.duration_since(risen) >= MINUTE {
                self.shortest += self.shortest.div_ceil(RISE_PER_MINUTE);
                self.risen = Some(now);
            }
            self.shortest = self.shortest.min(longest);
        }
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

/// Minimum time between two calls while as many are in flight as go at once. A server nearby has replied by then; with a
/// longer round trip, several calls are in flight.
pub(super) const MIN_SEND_INTERVAL: Duration = Duration::from_millis(1);

/// Calls over which one round trip is spread while few requests are queued.
const CALLS_PER_ROUND_TRIP: u32 = 16;

/// The round trips of the calls that got a reply.
#[derive(Default)]
pub(super) struct RoundTripEstimate(Mutex<LastRoundTrip>);

#[derive(Default)]
struct LastRoundTrip {
    last: Duration,
    /// Of the last call; `None` before the first.
    connection: Option<ConnectionId>,
    /// To the server of this connection.
    distance: Distance,
}

impl RoundTripEstimate {
    /// Expected round-trip time: that of the last call, at most half the deadline.
    pub(super) fn expected(&self, deadline: Duration) -> Duration {
        self.0.lock().last.min(deadline / 2)
    }

    /// Time between two calls: spreads the calls of one round trip evenly over it.
    pub(super) fn send_interval(&self) -> Duration {
        MIN_SEND_INTERVAL.max(self.0.lock().last / CALLS_PER_ROUND_TRIP)
    }

    /// The number of calls that may be in flight before requests wait for others.
    pub(super) fn calls_at_once(&self) -> usize {
        self.0.lock().distance.calls_at_once()
    }

    /// Records the time of a call whose reply came at `now`. With another connection than before, the distance is measured anew. A
    /// late call of an earlier connection to the same server says nothing about the distance, nor does one without a connection, which
    /// may have followed redirects.
    pub(super) fn record(&self, connection: Option<ConnectionId>, time: Duration, now: Instant) {
        let mut state = self.0.lock();
        state.last = time;
        let Some(connection) = connection else { return };
        let last = state.connection;
        if last.is_some_and(|last| last.node == connection.node && last.number > connection.number) {
            return;
        }
        if !last.is_some_and(|last| last.is_same(connection)) {
            (state.connection, state.distance) = (Some(connection), Distance::default());
        }
        state.distance.add(micros(time), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::deadline::now;
    use crate::store::redis::topology::NodeId;

    /// A distance, and the time of its last reply. Replies come every millisecond.
    #[derive(Clone, Copy, Debug)]
    struct Measured(Distance, Instant);

    impl Measured {
        fn add(&mut self, time: u64) {
            self.1 += Duration::from_millis(1);
            self.0.add(time, self.1);
        }

        fn calls_at_once(&self) -> usize {
            self.0.calls_at_once()
        }
    }

    /// The distance after these round trips, in microseconds.
    fn after(times: impl IntoIterator<Item = u64>) -> Measured {
        let mut distance = Measured(Distance::default(), now());
        times.into_iter().for_each(|time| distance.add(time));
        distance
    }

    /// The number of calls that go at once after 100 more of this time.
    fn settled(mut distance: Measured, time: u64) -> usize {
        (0..100).for_each(|_| distance.add(time));
        distance.calls_at_once()
    }

    /// Times around `mean` whose standard deviation is this part of it, in percent: sums of twelve equal numbers of one sequence.
    fn random_times(mean: u64, percent: u64) -> impl Iterator<Item = u64> {
        let mut state = 1_u64;
        let mut below_1000 = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) % 1_000
        };
        std::iter::repeat_with(move || {
            // The sum has a mean of 6000, and a standard deviation of 1000.
            let deviations = (0..12).map(|_| below_1000()).sum::<u64>();
            (mean * (100_000 + percent * deviations)).saturating_sub(mean * percent * 6_000) / 100_000 + 1
        })
    }

    #[test]
    fn one_call_goes_at_once_for_each_50_us_of_the_round_trip() {
        assert_eq!(Distance::default().calls_at_once(), 1, "before the first reply");
        for (time, calls) in
            [(1, 1), (60, 1), (99, 1), (100, 2), (250, 5), (500, 10), (1_650, 32), (2_000, 32), (90_000, 32)]
        {
            assert_eq!(after([time]).calls_at_once(), 1, "the first call is left out");
            assert_eq!(after([time; 2]).calls_at_once(), calls, "{time} µs");
            assert_eq!(settled(after([time]), time), calls, "{time} µs");
        }
    }

    #[test]
    fn fewer_calls_go_at_once_the_busier_the_server_is() {
        for (time, calls) in [(650, 10), (690, 6), (860, 1), (5_000, 1)] {
            assert_eq!(settled(after([500; 2]), time), calls, "{time} µs instead of 500");
        }
        for (time, calls) in [(2_280, 32), (2_400, 23), (2_800, 6), (3_600, 1), (20_000, 1)] {
            assert_eq!(settled(after([2_000; 2]), time), calls, "{time} µs instead of 2000");
        }
    }

    #[test]
    fn a_saturated_server_is_noticed_within_eight_calls_and_forgotten_within_twenty() {
        let mut busy = after([500; 20].into_iter().chain([5_000; 8]));
        assert_eq!(busy.calls_at_once(), 1);
        (0..20).for_each(|_| busy.add(500));
        assert_eq!(busy.calls_at_once(), 10);
    }

    #[test]
    fn a_server_that_stays_saturated_is_not_taken_for_a_distant_one() {
        let hour = after([500; 20].into_iter().chain(std::iter::repeat_n(5_000, 3_600_000)));
        assert_eq!(hour.calls_at_once(), 1);
    }

    #[test]
    fn a_longer_route_on_the_same_connection_is_noticed_within_half_an_hour() {
        let mut distance = after([2_000; 20]);
        assert!(settled(distance, 3_000) < 8);
        (0..30 * 60 * 1_000).for_each(|_| distance.add(3_000));
        assert_eq!(distance.calls_at_once(), 32);
    }

    #[test]
    fn a_million_calls_on_a_network_whose_times_vary_keep_the_number() {
        for (mean, percent, fewest) in [(500, 15, 8), (2_000, 15, 28), (20_000, 15, 28), (2_000, 5, 32)] {
            let mut distance = after([mean; 2]);
            let (mut all, calls) = (0, 1_000_000);
            for time in random_times(mean, percent).take(calls) {
                distance.add(time);
                all += distance.calls_at_once();
            }
            assert!(all / calls >= fewest, "{mean} µs: {} of {fewest}, {distance:?}", all / calls);
        }
    }

    #[test]
    fn the_spread_of_a_network_takes_a_fifth_of_the_calls_at_most() {
        let spread = [500, 540, 620, 510, 560, 700, 530, 500].repeat(100);
        assert!(after(spread).calls_at_once() >= 8);
    }

    #[test]
    fn a_first_call_to_a_server_that_was_loading_is_made_up_for_by_the_next() {
        assert_eq!(after([90_000, 60]).calls_at_once(), 1);
        assert_eq!(after([90_000, 500]).calls_at_once(), 10);
        // Also several of them.
        assert_eq!(after([90_000, 90_000, 90_000].into_iter().chain([500; 20])).calls_at_once(), 10);
    }

    #[test]
    fn a_clock_that_jumps_changes_little() {
        let hour = 3_600_000_000;
        let ahead = after([500; 20].into_iter().chain([hour]));
        assert!(ahead.calls_at_once() >= 8, "{ahead:?}");
        assert_eq!(settled(ahead, 500), 10);
        for first in [0, hour, u64::MAX] {
            let mut distance = after([first]);
            assert!((1..=32).contains(&distance.calls_at_once()));
            (0..20).for_each(|_| distance.add(500));
            assert_eq!(distance.calls_at_once(), 10, "first {first} µs");
        }
    }

    #[test]
    fn a_queue_that_was_there_from_the_start_is_noticed_by_a_run_without_it() {
        let queue = after([1_500; 97].into_iter().chain([500; 8]).chain([1_500; 100]));
        assert_eq!(queue.calls_at_once(), 1);
    }

    #[test]
    fn a_round_trip_of_zero_is_no_measurement() {
        assert_eq!(after([0; 100]).calls_at_once(), 1);
        assert_eq!(after([500, 0, 0, 0, 0, 500]).calls_at_once(), 10);
    }

    #[test]
    fn one_time_that_is_too_short_does_not_stay_the_shortest() {
        assert_eq!(settled(after([500, 500, 1, 500, 500]), 500), 10);
    }

    const fn to(node: u16, number: u64) -> ConnectionId {
        ConnectionId { node: NodeId::of(node), number, generation: 1 }
    }

    const NEAR: Duration = Duration::from_micros(500);

    impl RoundTripEstimate {
        fn record_times(&self, times: usize, connection: ConnectionId, time: Duration) {
            (0..times).for_each(|_| self.record(Some(connection), time, now()));
        }
    }

    #[test]
    fn the_distance_is_forgotten_with_the_connection() {
        for (case, next) in [("a server took over", to(0, 2)), ("another node took over", to(1, 1))] {
            let estimate = RoundTripEstimate::default();
            estimate.record_times(2, to(0, 1), NEAR);
            assert_eq!(estimate.calls_at_once(), 10);
            // Ten times farther away: without another connection this is a busy server.
            estimate.record_times(100, to(0, 1), 10 * NEAR);
            assert_eq!(estimate.calls_at_once(), 1);
            estimate.record_times(2, next, 10 * NEAR);
            assert_eq!(estimate.calls_at_once(), 32, "{case}");
            estimate.record_times(2, to(2, 0), NEAR);
            assert_eq!(estimate.calls_at_once(), 10, "{case}, and back");
        }
    }

    #[test]
    fn a_late_call_of_an_earlier_connection_leaves_the_distance() {
        let estimate = RoundTripEstimate::default();
        estimate.record_times(2, to(0, 2), NEAR);
        estimate.record_times(1, to(0, 1), 10 * NEAR);
        assert_eq!(estimate.calls_at_once(), 10);
        assert_eq!(estimate.expected(Duration::from_secs(1)), 10 * NEAR, "the last call all the same");
    }

    #[test]
    fn calls_that_may_have_followed_redirects_leave_the_distance() {
        let estimate = RoundTripEstimate::default();
        estimate.record_times(2, to(0, 1), NEAR);
        (0..100).for_each(|_| estimate.record(None, 10 * NEAR, now()));
        assert_eq!(estimate.calls_at_once(), 10);
        assert_eq!(estimate.expected(Duration::from_secs(1)), 10 * NEAR, "the last call all the same");
    }

    #[test]
    fn a_round_trip_is_expected_to_take_as_long_as_the_last() {
        let estimate = RoundTripEstimate::default();
        assert_eq!(estimate.expected(Duration::from_secs(1)), Duration::ZERO);
        estimate.record_times(1, to(0, 1), NEAR);
        assert_eq!(estimate.expected(Duration::from_secs(1)), NEAR);
        assert_eq!(estimate.expected(NEAR), NEAR / 2, "at most half the deadline");
        assert_eq!(estimate.send_interval(), MIN_SEND_INTERVAL);
        estimate.record_times(1, to(0, 1), 64 * MIN_SEND_INTERVAL);
        assert_eq!(estimate.send_interval(), 4 * MIN_SEND_INTERVAL);
    }
}
