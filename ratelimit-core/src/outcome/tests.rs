//! Tests of waits.

use super::*;

fn allowed(remaining: u64, reset_after: u64) -> Outcome {
    let reset_after = Duration::from_micros(reset_after);
    Outcome::new(10, Decision::Allowed).with_remaining(remaining).with_reset_after(reset_after)
}

fn denied(wait: u64) -> Outcome {
    let retry_after = Some(Duration::from_micros(wait));
    Outcome::new(10, Decision::Denied { retry_after }).with_reset_after(Duration::from_micros(60))
}

fn never() -> Outcome {
    Outcome::new(10, Decision::Denied { retry_after: None }).with_cost(11).with_remaining(10)
}

fn group<const N: usize>(outcomes: [Outcome; N]) -> GroupOutcome {
    GroupOutcome::new(Timestamp::from_micros(1_000), outcomes)
}

#[test]
fn an_outcome_waits_only_when_waiting_helps() {
    assert_eq!(allowed(3, 60).retry_after(), None);
    assert_eq!(never().retry_after(), None);
    assert!(!never().is_allowed());
    assert_eq!(denied(7).retry_after(), Some(Duration::from_micros(7)));
    assert_eq!(allowed(3, 60).reset_after(), Duration::from_micros(60));
}

#[test]
fn a_group_waits_for_the_longest_of_the_violated_limits() {
    assert_eq!(group([]).retry_after(), None);
    assert_eq!(group([allowed(0, 60)]).retry_after(), None);
    assert_eq!(group([denied(7)]).retry_after(), Some(Duration::from_micros(7)));
    let mixed = group([denied(7), allowed(0, 60), denied(9), denied(8)]);
    assert_eq!(mixed.retry_after(), Some(Duration::from_micros(9)));
}

#[test]
fn a_group_with_a_limit_that_never_passes_never_passes() {
    assert_eq!(group([never()]).retry_after(), None);
    assert_eq!(group([denied(7), never(), denied(9)]).retry_after(), None);
}

#[test]
fn available_after_is_the_wait_for_the_request_or_one_unit_or_the_full_quota() {
    let after = |outcome: Outcome| outcome.available_after().as_micros();
    assert_eq!(after(allowed(3, 60).with_next_unit_after_us(7)), 60, "something remains");
    assert_eq!(after(allowed(0, 60).with_next_unit_after_us(7)), 7);
    assert_eq!(after(allowed(0, 60)), 60, "the store does not report it");
    assert_eq!(after(denied(9)), 9);
    assert_eq!(after(denied(9).with_next_unit_after_us(7)), 9, "a request of several units");
    assert_eq!(after(denied(7).with_next_unit_after_us(9)), 9, "a request of no units");
    assert_eq!(after(denied(9).with_cost(5).with_remaining(3)), 9);
    assert_eq!(after(never()), 0, "the full quota is there");
    let full = never().with_remaining(0).with_reset_after(Duration::from_micros(60));
    assert_eq!(after(full.with_next_unit_after_us(7)), 7);
}

#[test]
#[cfg(feature = "redis")]
fn an_aged_denial_has_shorter_waits_by_the_clock_of_each_node() {
    let at = Timestamp::from_micros;
    let denial = GroupOutcome::decided_apart([
        denied(9).with_next_unit_after_us(7).with_at(at(1_000)),
        denied(20).with_at(at(4_000)),
        allowed(0, 60).with_next_unit_after_us(3).with_at(at(2_000)),
    ]);
    let denial = denial.aged(at(500), at(505));
    let instants: Vec<u64> = denial.outcomes().iter().map(|outcome| outcome.at().as_micros()).collect();
    assert_eq!((instants, denial.at()), (vec![1_005, 4_005, 2_005], at(4_005)));
    let waits = denial.outcomes().iter().map(|outcome| {
        let micros = |wait: Option<Duration>| wait.map(|wait| wait.as_micros());
        (micros(outcome.next_unit_after()), micros(outcome.retry_after()), outcome.reset_after().as_micros())
    });
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits, [(Some(2), Some(4), 55), (None, Some(15), 55), (Some(0), None, 55)]);
}

#[test]
fn a_decision_carries_the_wait_of_its_outcome() {
    let wait = Duration::from_micros(7);
    assert_eq!(allowed(3, 60).decision(), Decision::Allowed);
    assert_eq!(denied(7).decision(), Decision::Denied { retry_after: Some(wait) });
    assert_eq!(never().decision(), Decision::Denied { retry_after: None });
}

#[test]
fn the_order_of_the_setters_does_not_matter() {
    let wait = Duration::from_micros(7);
    let blank = || Outcome::new(10, Decision::Allowed);
    let (early, late) = (blank().with_next_unit_after(wait), blank().with_remaining(3));
    assert_eq!(early.with_remaining(3), late.clone().with_next_unit_after(wait));
    assert_eq!(late.with_next_unit_after(wait).next_unit_after(), None, "something remains");
    assert_eq!(blank().with_next_unit_after(wait).next_unit_after(), Some(wait));
}

#[test]
fn an_outcome_and_a_verdict_stay_small() {
    assert_eq!(size_of::<Verdict>(), 16);
    assert!(size_of::<Outcome>() <= 80);
}

#[test]
fn a_group_of_outcomes_of_an_outage_is_degraded() {
    let outage = group([allowed(3, 60), denied(7)]).degraded();
    let again = GroupOutcome::new(outage.at(), outage.outcomes().iter().cloned());
    assert_eq!(again, outage);
}
