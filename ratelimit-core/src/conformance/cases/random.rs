//! The random case: a long sequence of decisions, compared with the reference.

use std::time::Duration;

use crate::check::Check;
use crate::clock::FakeClock;
use crate::conformance::clause::EQUAL;
use crate::conformance::reference::Reference;
use crate::conformance::setup::{MINUTE, Run};
use crate::conformance::tested::Tested;
use crate::policy::{Algorithm, Policy};
use crate::reservation::{Charge, Reservation};
use crate::store::Store;

/// Contract 3: a long random sequence of checks, peeks, refunds and charges beyond a limit, compared field by field with [`Reference`].
pub fn every_decision_is_that_of_the_reference(
    store: &Tested<'_, impl Store>,
    clock: &FakeClock,
    run: impl Fn(Run<'_>),
) {
    run(Box::pin(async {
        // Every algorithm, without its parameter and with it; an algorithm without the parameter is an error.
        let shapes = Algorithm::ALL.iter().flat_map(|&algorithm| {
            let plain = Policy::builder("random").algorithm(algorithm).window(MINUTE);
            // The block shares its counts with the first policy.
            let blocks = plain.max(5).block(MINUTE + MINUTE / 2);
            [plain.max(5), blocks, plain.max(9).sub_windows(6), plain.max(7).burst(3)]
        });
        let policies: Vec<Policy> = shapes.filter_map(|builder| builder.try_build().ok()).collect();
        let reference = Reference::new(clock);
        let reference = Tested::new(&reference);
        // A linear congruential generator (Knuth's MMIX), so that every run is the same.
        let mut seed = 2026u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let callers = [[0u8], [1]];
        let everything = |cost: u64| -> Vec<Check<'_>> {
            let checks =
                policies.iter().flat_map(|policy| callers.iter().map(move |c| Check::new(policy, c)));
            checks.map(|check| check.with_cost(cost)).collect()
        };
        // Reservations to refund at once or later.
        let mut reservations = Vec::new();
        // Waits of the last outcomes, after which a limit frees units.
        let mut waits = Vec::new();
        for step in 0..2_000 {
            let micro = Duration::from_micros(1);
            let promised: Option<&Duration> = waits.get(usize::try_from(random(6)).unwrap());
            clock.advance(match (random(4), promised) {
                (0, Some(wait)) => wait.saturating_sub(micro) + micro * u32::try_from(random(3)).unwrap(),
                (1, _) => Duration::ZERO,
                _ => Duration::from_micros(random(12_000_000)),
            });
            let group: Vec<Check<'_>> = (0..=random(3))
                .map(|_| {
                    let policy = &policies[usize::try_from(random(policies.len() as u64)).unwrap()];
                    Check::new(policy, &callers[usize::try_from(random(2)).unwrap()]).with_cost(random(4))
                })
                .collect();
            let expected = reference.check(&group).await;
            let decided = if step % 3 == 0 { store.try_check(&group) } else { None };
            let outcome = match decided {
                Some(outcome) => outcome,
                None => store.check(&group).await,
            };
            EQUAL.same(&format!("the check of step {step}"), &group, &outcome, &expected);
            let outcomes = expected.outcomes().iter();
            waits = outcomes
                .flat_map(|one| [Some(one.reset_after()), one.retry_after()])
                .flatten()
                .collect::<Vec<_>>();
            // A difference of the stored states may show only later, so all of them are compared now.
            let all = everything(random(4));
            let (stored, model) = (store.peek(&all).await, reference.peek(&all).await);
            EQUAL.same(&format!("a peek after the check of step {step}"), &all, &stored, &model);
            reservations.extend(outcome.reservation(&group));
            if random(2) == 0 && !reservations.is_empty() {
                let which = usize::try_from(random(reservations.len() as u64)).unwrap();
                let reservation = reservations.remove(which);
                store.refund(&reservation).await;
                reference.refund(&reservation).await;
                let (stored, model) = (store.peek(&all).await, reference.peek(&all).await);
                EQUAL.same(&format!("a peek after the refund of step {step}"), &all, &stored, &model);
            }
            match random(8) {
                0 => {
                    let units = random(12);
                    let outcome = store.check_up_to(&group, units).await;
                    let expected = reference.check_up_to(&group, units).await;
                    EQUAL.same(&format!("up to {units} units in step {step}"), &group, &outcome, &expected);
                }
                1 => {
                    let checks = [group[0].with_cost(random(9))];
                    store.overdraw(&checks).await;
                    reference.overdraw(&checks).await;
                    let (stored, model) = (store.peek(&all).await, reference.peek(&all).await);
                    EQUAL.same(&format!("a peek after the overdraft of step {step}"), &all, &stored, &model);
                }
                2 => {
                    let (wait, checks) =
                        (Duration::from_micros(random(90_000_000)), [group[0].with_cost(random(4))]);
                    let outcome = store.wait(&checks, wait).await;
                    let expected = reference.wait(&checks, wait).await;
                    EQUAL.same(
                        &format!("a wait of at most {wait:?} in step {step}"),
                        &checks,
                        &outcome,
                        &expected,
                    );
                    // Some are given up, whether or not they are the last.
                    if let ([turn], 0..2) = (expected.outcomes(), random(3))
                        && !turn.due_after().is_zero()
                    {
                        let turn = Reservation::single(Charge::turn(checks[0], turn));
                        store.refund(&turn).await;
                        reference.refund(&turn).await;
                    }
                }
                _ => {}
            }
            if reservations.len() > 3 {
                drop(reservations.remove(0));
            }
        }
    }));
}
