//! Vectors worked out by hand, for what random loads do not show.

use std::time::Duration;

use crate::algorithm::{Operation, State};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::policy::{Algorithm, Policy};
use crate::store::redis::lease::count::{Answer, Effects, GiveBack, LeaseRequest, LeasedCount, Terms};
use crate::store::redis::lease::nodes::NodeConnection;
use crate::store::redis::lease::size::Demand;

const MS: u64 = 1_000;
const INTERVAL: u64 = 100 * MS;
const CONNECTION: NodeConnection = NodeConnection { node: 0, generation: 1 };

/// The server's time when the local clock is at 0: the first instant of a second.
const SERVER: u64 = 1_790_000_000_000_000;

/// A server with one count, and one process.
struct Pair {
    policy: Policy,
    server: State,
    count: LeasedCount,
    demand: Demand,
    effects: Effects,
    connection: NodeConnection,
}

impl Pair {
    fn new(policy: Policy) -> Self {
        let terms = Terms { check: Check::new(&policy, ""), interval: INTERVAL, connection: CONNECTION };
        Self {
            server: State::new(&policy),
            count: LeasedCount::new(terms),
            demand: Demand::default(),
            effects: Effects::default(),
            connection: CONNECTION,
            policy,
        }
    }

    /// Charges the server directly.
    fn charge(&mut self, units: u64, now: u64) -> bool {
        let at = Timestamp::from_micros(SERVER + now);
        self.server.decide(&self.policy, units, at, Operation::Check).is_allowed()
    }

    fn learn(&mut self, sent_at: u64, decided: u64, now: u64, lease: Option<(LeaseRequest, bool)>) {
        let answer = Answer {
            state: self.server.clone(),
            at: SERVER + decided,
            sent_at,
            now,
            connection: self.connection,
            is_present: true,
            is_overdrawn: false,
            lease,
        };
        self.count.learn(answer, &mut self.effects);
    }

    fn learn_state(&mut self, now: u64) {
        self.learn(now, now, now, None);
    }

    /// A request for a lease of any size, which the server decides at `decided`.
    fn lease_between(&mut self, units: u64, sent_at: u64, decided: u64, answered_at: u64) {
        let request = self.request(units, sent_at);
        let granted = self.charge(units, decided);
        self.answer(request, granted, sent_at, decided, answered_at);
    }

    fn request(&mut self, units: u64, now: u64) -> LeaseRequest {
        self.learn_state(now);
        self.count.request_of(units)
    }

    fn answer(&mut self, request: LeaseRequest, granted: bool, sent_at: u64, decided: u64, now: u64) {
        self.learn(sent_at, decided, now, Some((request, granted)));
    }

    /// A lease whose call, decision and answer are at one instant.
    fn lease(&mut self, units: u64, now: u64) {
        self.lease_between(units, now, now, now);
    }

    fn take(&mut self, cost: u64, now: u64) -> bool {
        let terms =
            Terms { check: Check::new(&self.policy, ""), interval: INTERVAL, connection: self.connection };
        let is_covered = self.count.covers(terms, cost, now, &mut self.effects);
        if is_covered {
            self.count.take(cost, now);
        }
        is_covered
    }

    /// Gives units back before the server decides a request of `cost` units.
    fn make_way(&mut self, cost: u64, requested: u64, now: u64) {
        let terms =
            Terms { check: Check::new(&self.policy, ""), interval: INTERVAL, connection: self.connection };
        self.count.make_way(terms, cost, requested, now, &mut self.effects);
    }

    /// The units that may be used one by one at `now`.
    fn take_all(&mut self, now: u64) -> u64 {
        let mut taken = 0;
        while self.take(1, now) {
            taken += 1;
        }
        taken
    }

    fn usable(&self, now: u64) -> u64 {
        self.count.usable(self.connection, now)
    }

    fn give_backs(&mut self) -> Vec<GiveBack> {
        self.effects.give_backs.drain(..).collect()
    }
}

fn second(algorithm: Algorithm, max: u64) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).window(Duration::from_secs(1)).build()
}

/// The margin of the upper bound after `age` microseconds.
const fn margin(age: u64) -> u64 {
    MS + age / 1_000
}

/// The last local instant at which the upper bound is no later than `server`, for an answer at 0.
fn when_bound_is(server: u64) -> u64 {
    (0..server).rev().find(|&now| now + margin(now) <= server).expect("later than the margin")
}

#[test]
fn the_bound_counts_from_the_instant_before_the_call_was_written() {
    // Written at 0, decided at 5 ms, answered at 6 ms. The units end at 100 ms by the server's clock.
    let tenths = Policy::builder("k").max(1_000).window(Duration::from_secs(1)).sub_windows(10).build();
    let mut pair = Pair::new(tenths);
    pair.lease_between(10, 0, 5 * MS, 6 * MS);
    // The answer was decided at 5 ms, so at 93 ms the bound is 98 ms, plus margins of 1 ms and 93 us.
    assert_eq!(pair.usable(93 * MS), 10);
    assert_eq!(pair.usable(94 * MS), 0);
}

