//! Tests of waits and of the ranking of outcomes.

use super::*;

fn allowed(remaining: u64, reset_after: u64) -> Outcome {
    Outcome::new(10, 1, remaining, reset_after, Decision::Allowed)
}

fn denied(wait: u64) -> Outcome {
    Outcome::new(10, 1, 0, 60, Decision::RetryAfterMicros(wait))
}

fn never() -> Outcome {
    Outcome::new(10, 11, 10, 0, Decision::Never)
}

fn group<const N: usize>(outcomes: [Outcome; N]) -> GroupOutcome {
    let allowed = outcomes.iter().all(Outcome::is_allowed);
    GroupOutcome::new(Timestamp::from_micros(1_000), allowed, outcomes.into_iter().collect())
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
fn the_tightest_is_the_violated_limit_with_the_longest_wait() {
    assert_eq!(group([allowed(0, 99), denied(7), denied(9), denied(8)]).tightest(), Some(2));
    assert_eq!(group([denied(9), never()]).tightest(), Some(1), "never is the longest");
    assert_eq!(group([denied(1), allowed(0, 99)]).tightest(), Some(0), "violated before full");
}

#[test]
fn the_tightest_of_passed_limits_has_the_least_remaining_then_the_latest_reset() {
    assert_eq!(group([]).tightest(), None);
    assert_eq!(group([allowed(5, 60), allowed(2, 1), allowed(3, 90)]).tightest(), Some(1));
    assert_eq!(group([allowed(2, 60), allowed(2, 61), allowed(2, 59)]).tightest(), Some(1));
    assert_eq!(group([allowed(2, 60), allowed(2, 60)]).tightest(), Some(0), "of equals the first");
    let empty = |next_unit_after, reset| allowed(0, reset).with_next_unit_after(next_unit_after);
    assert_eq!(group([empty(5, 90), empty(6, 60)]).tightest(), Some(1), "the later unit");
}

#[test]
fn available_after_is_the_wait_for_the_request_or_one_unit_or_the_full_quota() {
    let after = |outcome: Outcome| outcome.available_after().as_micros();
    assert_eq!(after(allowed(3, 60).with_next_unit_after(7)), 60, "something remains");
    assert_eq!(after(allowed(0, 60).with_next_unit_after(7)), 7);
    assert_eq!(after(allowed(0, 60)), 60, "the store does not report it");
    assert_eq!(after(denied(9)), 9);
    assert_eq!(after(denied(9).with_next_unit_after(7)), 9, "a request of several units");
    assert_eq!(after(denied(7).with_next_unit_after(9)), 9, "a request of no units");
    assert_eq!(after(Outcome::new(10, 5, 3, 60, Decision::RetryAfterMicros(9))), 9);
    assert_eq!(after(never()), 0, "the full quota is there");
    assert_eq!(after(Outcome::new(10, 11, 0, 60, Decision::Never).with_next_unit_after(7)), 7);
}

#[test]
#[cfg(feature = "redis")]
fn an_aged_denial_has_shorter_waits() {
    let at = Timestamp::from_micros;
    let denial =
        group([denied(9).with_next_unit_after(7), denied(20), allowed(0, 60).with_next_unit_after(3)]);
    let denial = denial.aged(at(500), at(505));
    let waits = denial.outcomes().iter().map(|outcome| {
        let micros = |wait: Option<Duration>| wait.map(|wait| wait.as_micros());
        (micros(outcome.next_unit_after()), micros(outcome.retry_after()), outcome.reset_after().as_micros())
    });
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits, [(Some(2), Some(4), 55), (None, Some(15), 55), (Some(0), None, 55)]);
}
