//! The part of one of ten processes in an outage.

use std::time::Duration;

use super::*;
use crate::clock::{FakeClock, Timestamp};
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
    Duration::from_millis(units * 200)
}

fn judge(fallback: &Fallback, group: &[Check<'_>], operation: Operation) -> GroupOutcome {
    let error = StoreError::timeout(Duration::ZERO);
    fallback.judge(group, operation, error, true, &Observer::new(0.1)).unwrap()
}

#[test]
fn requests_pass_at_the_rate_of_the_part() {
    for cost in [1, 2, 5, 10, 11, 50] {
        let ((fallback, clock), policy) = (one_of_ten(), bucket());
        let check = Check::new(&policy, "a").with_cost(cost);
        let mut passed = 0;
        for _ in 0..2_000 {
            passed += if judge(&fallback, &[check], Operation::Check).is_allowed() { cost } else { 0 };
            clock.advance(Duration::from_millis(10));
        }
        // A full part, and what it refills within 20 s.
        assert_eq!(passed, if cost <= 10 { 10 + 100 - cost } else { 0 }, "{cost}");
    }
}

#[test]
fn a_request_that_costs_more_than_the_part_is_denied_and_charges_nothing() {
    let (fallback, _) = one_of_ten();
    for &algorithm in Algorithm::ALL {
        let policy = Policy::builder("p").algorithm(algorithm).max(100).build();
        let [one, eleven] = [1, 11].map(|cost| Check::new(&policy, "a").with_cost(cost));
        let parts = [Check::new(&policy, "a").with_cost(5), Check::new(&policy, "a").with_cost(6)];
        for group in [&[eleven][..], &parts] {
            let denied = judge(&fallback, group, Operation::Check);
            assert!(!denied.is_allowed(), "{algorithm}");
            for (outcome, check) in denied.outcomes().iter().zip(group) {
                let numbers =
                    (outcome.capacity(), outcome.cost(), outcome.remaining(), outcome.retry_after());
                let until_the_store_is_back = Some(Duration::from_secs(1));
                assert_eq!(numbers, (100, check.cost(), 10, until_the_store_is_back), "{algorithm}");
            }
        }
        let never = Check::new(&policy, "a").with_cost(101);
        assert_eq!(judge(&fallback, &[never], Operation::Check).retry_after(), None, "{algorithm}");
        assert_eq!(judge(&fallback, &[one], Operation::Check).outcomes()[0].remaining(), 9, "{algorithm}");
    }
}

#[test]
fn a_turn_that_costs_more_than_the_part_is_denied() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let check = Check::new(&policy, "a").with_cost(11);
    let turn = judge(&fallback, &[check], Operation::Wait { at_most_us: 60_000_000 });
    assert!(!turn.is_allowed());
    assert_eq!(turn.retry_after(), Some(Duration::from_secs(1)));
}

#[test]
fn what_a_whole_limit_cannot_admit_never_passes() {
    let fallback = Fallback::new(NonZeroU32::MIN, 100);
    let policy = Policy::builder("p").max(100).build();
    let group = [60, 50].map(|cost| Check::new(&policy, "a").with_cost(cost));
    let denied = judge(&fallback, &group, Operation::Check);
    assert_eq!((denied.is_allowed(), denied.retry_after()), (false, None));
}

#[test]
fn a_group_of_which_one_limit_denies_charges_nothing() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let other = Policy::builder("other").max(20).build();
    let group = [Check::new(&policy, "a").with_cost(5), Check::new(&other, "a").with_cost(3)];
    assert!(!judge(&fallback, &group, Operation::Check).is_allowed());
    let left = |check| judge(&fallback, &[check], Operation::Peek).outcomes()[0].remaining();
    assert_eq!(group.map(left), [10, 2]);
}

#[test]
fn a_refund_beside_a_settlement_gives_back_its_own_charge_only() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let check = Check::new(&policy, "a").with_cost(4);
    let charged = judge(&fallback, &[check], Operation::Check);
    fallback.overdraw(&check.with_cost(50));
    let wait = || judge(&fallback, &[check.with_cost(1)], Operation::Peek).retry_after();
    assert_eq!(wait(), Some(refill(45)));
    fallback.refund(&charged.reservation(&[check]).unwrap()).unwrap();
    assert_eq!(wait(), Some(refill(41)));
}