#[test]
fn units_of_a_window_may_be_used_until_the_end_of_their_window_or_sub_window() {
    for (sub_windows, end) in [(1, 1_000 * MS), (10, 100 * MS)] {
        let builder = Policy::builder("k").max(1_000).window(Duration::from_secs(1)).sub_windows(sub_windows);
        for (now, expected) in [(when_bound_is(end - 1), 50), (when_bound_is(end - 1) + 1, 0)] {
            let mut pair = Pair::new(builder.build());
            pair.lease(50, 0);
            assert_eq!(pair.take_all(now), expected, "{sub_windows} at {now}");
        }
    }
}

/// After 899 ms of a clock that runs a thousandth slow, the server is at 899.9 ms.
#[test]
fn a_clock_that_runs_slow_uses_no_unit_after_the_end_of_its_window() {
    let tenth = Policy::builder("k").max(1_000).window(Duration::from_millis(900)).build();
    let mut pair = Pair::new(tenth);
    let start = 900 * MS - SERVER % (900 * MS);
    pair.lease(50, start);
    let last = (0..1_000 * MS).rev().find(|&local| pair.usable(start + local) > 0).unwrap();
    assert!(last + last / 1_000 < 900 * MS, "the server is at {}", last + last / 1_000);
    assert!(last > 895 * MS, "few units are lost");
}

#[test]
fn a_request_is_admitted_by_unused_units_as_a_whole_or_not_at_all() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let mut pair = Pair::new(second(algorithm, 1_000));
        pair.lease(50, 0);
        assert!(pair.take(47, MS));
        assert!(!pair.take(4, MS), "three are unused");
        assert_eq!(pair.usable(MS), 3, "none of them is used for a part");
        assert!(pair.take(3, MS));
        assert!(!pair.take(1, MS));
    }
}

#[test]
fn a_request_takes_the_units_that_end_first() {
    let tenths = Policy::builder("k").max(1_000).window(Duration::from_secs(1)).sub_windows(10).build();
    let mut pair = Pair::new(tenths);
    pair.lease(10, 95 * MS);
    // Decided in the next sub-window. By the local clock, the first lease may still be used.
    pair.lease_between(10, 95 * MS, 100 * MS, 96 * MS);
    assert!(pair.take(12, 96 * MS));
    assert_eq!(pair.usable(96 * MS), 8);
    assert_eq!(pair.usable(110 * MS), 8, "the units of the first lease are used up");
}

/// Of 1000 units, 16 are left on the server, and 30 in this process. A request of 40 passes on the server
/// after the 30 are given back.
#[test]
fn unused_units_in_the_way_of_a_request_are_given_back_before_it() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    pair.lease(30, 0);
    assert!(pair.charge(954, 0));
    pair.learn_state(0);
    assert!(!pair.take(40, MS));
    pair.make_way(40, 0, MS);
    let back = pair.give_backs();
    assert_eq!((pair.usable(MS), back.len(), back[0].units, back[0].at), (0, 1, 30, SERVER));
    assert!(!pair.charge(40, MS));
    let [now, at, until] = [SERVER + MS, back[0].at, back[0].until].map(Timestamp::from_micros);
    assert!(pair.server.refund(&pair.policy, now, at, until, back[0].units));
    assert!(pair.charge(40, MS));
}

#[test]
fn unused_units_stay_while_the_server_surely_has_enough() {
    // 950 units are left. `requested` may have been requested since that answer.
    for (cost, requested, stays) in [(60, 0, true), (60, 890, true), (60, 891, false), (951, 0, false)] {
        let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
        pair.lease(50, 0);
        pair.make_way(cost, requested, MS);
        let expected = if stays { (50, 0) } else { (0, 1) };
        assert_eq!((pair.usable(MS), pair.give_backs().len()), expected, "{cost} {requested}");
    }
    let mut pair = Pair::new(second(Algorithm::SlidingWindowCounter, 1_000));
    pair.lease(50, 990 * MS);
    pair.make_way(1, 0, 991 * MS);
    assert_eq!(pair.usable(991 * MS), 50);
    // The next answer shows that 50 units are left.
    assert!(pair.charge(900, 995 * MS));
    pair.learn_state(995 * MS);
    pair.make_way(100, 0, 996 * MS);
    assert_eq!((pair.usable(996 * MS), pair.give_backs().len()), (0, 1));
}

