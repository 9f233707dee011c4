//! The round trips of one queue's calls, and what follows from them for the next calls.

use std::time::Duration;

use parking_lot::Mutex;

use super::distance::Distance;
use crate::clock::micros;
use crate::store::redis::lanes::ConnectionId;

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
    /// The connection of the last call. `None` for a master without a lane.
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

    /// Records the time of a call. With another connection than before, the distance is measured anew. A late call of an earlier
    /// connection to the same server says nothing about the distance.
    pub(super) fn record(&self, connection: Option<ConnectionId>, time: Duration) {
        let mut state = self.0.lock();
        state.last = time;
        let is_earlier =
            |id: ConnectionId, now: ConnectionId| id.lane == now.lane && id.generation < now.generation;
        if connection.zip(state.connection).is_some_and(|(id, now)| is_earlier(id, now)) {
            return;
        }
        if state.connection != connection {
            (state.connection, state.distance) = (connection, Distance::default());
        }
        state.distance.add(micros(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn connection(lane: u16, generation: u64) -> ConnectionId {
        ConnectionId { lane, generation }
    }

    const NEAR: Duration = Duration::from_micros(500);

    #[test]
    fn the_distance_is_forgotten_with_the_connection() {
        for (case, next) in [
            ("a server took over", Some(connection(0, 2))),
            ("another node took over", Some(connection(1, 1))),
            ("a master without a lane", None),
        ] {
            let estimate = RoundTripEstimate::default();
            let twice = |connection, time| (0..2).for_each(|_| estimate.record(connection, time));
            twice(Some(connection(0, 1)), NEAR);
            assert_eq!(estimate.calls_at_once(), 5);
            // Ten times farther away: without another connection this is a busy server.
            (0..100).for_each(|_| estimate.record(Some(connection(0, 1)), 10 * NEAR));
            assert_eq!(estimate.calls_at_once(), 1);
            twice(next, 10 * NEAR);
            assert_eq!(estimate.calls_at_once(), 16, "{case}");
            twice(Some(connection(2, 0)), NEAR);
            assert_eq!(estimate.calls_at_once(), 5, "{case}, and back");
        }
    }

    #[test]
    fn a_late_call_of_an_earlier_connection_leaves_the_distance() {
        let estimate = RoundTripEstimate::default();
        (0..2).for_each(|_| estimate.record(Some(connection(0, 2)), NEAR));
        estimate.record(Some(connection(0, 1)), 10 * NEAR);
        assert_eq!(estimate.calls_at_once(), 5);
        assert_eq!(estimate.expected(Duration::from_secs(1)), 10 * NEAR, "the last call all the same");
    }

    #[test]
    fn a_round_trip_is_expected_to_take_as_long_as_the_last() {
        let estimate = RoundTripEstimate::default();
        assert_eq!(estimate.expected(Duration::from_secs(1)), Duration::ZERO);
        estimate.record(Some(connection(0, 1)), NEAR);
        assert_eq!(estimate.expected(Duration::from_secs(1)), NEAR);
        assert_eq!(estimate.expected(NEAR), NEAR / 2, "at most half the deadline");
        assert_eq!(estimate.send_interval(), MIN_SEND_INTERVAL);
        estimate.record(Some(connection(0, 1)), 64 * MIN_SEND_INTERVAL);
        assert_eq!(estimate.send_interval(), 4 * MIN_SEND_INTERVAL);
    }
}
