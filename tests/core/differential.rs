//! Random policies, costs and instants: the specification, the memory store and the Redis store agree on
//! every field of every outcome.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::maybe_done;
use futures_util::poll;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::clock::{Clock, FakeClock};
use ratelimit_core::conformance::Reference;
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{Check, GroupOutcome, MemoryStore, Policy, RateLimiter, Reservation, Timestamp};
use tests::START;
use tests::redis::Server;
use tests::strategies::{self, step_back, step_forward};

/// Random cases; the environment can set another number.
fn cases() -> u32 {
    strategies::cases("DIFFERENTIAL_CASES", 10_000)
}

/// One thing that happens: some time passes, and a group is checked.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Share of the first policy's window by which the clock moves, in percent; may be negative.
    step: i64,
    /// Microseconds more.
    pub(super) jitter: i64,
    /// For each limit: which policy, which caller, which cost.
    pub(super) group: Vec<(usize, u8, u64)>,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Check,
    Peek,
    /// A check that is charged nothing.
    Look,
    Reset,
    CheckAndRefund,
    /// As many as fit of these units.
    CheckUpTo(u64),
    /// The first limit of the group that was charged is settled to this number of units, which may be a debt.
    CheckAndSettle(u64),
}

pub(super) fn event(policies: usize) -> impl Strategy<Value = Event> {
    let step = prop_oneof![15 => step_forward(), 1 => step_back()];
    let cost = prop_oneof![8 => Just(1u64), 4 => 0u64..6, 1 => 0u64..200_000, 1 => Just(u64::MAX)];
    let group = prop_oneof![
        3 => prop::collection::vec((0..policies, 0u8..2, cost.clone()), 1..=1),
        2 => prop::collection::vec((0..policies, 0u8..2, cost), 0..=4),
    ];
    let units = prop_oneof![6 => 0u64..12, 2 => 0u64..400, 1 => 0u64..=1_000_000_000_000];
    let action = prop_oneof![
        12 => Just(Action::Check),
        2 => Just(Action::Peek),
        2 => Just(Action::Look),
        1 => Just(Action::Reset),
        2 => Just(Action::CheckAndRefund),
        2 => units.clone().prop_map(Action::CheckUpTo),
        2 => units.prop_map(Action::CheckAndSettle),
    ];
    (step, -2i64..3, group, action).prop_map(|(step, jitter, group, action)| Event {
        step,
        jitter,
        group,
        action,
    })
}

fn history() -> impl Strategy<Value = (Vec<Policy>, Vec<Event>)> {
    strategies::policies_and_calendars().prop_flat_map(|policies| {
        let events = prop::collection::vec(event(policies.len()), 1..25);
        (Just(policies), events)
    })
}

pub(super) fn moved(now: u64, event: &Event, policy: &Policy) -> u64 {
    let window = i64::try_from(policy.window().as_micros()).unwrap();
    let step = i128::from(window) * i128::from(event.step) / 100 + i128::from(event.jitter);
    u64::try_from((i128::from(now) + step).max(1)).unwrap()
}

/// Shows an instant, also to the server whose keys are to expire by it.
async fn show(clock: &FakeClock, expiring: Option<&Server>, now: u64) {
    let passed = now.cast_signed() - clock.now().as_micros().cast_signed();
    clock.set(Timestamp::from_micros(now));
    if let Some(server) = expiring {
        server.age_keys(passed).await;
    }
}