#[test]
fn unused_units_of_a_fixed_window_that_is_over_are_not_given_back() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    pair.lease(50, 990 * MS);
    assert!(!pair.take(1, 1_000 * MS));
    assert_eq!(pair.give_backs(), []);
    assert_eq!(pair.effects.tally, [0, 0, 50]);
}

#[test]
fn units_that_are_not_used_for_an_interval_are_given_back_and_no_longer_usable() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    pair.lease(50, 0);
    assert!(pair.take(10, 20 * MS));
    assert!(!pair.count.sweep(CONNECTION, 119 * MS, &mut pair.effects));
    assert_eq!((pair.usable(119 * MS), pair.give_backs().len()), (40, 0));
    pair.count.sweep(CONNECTION, 120 * MS, &mut pair.effects);
    let back = pair.give_backs();
    assert_eq!((pair.usable(120 * MS), back.len(), back[0].units, back[0].at), (0, 1, 40, SERVER));
    pair.count.sweep(CONNECTION, 121 * MS, &mut pair.effects);
    assert_eq!(pair.give_backs(), [], "never twice");
}

#[test]
fn a_lease_lives_a_second_at_most() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let day = Duration::from_secs(86_400);
        let policy = Policy::builder("k").algorithm(algorithm).max(86_400).window(day).build();
        let mut pair = Pair::new(policy);
        pair.lease(500, 0);
        assert!(pair.take(1, 1_000 * MS));
        assert!(!pair.take(1, 1_000 * MS + 1));
        assert_eq!(pair.give_backs().len(), 1);
    }
}

#[test]
fn a_lease_of_another_connection_is_void_and_nothing_is_given_back() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    pair.lease(50, 0);
    pair.connection.generation += 1;
    assert!(!pair.take(1, MS));
    assert_eq!((pair.usable(MS), pair.give_backs()), (0, vec![]));
}

#[test]
fn an_answer_on_an_earlier_connection_grants_nothing() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    let request = pair.request(50, 0);
    assert!(pair.charge(50, 0));
    pair.connection.generation += 1;
    pair.answer(request, true, 0, 0, MS);
    assert_eq!((pair.usable(MS), pair.give_backs()), (0, vec![]));
}

#[test]
fn a_lease_under_another_max_is_given_back() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let mut pair = Pair::new(second(algorithm, 1_000));
        pair.lease(50, 0);
        assert!(pair.take(5, 0));
        let request = pair.request(40, 0);
        pair.policy = second(algorithm, 500);
        assert!(!pair.take(1, MS));
        assert_eq!(pair.give_backs()[0].units, 45);
        // A lease that was requested under the old `max` is given back as well.
        assert!(pair.charge(40, MS));
        pair.answer(request, true, 0, MS, MS);
        assert_eq!((pair.usable(MS), pair.give_backs()[0].units), (0, 40));
    }
}

#[test]
fn a_reset_drops_leases_and_those_in_flight() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    pair.lease(50, 0);
    let request = pair.request(30, 0);
    pair.count.begin_reset(&mut pair.effects);
    assert!(!pair.take(1, MS));
    pair.count.sweep(CONNECTION, INTERVAL + 1, &mut pair.effects);
    assert_eq!(pair.give_backs(), []);
    assert!(pair.charge(30, MS));
    pair.answer(request, true, 0, MS, MS);
    assert_eq!((pair.usable(MS), pair.give_backs()), (0, vec![]));
    pair.count.end_reset(&mut pair.effects);
    assert_eq!(pair.take_all(2 * MS), 0);
    pair.lease(20, 3 * MS);
    assert_eq!(pair.take_all(3 * MS), 20);
}

#[test]
fn a_refund_goes_into_a_lease_of_the_same_sub_window_or_to_the_server() {
    let ten = Policy::builder("k").max(1_000).window(Duration::from_secs(1)).sub_windows(10).build();
    let mut pair = Pair::new(ten);
    let put_back = |pair: &mut Pair, at: u64, now: u64| {
        let terms = Terms { check: Check::new(&pair.policy, ""), interval: INTERVAL, connection: CONNECTION };
        pair.count.put_back(terms, 3, SERVER + at, now, &mut pair.effects)
    };
    assert!(!put_back(&mut pair, 250 * MS, 251 * MS), "there is no lease");
    pair.lease(20, 250 * MS);
    assert!(pair.take(10, 251 * MS));
    assert!(put_back(&mut pair, 200 * MS, 252 * MS));
    assert!(put_back(&mut pair, 299 * MS, 252 * MS));
    assert_eq!(pair.usable(252 * MS), 16);
    assert!(!put_back(&mut pair, 300 * MS, 253 * MS));
    assert!(!put_back(&mut pair, 199 * MS, 253 * MS), "charged in the sub-window before");
    assert!(!put_back(&mut pair, 251 * MS, 301 * MS), "the sub-window is over");
}

