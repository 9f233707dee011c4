//! Buckets in an outage under `instances`: a request that costs more than the part of one process.

use std::time::Duration;

use super::*;
use crate::clock::FakeClock;
use crate::policy::Algorithm;
use crate::reservation::Charge;

/// One of ten processes, without its store, and its clock.
fn one_of_ten() -> (Fallback, FakeClock) {
    let clock = FakeClock::default();
    let fallback = Fallback::new(NonZeroU32::new(10).unwrap(), 100);
    let local = MemoryStore::new().with_clock(clock.clone());
    (Fallback { local, ..fallback }, clock)
}

/// 100 units in two seconds, so that a process has ten, and one is refilled in 200 ms.
fn bucket() -> Policy {
    Policy::builder("b").algorithm(Algorithm::TokenBucket).max(100).window(Duration::from_secs(2)).build()
}

/// The time in which the part of a process refills so many units.
fn refill(units: u64) -> Duration {
    Duration::from_micros(units * REFILL_US)
}

const REFILL_US: u64 = 200_000;

fn decide(fallback: &Fallback, group: &[Check<'_>], operation: Operation) -> GroupOutcome {
    let error = StoreError::timeout(Duration::ZERO);
    fallback.decide(group, operation, error, true, &Observer::new(0.1)).unwrap()
}

fn passes(fallback: &Fallback, policy: &Policy, cost: u64) -> bool {
    decide(fallback, &[Check::new(policy, "a").with_cost(cost)], Operation::Check).is_allowed()
}

/// Units of requests of 50 that pass in 20 s, with a request of one unit behind each if `cheap`. The part
/// refills 100 in them.
fn passed_in_20_seconds(cheap: bool) -> u64 {
    let ((fallback, clock), policy) = (one_of_ten(), bucket());
    let mut passed = 0;
    for _ in 0..2_000 {
        if passes(&fallback, &policy, 50) {
            passed += 50;
            if cheap && passes(&fallback, &policy, 1) {
                passed += 1;
            }
        }
        clock.advance(Duration::from_millis(10));
    }
    passed
}

#[test]
fn dear_requests_pass_at_the_rate_of_the_part() {
    assert_eq!(passed_in_20_seconds(false), 100);
}

#[test]
fn a_cheap_request_forgives_nothing_of_a_dear_one() {
    assert_eq!(passed_in_20_seconds(true), 100);
}

#[test]
fn what_a_dear_request_takes_beyond_the_part_is_a_debt_with_exact_waits() {
    let ((fallback, clock), policy) = (one_of_ten(), bucket());
    let group = [Check::new(&policy, "a").with_cost(20), Check::new(&policy, "a").with_cost(30)];
    let passed = decide(&fallback, &group, Operation::Check);
    for (outcome, cost) in passed.outcomes().iter().zip([20, 30]) {
        assert_eq!((outcome.limit(), outcome.cost(), outcome.remaining()), (100, cost, 0));
        assert_eq!(outcome.reset_after(), refill(50));
        assert_eq!(outcome.next_unit_after(), Some(refill(41)));
    }
    let one = [Check::new(&policy, "a")];
    assert_eq!(decide(&fallback, &one, Operation::Peek).retry_after(), Some(refill(41)));
    assert_eq!(decide(&fallback, &group, Operation::Peek).retry_after(), Some(refill(50)));
    clock.advance(Duration::from_micros(41 * REFILL_US - 1));
    assert!(!passes(&fallback, &policy, 1));
    clock.advance(Duration::from_micros(1));
    assert!(passes(&fallback, &policy, 1));
    assert!(!passes(&fallback, &policy, 11), "the bucket is not full");
    clock.advance(refill(10));
    assert!(passes(&fallback, &policy, 11));
}

#[test]
fn a_dear_request_that_another_limit_denies_charges_nothing() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let other = Policy::new("other", 10, Duration::from_secs(60));
    let group = [Check::new(&policy, "a").with_cost(50), Check::new(&other, "a")];
    assert!(decide(&fallback, &group, Operation::Check).is_allowed());
    fallback.reset(&group[0]);
    assert!(!decide(&fallback, &group, Operation::Check).is_allowed());
    assert!(decide(&fallback, &group[..1], Operation::Peek).is_allowed());
    assert!(passes(&fallback, &policy, 50));
}