/// Runs a history on a store and on the specification, and compares every answer.
async fn compare_history(
    limiter: &RateLimiter,
    clock: &FakeClock,
    expiring: Option<&Server>,
    (policies, events): (&[Policy], &[Event]),
    id: u64,
    compare: impl Fn(&GroupOutcome, &GroupOutcome),
) {
    let reference = RateLimiter::new(Reference::new(clock));
    let mut now = START;
    if let Some(server) = expiring {
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
    }
    for event in events {
        now = moved(now, event, &policies[0]);
        show(clock, expiring, now).await;
        let callers: Vec<String> =
            event.group.iter().map(|(_, caller, _)| format!("{id}/{caller}")).collect();
        let checks = event.group.iter().zip(&callers);
        let group: Vec<Check<'_>> = checks
            .map(|(&(policy, _, cost), caller)| Check::new(&policies[policy], caller).with_cost(cost))
            .collect();
        match event.action {
            Action::Peek => {
                let expected = reference.peek_all(&group).await.unwrap();
                assert_eq!(limiter.peek_all(&group).await.unwrap(), expected);
            }
            Action::Look => {
                let looks: Vec<Check<'_>> = group.iter().map(|check| check.uncharged()).collect();
                let expected = reference.check_all(&looks).await.unwrap();
                compare(&limiter.check_all(&looks).await.unwrap(), &expected);
            }
            Action::Reset => {
                for check in &group {
                    limiter.reset(check.policy(), check.partition()).await.unwrap();
                    reference.reset(check.policy(), check.partition()).await.unwrap();
                }
            }
            Action::CheckUpTo(units) => {
                let expected = reference.check_up_to_all(&group, units).await.unwrap();
                assert_eq!(limiter.check_up_to_all(&group, units).await.unwrap(), expected);
            }
            Action::Check | Action::CheckAndRefund | Action::CheckAndSettle(_) => {
                let expected = reference.check_all(&group).await.unwrap();
                let outcome = limiter.check_all(&group).await.unwrap();
                compare(&outcome, &expected);
                if event.action == Action::CheckAndRefund
                    && let Some(reservation) = outcome.reservation(&group)
                {
                    // The handler takes a while.
                    now = moved(now, &Event { jitter: 7, ..event.clone() }, &policies[0]);
                    show(clock, expiring, now).await;
                    limiter.refund(owned(&reservation)).await.unwrap();
                    reference.refund(reservation).await.unwrap();
                } else if let Action::CheckAndSettle(actual) = event.action
                    && let Some(mut reservation) = outcome.reservation(&group)
                    && let Some(name) = first_name(&reservation)
                {
                    now = moved(now, &Event { jitter: 7, ..event.clone() }, &policies[0]);
                    show(clock, expiring, now).await;
                    let settled = reservation.take_limit(&name).unwrap();
                    limiter.settle(owned(&settled), actual).await.unwrap();
                    reference.settle(settled, actual).await.unwrap();
                    let left: Vec<Check<'_>> =
                        group.iter().flat_map(|check| [0, 1].map(|cost| check.with_cost(cost))).collect();
                    for check in &left {
                        let group = std::slice::from_ref(check);
                        let expected = reference.peek_all(group).await.unwrap();
                        assert_eq!(limiter.peek_all(group).await.unwrap(), expected, "after a settlement");
                    }
                }
            }
        }
    }
}

fn first_name(reservation: &Reservation<'_>) -> Option<String> {
    reservation.charges().next().map(|charge| charge.check().policy().name().to_owned())
}

fn compare_histories(
    histories: impl Strategy<Value = (Vec<Policy>, Vec<Event>)>,
    limiter: &RateLimiter,
    clock: &FakeClock,
    (cases, expiring): (u32, Option<&Server>),
    compare: impl Fn(&GroupOutcome, &GroupOutcome),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&histories, |(policies, events)| {
            // Every case has callers of its own, so that one store serves all.
            id.set(id.get() + 1);
            let history = (&policies[..], &events[..]);
            runtime.block_on(compare_history(limiter, clock, expiring, history, id.get(), &compare));
            Ok(())
        })
        .unwrap();
    println!("{cases} cases");
}

/// Histories in which the clock never goes back.
fn forward_only() -> impl Strategy<Value = (Vec<Policy>, Vec<Event>)> {
    history().prop_map(|(policies, mut events)| {
        for event in &mut events {
            (event.step, event.jitter) = (event.step.max(0), event.jitter.max(0));
        }
        (policies, events)
    })
}