#[test]
fn a_settlement_may_charge_more_than_the_part() {
    let ((fallback, clock), policy) = (one_of_ten(), bucket());
    let check = Check::new(&policy, "a");
    fallback.overdraw(&check.with_cost(50));
    let wait = judge(&fallback, &[check], Operation::Peek).retry_after();
    assert_eq!(wait, Some(refill(41)));
    clock.advance(refill(41));
    assert!(judge(&fallback, &[check], Operation::Check).is_allowed());
}

#[test]
fn a_turn_of_an_outage_is_given_up_only_if_it_is_the_last() {
    let ((fallback, _), policy) = (one_of_ten(), bucket());
    let check = Check::new(&policy, "a").with_cost(10);
    let wait = Operation::Wait { at_most_us: 60_000_000 };
    let [_, first, second] = [(); 3].map(|()| judge(&fallback, &[check], wait).into_only().unwrap());
    assert_eq!([&first, &second].map(Outcome::due_after), [refill(10), refill(20)]);
    let give_up = |turn| fallback.refund(&Reservation::single(Charge::turn(check, turn)));
    let reset_after = || judge(&fallback, &[check], Operation::Peek).outcomes()[0].reset_after();
    assert!(matches!(give_up(&first), Err(StoreError::TurnsNotDue)));
    assert_eq!(reset_after(), refill(30));
    give_up(&second).unwrap();
    assert_eq!(reset_after(), refill(20));
}

#[test]
fn the_callers_of_an_outage_are_as_many_as_there_is_room_for() {
    let fallback = Fallback::new(NonZeroU32::MIN, 100);
    let policy = Policy::builder("p").max(10).build();
    for caller in 0..300_u32 {
        let _ = judge(&fallback, &[Check::new(&policy, &caller.to_le_bytes())], Operation::Check);
    }
    assert_eq!(fallback.callers(), 100 + 1, "the callers without room share a count");
}

#[test]
fn an_outage_is_over_when_no_request_has_failed_for_a_second() {
    let outage = Outage::default();
    outage.record_failure(&StoreError::timeout(Duration::ZERO));
    assert!(outage.is_out() && outage.failed_at.load(Ordering::Relaxed) > 0);
    // The instant of the last failure is moved, as the clock cannot be set.
    for (failed_at, is_out) in [(u64::MAX, true), (outage.now() - QUIET_US - 1, false)] {
        outage.failed_at.store(failed_at, Ordering::Relaxed);
        outage.record_reply();
        assert_eq!(outage.is_out(), is_out);
    }
}

#[cfg(feature = "calendar")]
#[test]
fn a_calendar_in_an_outage_follows_the_wall_clock_that_is_set() {
    let ((fallback, clock), day) = (one_of_ten(), Policy::builder("day").max(20));
    let day = day.calendar(crate::policy::Calendar::day()).build();
    let open = Policy::builder("open").max(5).on_error(OnError::Allow).build();
    let (bucket, midnight) = (bucket(), 1_797_379_200_000_000);
    let group = [Check::new(&day, "a"), Check::new(&bucket, "a"), Check::new(&open, "a")];
    let set = |wall_clock| clock.set_wall_clock(Timestamp::from_micros(wall_clock));
    let left = |check| judge(&fallback, &[check], Operation::Peek).outcomes()[0].remaining();
    set(midnight - 1);
    let charged = judge(&fallback, &group, Operation::Check);
    assert!(charged.outcomes().iter().all(Outcome::is_degraded));
    let [of_day, of_bucket, _] = charged.outcomes() else { panic!("{charged:?}") };
    assert_eq!((of_day.at().as_micros(), of_day.reset_after()), (midnight - 1, Duration::from_micros(1)));
    assert_eq!((of_bucket.at(), of_bucket.reset_after()), (clock.now(), refill(1)));
    assert_eq!(group.map(left), [1, 9, 5]);
    set(midnight);
    assert_eq!(group.map(left), [2, 9, 5], "another day");
    set(midnight - 1);
    fallback.refund(&charged.reservation(&group).unwrap()).unwrap();
    assert_eq!(group.map(left), [2, 10, 5]);
    assert!(judge(&fallback, &group, Operation::Check).is_allowed());
    fallback.reset(&group[0]);
    assert_eq!(group.map(left), [2, 9, 5]);
}