#[test]
fn a_refund_or_a_settlement_forgives_nothing_of_a_dear_request() {
    for refunds in [false, true] {
        let ((fallback, clock), policy) = (one_of_ten(), bucket());
        let dear = [Check::new(&policy, "a").with_cost(50)];
        let passed = decide(&fallback, &dear, Operation::Check).reservation(&dear).unwrap();
        let one = Check::new(&policy, "a");
        let (until, units_left) = if refunds {
            let charge = passed.charges().next().unwrap();
            fallback.refund(&Reservation::single(charge.with_check(one))).unwrap();
            (charge.until(), 49)
        } else {
            fallback.overdraw(&one);
            (passed.charges().next().unwrap().until(), 51)
        };
        assert_eq!(until.as_micros(), 10_000_000, "{refunds}");
        clock.advance(Duration::from_micros(units_left * REFILL_US - 1));
        assert!(!passes(&fallback, &policy, 50), "{refunds}");
        clock.advance(Duration::from_micros(1));
        assert!(passes(&fallback, &policy, 50), "{refunds}");
    }
}

#[test]
fn a_dear_turn_is_due_when_the_bucket_is_full_and_goes_back_whole() {
    let ((fallback, clock), policy) = (one_of_ten(), bucket());
    let dear = Check::new(&policy, "a").with_cost(50);
    assert!(passes(&fallback, &policy, 50));
    let wait = Operation::Wait { at_most_us: 60_000_000 };
    let turn = decide(&fallback, &[dear], wait).into_only().unwrap();
    assert_eq!(turn.due_after(), Duration::from_secs(10));
    assert_eq!(turn.reset_after(), Duration::from_secs(20));
    assert!(!passes(&fallback, &policy, 1));
    fallback.refund(&Reservation::single(Charge::turn(dear, &turn))).unwrap();
    clock.advance(Duration::from_secs(10));
    assert!(passes(&fallback, &policy, 50));
}

#[test]
fn a_turn_of_an_outage_is_given_up_only_if_it_is_the_last() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let check = Check::new(&policy, "a").with_cost(10);
    let wait = Operation::Wait { at_most_us: 60_000_000 };
    let [_, first, second] = [(); 3].map(|()| decide(&fallback, &[check], wait).into_only().unwrap());
    assert_eq!([&first, &second].map(Outcome::due_after), [refill(10), refill(20)]);
    let give_up = |turn| fallback.refund(&Reservation::single(Charge::turn(check, turn)));
    let reset_after = || decide(&fallback, &[check], Operation::Peek).outcomes()[0].reset_after();
    assert!(matches!(give_up(&first), Err(StoreError::TurnsNotDue)));
    assert_eq!(reset_after(), refill(30));
    give_up(&second).unwrap();
    assert_eq!(reset_after(), refill(20));
}

#[test]
fn a_dear_request_is_given_back_as_long_as_it_counts() {
    for passed in [5, 20, 49] {
        let ((fallback, clock), policy) = (one_of_ten(), bucket());
        let dear = [Check::new(&policy, "a").with_cost(50)];
        let reservation = decide(&fallback, &dear, Operation::Check).reservation(&dear).unwrap();
        clock.advance(refill(passed));
        fallback.refund(&reservation).unwrap();
        let peeked = decide(&fallback, &dear, Operation::Peek);
        assert_eq!(peeked.outcomes()[0].reset_after(), Duration::ZERO, "{passed} units were refilled");
    }
}