#[test]
fn the_memory_store_decides_what_the_model_decides() {
    let clock = FakeClock::default();
    // A process's own clock never goes back, and what has expired may be forgotten.
    let histories = forward_only();
    // Room for all callers: a table that is full decides on purpose otherwise.
    let store = MemoryStore::with_max_callers(10_000_000).with_clock(clock.clone());
    compare_histories(histories, &RateLimiter::new(store), &clock, (cases(), None), |outcome, expected| {
        assert_eq!(outcome, expected);
    });
}

#[test]
fn the_redis_store_decides_what_the_model_decides() {
    let Some(server) = tests::redis::server() else { return };
    let clock = FakeClock::default();
    compare_histories(
        history(),
        &server.uncached_limiter_at(&clock),
        &clock,
        (cases(), None),
        |outcome, expected| {
            assert_eq!(outcome, expected);
        },
    );
}

#[test]
fn keys_that_expire_change_no_decision() {
    let Some(server) = tests::redis::server() else { return };
    let clock = FakeClock::default();
    // A clock that goes back over the end of a key finds nothing there.
    let (limiter, some) = (server.uncached_limiter_at(&clock), (cases() / 10, Some(&server)));
    compare_histories(forward_only(), &limiter, &clock, some, |outcome, expected| {
        assert_eq!(outcome, expected);
    });
}

#[test]
fn the_denial_cache_denies_only_what_the_model_denies() {
    let Some(server) = tests::redis::server() else { return };
    let clock = FakeClock::default();
    // The denial cache keeps checks from the server, which then does not see that entries expire: after a
    // step back it may count them again. So the clock only goes forward.
    compare_histories(
        forward_only(),
        &server.limiter_at(&clock),
        &clock,
        (cases(), None),
        |outcome, expected| {
            let single_units = expected.outcomes().iter().all(|one| one.cost() == 1);
            if outcome.is_allowed() || (outcome.outcomes().len() == 1 && single_units) {
                return assert_eq!(outcome, expected);
            }
            // What is left may be as old as the denial: under limits that are not violated, and for more than
            // one unit.
            let violated = |outcome: &GroupOutcome| {
                let outcomes = outcome.outcomes().iter().enumerate().filter(|(_, one)| !one.is_allowed());
                outcomes.map(|(i, one)| (i, one.decision(), one.reset_after())).collect::<Vec<_>>()
            };
            // A limit that was not violated may be by now.
            let known = violated(expected);
            let is_known = violated(outcome).iter().all(|one| known.contains(one));
            assert!(is_known && outcome.at() == expected.at(), "{outcome:?}, but {expected:?}");
        },
    );
}

/// Requests that come at once: the group of each, and what is done with it.
type Rush = Vec<(Vec<(usize, u8, u64)>, Action)>;

fn rushes() -> impl Strategy<Value = (Vec<Policy>, Vec<(Event, Rush)>)> {
    strategies::policies_and_calendars().prop_flat_map(|policies| {
        let one = event(policies.len()).prop_map(|event| (event.group, event.action));
        let rush = (event(policies.len()), prop::collection::vec(one, 1..150));
        (Just(policies), prop::collection::vec(rush, 1..4))
    })
}

/// Starts one request of a rush. Its result is text, because the results have several types.
fn start<'a>(
    limiter: &'a RateLimiter,
    group: &'a [Check<'_>],
    action: Action,
    reservation: Option<&'a Reservation<'_>>,
) -> Pin<Box<dyn Future<Output = String> + 'a>> {
    match (action, reservation) {
        (Action::CheckAndSettle(actual), Some(reservation)) => {
            Box::pin(async move { format!("{:?}", limiter.settle(owned(reservation), actual).await) })
        }
        (Action::CheckUpTo(units), _) => {
            Box::pin(async move { format!("{:?}", limiter.check_up_to_all(group, units).await) })
        }
        (Action::Peek, _) => Box::pin(async { format!("{:?}", limiter.peek_all(group).await) }),
        (Action::Look, _) => Box::pin(async {
            let looks: Vec<Check<'_>> = group.iter().map(|check| check.uncharged()).collect();
            format!("{:?}", limiter.check_all(&looks).await)
        }),
        _ => Box::pin(async { format!("{:?}", limiter.check_all(group).await) }),
    }
}

