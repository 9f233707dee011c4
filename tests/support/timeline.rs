//! Stored states, compared through peeks at later instants: a count in the wrong window differs one
//! microsecond later.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use ratelimit_core::{Check, GroupOutcome, Timestamp};

use crate::timed::Timed;

/// Compares what two stores with the same past hold for each limit of `group`, and leaves both clocks at
/// `now`.
///
/// Each limit is peeked at with costs of 0, 1 and all that it admits, at `now` and one microsecond later, and
/// at and one microsecond around the end of the (sub-)window, one window after that, and every instant that
/// the expected outcomes promise. A caller without counts is peeked at `now` only: a store in memory may make
/// room for such a caller by what has expired at the later instant.
///
/// # Panics
///
/// When an outcome differs.
pub fn assert_same(place: &str, store: &Timed, expected: &Timed, group: &[Check<'_>], now: Timestamp) {
    for check in group {
        for at in instants(&peeked(expected, check, now), check, now) {
            let at = Timestamp::from_micros(at);
            assert_eq!(
                peeked(store, check, at),
                peeked(expected, check, at),
                "{place}: {check:?}, peeked {} us later",
                at.as_micros() - now.as_micros()
            );
        }
    }
    for clock in [&store.clock, &expected.clock] {
        clock.set(now);
    }
}

/// When to look, in microseconds.
fn instants(outcomes_now: &[GroupOutcome], check: &Check<'_>, now: Timestamp) -> BTreeSet<u64> {
    let now = now.as_micros();
    let outcomes = outcomes_now.iter().flat_map(GroupOutcome::outcomes);
    let waits = outcomes
        .clone()
        .flat_map(|outcomes_now| [Some(outcomes_now.reset_after()), outcomes_now.retry_after()])
        .flatten();
    let promised = waits.map(|wait| now + u64::try_from(wait.as_micros()).unwrap());
    let mut instants = BTreeSet::from([now]);
    if outcomes.clone().all(|outcomes_now| outcomes_now.reset_after().is_zero()) {
        return instants;
    }
    let window = u64::try_from(check.policy().window().as_micros()).unwrap();
    let length = window / check.policy().sub_windows();
    let edge = now - now % length + length;
    instants.insert(now + 1);
    for instant in promised.chain([edge, edge + window]) {
        instants.extend((instant - 1..=instant + 1).filter(|instant| *instant > now));
    }
    instants
}

/// What would be decided about costs of 0, 1, and all that the limit admits.
fn peeked(store: &Timed, check: &Check<'_>, at: Timestamp) -> Vec<GroupOutcome> {
    store.clock.set(at);
    let groups = [0, 1, check.policy().capacity()].map(|cost| [check.with_cost(cost)]);
    let outcomes_now = store.run(join_all(groups.iter().map(|group| store.limiter.peek_all(group))));
    outcomes_now.into_iter().map(Result::unwrap).collect()
}

/// All of an outcome but what its reservation holds.
pub fn shown(group: &GroupOutcome) -> impl PartialEq + std::fmt::Debug + use<> {
    let outcomes = group.outcomes().iter().map(|one| {
        let waits = (one.reset_after(), one.next_unit_after(), one.due_after());
        let answer = (one.decision(), one.would_deny(), one.is_degraded());
        (one.at(), one.capacity(), one.cost(), one.remaining(), waits, answer)
    });
    (group.at(), group.is_allowed(), outcomes.collect::<Vec<_>>())
}
