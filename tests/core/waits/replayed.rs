//! Random waits, checks, crashes and dropped futures over both stores: what started, each at its turn, passes the plain bucket in exact
//! arithmetic. `WAIT_CASES` sets the number of cases.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::policy::MAX_WAIT;
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Check, Policy, Reservation, Timestamp};
use tests::strategies;
use tests::timed::{MIDNIGHT, Timed};

use super::{Wait, bucket, decided, give_up, learn_scripts, wait};

/// A bucket in exact arithmetic: instants in parts of a microsecond, `max` of which are one.
struct Exact {
    max: i128,
    window: i128,
    burst: i128,
    tat: i128,
}

impl Exact {
    fn new(policy: &Policy) -> Self {
        let (max, burst) = (i128::from(policy.max()), i128::from(policy.capacity()));
        Self { max, window: i128::try_from(policy.window().as_micros()).unwrap(), burst, tat: 0 }
    }

    /// The end of a charge now, and when it is due.
    fn ask(&self, now: i128, cost: u64) -> (i128, i128) {
        let end = self.tat.max(now) + i128::from(cost) * self.window;
        (end, now.max(end - self.burst * self.window))
    }

    /// The time until an instant, rounded up.
    fn until(&self, now: i128, due: i128) -> Duration {
        Duration::from_micros(((due - now + self.max - 1) / self.max) as u64)
    }
}

/// What happens at a bucket.
#[derive(Clone, Debug)]
enum Event {
    Advance(u64),
    Wait {
        cost: u64,
        at_most: u64,
    },
    Check(u64),
    /// One of the waits that are not due is dropped.
    GiveUp(prop::sample::Index),
    /// The process of one of them crashes.
    Crash(prop::sample::Index),
    /// One of the checks is refunded.
    Refund(prop::sample::Index),
}

/// Units, window in microseconds, burst.
const BUCKETS: [(u64, u64, u64); 6] = [
    (1, 1_000_000, 1),
    (10, 1_000_000, 3),
    (3, 1_000_000, 2),
    (7, 60_000_000, 5),
    (1_000_000, 1_000_000, 1),
    (3, 1_000, 2),
];

fn events() -> impl Strategy<Value = ((u64, u64, u64), Vec<Event>)> {
    prop::sample::select(&BUCKETS[..]).prop_flat_map(|(max, window_us, burst)| {
        // Times of the size of a unit.
        let unit = window_us / max + 1;
        let time = || prop_oneof![2 => Just(0), 1 => Just(1), 6 => 0..unit * 2, 1 => 0..unit * 20];
        let event = prop_oneof![
            4 => time().prop_map(Event::Advance),
            6 => (1..=burst, time()).prop_map(move |(cost, at_most)| Event::Wait { cost, at_most: at_most * 3 }),
            2 => (1..=burst).prop_map(Event::Check),
            3 => any::<prop::sample::Index>().prop_map(Event::GiveUp),
            1 => any::<prop::sample::Index>().prop_map(Event::Crash),
            1 => any::<prop::sample::Index>().prop_map(Event::Refund),
        ];
        (Just((max, window_us, burst)), prop::collection::vec(event, 1..40))
    })
}

/// A turn that was taken.
struct Turn<'a> {
    due: i128,
    end: i128,
    cost: u64,
    due_after: Duration,
    /// `None` after a crash.
    future: Option<Wait<'a>>,
}