/// Sends all of a rush at once, and compares with requests one after another.
async fn compare_rushes(
    limiter: &RateLimiter,
    clock: &FakeClock,
    policies: &[Policy],
    rushes: &[(Event, Rush)],
    id: u64,
) {
    let reference = RateLimiter::new(Reference::new(clock));
    let mut now = START;
    for (event, rush) in rushes {
        now = moved(now, event, &policies[0]);
        clock.set(Timestamp::from_micros(now));
        let callers: Vec<String> = (0..2).map(|caller| format!("rush {id}/{caller}")).collect();
        let groups: Vec<Vec<Check<'_>>> = rush
            .iter()
            .map(|(group, _)| {
                let checks = group.iter();
                let check = |&(policy, caller, cost): &(usize, u8, u64)| {
                    Check::new(&policies[policy], &callers[usize::from(caller)]).with_cost(cost)
                };
                checks.map(check).collect()
            })
            .collect();
        // What is settled was charged nothing before the rush.
        let mut reservations = Vec::new();
        for (group, (_, action)) in groups.iter().zip(rush) {
            let mut reservation = None;
            if let (Action::CheckAndSettle(_), Some(check)) = (action, group.first()) {
                let nothing = [check.with_cost(0)];
                let outcome = limiter.check_all(&nothing).await.unwrap();
                assert_eq!(reference.check_all(&nothing).await.unwrap(), outcome);
                reservation = outcome.reservation(&nothing);
            }
            reservations.push(reservation);
        }
        let mut answers = Vec::new();
        for ((group, (_, action)), reservation) in groups.iter().zip(rush).zip(&reservations) {
            let mut answer = Box::pin(maybe_done(start(limiter, group, *action, reservation.as_ref())));
            // From the first poll it waits for its turn.
            let _ = poll!(answer.as_mut());
            answers.push(answer);
        }
        let requests = groups.iter().zip(rush).zip(&reservations);
        for (mut answer, ((group, (_, action)), reservation)) in answers.into_iter().zip(requests) {
            let expected = start(&reference, group, *action, reservation.as_ref()).await;
            answer.as_mut().await;
            assert_eq!(answer.as_mut().take_output().unwrap(), expected, "{action:?} of {group:?}");
        }
    }
}

#[test]
fn requests_in_one_redis_batch_are_decided_in_their_order() {
    let Some(server) = tests::redis::server() else { return };
    let clock = FakeClock::default();
    // Checks, and what is no check, go over one connection.
    let store = server.builder_at(&clock).denial_cache_ttl(Duration::ZERO).connections(1).build().unwrap();
    let limiter = RateLimiter::builder(store).clock(clock.clone()).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = std::cell::Cell::new(0);
    runtime.block_on(tests::redis::load_scripts(&limiter));
    let cases = cases() / 20;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let requests = std::cell::Cell::new(0);
    runner
        .run(&rushes(), |(policies, rushes)| {
            id.set(id.get() + 1);
            requests.set(requests.get() + rushes.iter().map(|(_, rush)| rush.len()).sum::<usize>());
            runtime.block_on(compare_rushes(&limiter, &clock, &policies, &rushes, id.get()));
            Ok(())
        })
        .unwrap();
    let calls = runtime.block_on(server.script_calls());
    println!("{cases} cases: {} requests in {calls} calls", requests.get());
    assert!(calls * 2 < requests.get() as u64, "together");
}
