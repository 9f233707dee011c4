//! Cases about waiting: a token bucket is charged ahead, and turns are due in the order of the decisions.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::{Clause, EQUAL};
use crate::conformance::setup::{MINUTE, Run, policy};
use crate::conformance::tested::Tested;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::{Algorithm, Policy};
use crate::reservation::{Charge, Reservation};
use crate::store::Store;

const BUCKET: Clause = EQUAL.of(Algorithm::TokenBucket);

/// A bucket of four units, one each 15 s.
fn bucket() -> Policy {
    policy("turns", Algorithm::TokenBucket, 4)
}

fn due_after(outcome: &GroupOutcome) -> Duration {
    outcome.outcomes().first().map(Outcome::due_after).unwrap_or_default()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A wait is charged now if it is due in time, behind those before it; a check never overtakes.
pub fn turns_are_due_in_the_order_of_the_decisions(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let policy = bucket();
        let check = |cost| [Check::new(&policy, "a").with_cost(cost)];
        let full = store.wait(&check(4), seconds(0)).await;
        BUCKET.admitted("a wait for a full bucket", &full);
        BUCKET.equal("time until its turn", due_after(&full), seconds(0));
        let micro = Duration::from_micros(1);
        let early = store.wait(&check(1), seconds(15).saturating_sub(micro)).await;
        BUCKET.denied("a wait of one microsecond less than it takes", &early);
        BUCKET.equal("wait for one unit after this denial", early.retry_after(), Some(seconds(15)));
        for (cost, due) in [(1, 15), (2, 45), (1, 60)] {
            let turn = store.wait(&check(cost), seconds(due)).await;
            BUCKET.admitted("a wait of exactly as long as it takes", &turn);
            BUCKET.equal("time until the turn of the next units", due_after(&turn), seconds(due));
            BUCKET.remaining("while turns are taken", &turn, 0, 0);
        }
        let overtakes = store.check(&check(1)).await;
        BUCKET.denied("a check while turns are taken", &overtakes);
        BUCKET.equal("its wait", overtakes.retry_after(), Some(seconds(75)));
        clock.advance(seconds(75).saturating_sub(micro));
        BUCKET.denied("a check one microsecond before the turns are paid", &store.check(&check(1)).await);
        clock.advance(micro);
        BUCKET.admitted("a check when the turns are paid", &store.check(&check(1)).await);
    }));
}

/// A turn that is given up goes back only while it is the last one of its bucket.
pub fn only_the_last_turn_is_given_back(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        let policy = bucket();
        let check = [Check::new(&policy, "a")];
        BUCKET.admitted("a check of all units", &store.check(&[check[0].with_cost(4)]).await);
        let mut turns = Vec::new();
        for number in 1..=3 {
            let turn = store.wait(&check, MINUTE).await;
            BUCKET.equal("time until a turn", due_after(&turn), seconds(15 * number));
            turns.push(turn);
        }
        let give_up = async |turn: &GroupOutcome| {
            if let [turn] = turn.outcomes() {
                store.refund(&Reservation::single(Charge::turn(check[0], turn))).await;
            }
        };
        give_up(&turns[1]).await;
        BUCKET.equal("time until the next turn", due_after(&store.wait(&check, MINUTE).await), MINUTE);
        clock.advance(seconds(5));
        give_up(&turns[2]).await;
        let last = store.wait(&check, 2 * MINUTE).await;
        BUCKET.equal("time until the turn behind four", due_after(&last), seconds(70));
        give_up(&last).await;
        give_up(&last).await;
        let again = store.wait(&check, 2 * MINUTE).await;
        BUCKET.equal("time until it, after the last was given up", due_after(&again), seconds(70));
    }));
}

/// Where there are no turns, a wait is a check.
pub fn other_groups_do_not_wait(store: &Tested<'_, impl Store>, _: &FakeClock, run: impl Fn(Run<'_>)) {
    run(Box::pin(async {
        for &algorithm in Algorithm::ALL {
            let (clause, policy) = (EQUAL.of(algorithm), policy("no-turns", algorithm, 1));
            let group = ["a", "b"].map(|caller| Check::new(&policy, caller));
            clause.admitted("the wait of a group of two", &store.wait(&group, MINUTE).await);
            clause.denied("another one", &store.wait(&group, MINUTE).await);
            if algorithm != Algorithm::TokenBucket {
                clause.denied("the wait of one limit", &store.wait(&group[..1], 3 * MINUTE).await);
                clause.remaining("after it", &store.peek(&group).await, 1, 0);
            }
            let shadow = Policy::builder("shadow").algorithm(algorithm).max(1).window(MINUTE);
            let shadow = shadow.mode(crate::policy::Mode::Shadow).build();
            let group = [Check::new(&shadow, "a")];
            for _ in 0..2 {
                let outcome = store.wait(&group, MINUTE).await;
                clause.admitted("the wait of a shadow limit", &outcome);
                clause.equal("time until its turn", due_after(&outcome), seconds(0));
            }
        }
    }));
}