/// Plays events on a store and on the exact bucket, and replays what has started through the plain bucket.
fn play(store: &Timed, policy: &Policy, caller: &str, events: &[Event]) -> (usize, usize) {
    let mut model = Exact::new(policy);
    let mut micros = MIDNIGHT.as_micros();
    store.set(micros);
    // Every turn that is not given up, and starts of checks.
    let (mut turns, mut starts): (Vec<Turn<'_>>, Vec<(i128, u64)>) = (Vec::new(), Vec::new());
    let mut reservations: Vec<Reservation<'static>> = Vec::new();
    let (mut latest, mut given_up) = (0, 0);
    for event in events {
        let now = i128::from(micros) * model.max;
        // Those whose turn is not within a microsecond of now.
        let is_ahead = |turn: &Turn<'_>| turn.future.is_some() && turn.due >= now + model.max;
        let ahead: Vec<usize> = (0..turns.len()).filter(|&i| is_ahead(&turns[i])).collect();
        match event {
            Event::Advance(by) => {
                micros += by;
                store.set(micros);
            }
            Event::Check(cost) => {
                let (end, due) = model.ask(now, *cost);
                let group = [Check::new(policy, caller).with_cost(*cost)];
                let outcome = store.check_all(&group);
                assert_eq!(outcome.is_allowed(), due == now, "a check of {cost}");
                if due > now {
                    assert_eq!(outcome.retry_after(), Some(model.until(now, due)));
                    continue;
                }
                assert!(due >= latest, "a check overtakes");
                (model.tat, latest) = (end, due);
                starts.push((due, *cost));
                reservations.extend(outcome.reservation(&group).map(Reservation::into_owned));
            }
            Event::Wait { cost, at_most } => {
                let (end, due) = model.ask(now, *cost);
                let due_after = model.until(now, due);
                let at_most = Duration::from_micros(*at_most);
                let mut future = wait(store, policy, caller, *cost, at_most);
                let outcome = decided(store, &mut future, policy, caller);
                if due_after > at_most {
                    let denied = outcome.unwrap();
                    assert_eq!((denied.is_allowed(), denied.retry_after()), (false, Some(due_after)));
                    continue;
                }
                assert_eq!(outcome.is_some(), due == now, "due in {due_after:?}");
                assert!(due >= latest, "a turn before one that was taken earlier");
                (model.tat, latest) = (end, due);
                if due == now {
                    starts.push((due, *cost));
                } else {
                    turns.push(Turn { due, end, cost: *cost, due_after, future: Some(future) });
                }
            }
            Event::GiveUp(index) if !ahead.is_empty() => {
                let turn = turns.remove(*index.get(&ahead));
                give_up(store, turn.future.unwrap(), policy, caller);
                given_up += 1;
                if model.tat == turn.end {
                    model.tat -= i128::from(turn.cost) * model.window;
                    let last =
                        turns.iter().map(|turn| turn.due).chain(starts.iter().map(|start| start.0)).max();
                    latest = last.unwrap_or(0);
                }
            }
            Event::Crash(index) if !ahead.is_empty() => {
                std::mem::forget(turns[*index.get(&ahead)].future.take());
            }
            Event::Refund(index) if !turns.is_empty() && !reservations.is_empty() => {
                // Without effect, because turns were taken.
                let reservation = reservations.remove(index.index(reservations.len()));
                store.refund(reservation.clone());
            }
            Event::GiveUp(_) | Event::Crash(_) | Event::Refund(_) => {}
        }
    }
    let waited = turns.len();
    store.advance(3 * MAX_WAIT);
    for Turn { due, cost, due_after, future, .. } in turns {
        if let Some(future) = future {
            let outcome = future.now_or_never().expect("every turn comes").unwrap();
            assert_eq!((outcome.is_allowed(), outcome.due_after()), (true, due_after));
            starts.push((due, cost));
        }
    }
    replay(policy, starts);
    (waited, given_up)
}

/// Replays starts in their order through the plain bucket, in exact arithmetic, and through the crate's own where instants are
/// whole microseconds.
fn replay(policy: &Policy, mut starts: Vec<(i128, u64)>) {
    starts.sort_unstable();
    let (mut bucket, mut state) = (Exact::new(policy), State::new(policy));
    for &(at, cost) in &starts {
        let (end, due) = bucket.ask(at, cost);
        assert_eq!(due, at, "a start that the bucket denies: {starts:?}");
        bucket.tat = end;
        if bucket.window % bucket.max == 0 {
            let at = Timestamp::from_micros((at / bucket.max) as u64);
            assert!(state.decide(policy, cost, at, Operation::Check).is_allowed(), "{starts:?}");
        }
    }
}

fn starts_pass_the_plain_bucket(store: &Timed, cases: u32) {
    learn_scripts(store);
    let number = std::cell::Cell::new(0);
    let (waits, given_up) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let played = runner.run(&events(), |((max, window_us, burst), events)| {
        number.set(number.get() + 1);
        let policy = bucket(max, Duration::from_micros(window_us), burst).build();
        let (waited, gave_up) = play(store, &policy, &number.get().to_string(), &events);
        waits.set(waits.get() + waited);
        given_up.set(given_up.get() + gave_up);
        Ok(())
    });
    played.unwrap();
    let text = format!("{cases} cases: {} turns ahead, {} given up", waits.get(), given_up.get());
    tests::timed::report(&text);
    assert!(waits.get() > cases as usize / 4 && given_up.get() > cases as usize / 8, "{text}");
}

#[test]
fn starts_pass_the_plain_bucket_in_memory() {
    starts_pass_the_plain_bucket(&tests::timed::memory(), strategies::cases("WAIT_CASES", 2_000));
}

#[test]
fn starts_pass_the_plain_bucket_in_redis() {
    let Some(store) = tests::timed::redis() else { return };
    starts_pass_the_plain_bucket(&store, strategies::cases("WAIT_CASES", 2_000) / 20);
}