#[test]
fn a_lease_is_half_of_the_demand_and_a_small_part_of_the_units_left() {
    let size = |requested: u64, cost: u64, used: u64, instances: u64| {
        let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
        assert!(pair.charge(used, 0));
        pair.learn_state(0);
        for _ in 0..requested {
            pair.demand.record(cost, 0, INTERVAL);
        }
        let demand = pair.demand;
        let terms = Terms { check: Check::new(&pair.policy, ""), interval: INTERVAL, connection: CONNECTION };
        let request = pair.count.lease_request(terms, &demand, instances, 0, &mut pair.effects);
        request.map_or(0, |request| request.units)
    };
    assert_eq!(size(100, 1, 0, 1), 50);
    assert_eq!(size(100, 1, 0, 10), 25, "a fortieth of a thousand");
    assert_eq!(size(100, 1, 900, 1), 25, "a quarter of a hundred");
    assert_eq!(size(100, 1, 984, 1), 4);
    assert_eq!(size(100, 1, 985, 1), 0, "less than sixteen are left");
    assert_eq!(size(7, 1, 0, 1), 0, "half of it is less than four");
    assert_eq!(size(8, 1, 0, 1), 4);
    assert_eq!(size(8, 5, 0, 1), 20);
    assert_eq!(size(8, 5, 920, 1), 20);
    assert_eq!(size(3, 5, 0, 1), 0, "half of it is less than two of the largest requests");
    assert_eq!(size(8, 5, 960, 1), 10);
    assert_eq!(size(8, 5, 961, 1), 0, "a quarter of what is left is less than that");
}

#[test]
fn nothing_is_leased_before_an_answer_or_while_half_of_a_lease_is_left() {
    let mut pair = Pair::new(second(Algorithm::FixedWindow, 1_000));
    (0..100).for_each(|_| pair.demand.record(1, 0, INTERVAL));
    let demand = pair.demand;
    let next_lease = |pair: &mut Pair, now: u64| {
        let terms = Terms { check: Check::new(&pair.policy, ""), interval: INTERVAL, connection: CONNECTION };
        pair.count.lease_request(terms, &demand, 1, now, &mut pair.effects)
    };
    assert!(next_lease(&mut pair, 0).is_none(), "there was no answer");
    pair.learn_state(0);
    let request = next_lease(&mut pair, 0).unwrap();
    assert_eq!(request.units, 50);
    assert!(next_lease(&mut pair, 0).is_none(), "a request for a lease is in flight");
    assert!(pair.charge(50, 0));
    pair.answer(request, true, 0, 0, 0);
    assert!(pair.take(24, MS));
    assert!(next_lease(&mut pair, MS).is_none(), "more than half is left");
    assert!(pair.take(1, MS));
    let request = next_lease(&mut pair, MS).unwrap();
    pair.count.abandon(request);
    let request = next_lease(&mut pair, MS).unwrap();
    assert!(pair.charge(50, MS));
    pair.answer(request, true, MS, MS, MS);
    assert!(pair.take(50, 2 * MS));
    assert_eq!(pair.usable(2 * MS), 25);
    let request = next_lease(&mut pair, 2 * MS).expect("the first is used up, and half of the second");
    pair.count.abandon(request);
    assert!(pair.take(5, 2 * MS));
    // A refund goes into the first.
    let terms = Terms { check: Check::new(&pair.policy, ""), interval: INTERVAL, connection: CONNECTION };
    assert!(pair.count.put_back(terms, 3, SERVER + MS, 2 * MS, &mut pair.effects));
    assert_eq!(pair.usable(2 * MS), 23);
    assert!(next_lease(&mut pair, 2 * MS).is_none(), "two leases have unused units");
}

#[test]
fn with_the_last_unit_the_wait_is_that_for_one_more_and_not_for_all() {
    let tenths = Policy::builder("k").max(100).window(Duration::from_secs(1)).sub_windows(10).build();
    let mut pair = Pair::new(tenths);
    assert!(pair.charge(50, 0));
    pair.lease(50, 0);
    pair.learn_state(0);
    let terms = Terms { check: Check::new(&pair.policy, ""), interval: INTERVAL, connection: CONNECTION };
    assert!(pair.count.covers(terms, 50, 0, &mut pair.effects));
    let before_last = pair.count.take(49, 0);
    assert_eq!((before_last.remaining, before_last.next_unit_after), (1, None));
    let last = pair.count.take(1, 0);
    // After a second the sub-window of 100 ms begins to leave the window: each part takes a whole unit along.
    assert_eq!((last.remaining, last.next_unit_after), (0, Some(1_000 * MS + 1)));
    assert_eq!(last.reset_after, 1_099 * MS + 1);
}
