//! Slots of concurrency limits: what several processes share, what is stored, and when slots are free again.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::clock::FakeClock;
use ratelimit_core::conformance::Reference;
use ratelimit_core::{
    Algorithm, Check, Decision, GroupOutcome, Mode, OnError, Policy, RateLimiter, SettleError, Slots,
    StoreError,
};
use redis::AsyncCommands;
use tests::clock_at_start;
use tests::redis::{Server, server};

use super::only_key;

static TWO: Policy =
    Policy::builder("slots").algorithm(Algorithm::Concurrency).max(2).on_error(OnError::Deny).build();
static BUCKET: Policy = Policy::builder("bucket")
    .algorithm(Algorithm::TokenBucket)
    .max(5)
    .window(Duration::from_secs(1))
    .on_error(OnError::Deny)
    .build();

/// The entries that are stored for a caller: until when each counts, and how many slots it stands for.
fn entries(stored: &[u8]) -> Vec<(u64, u64)> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    assert_eq!((stored[0], stored.len()), (b'n', 3 + 23 * usize::try_from(number(&stored[1..3])).unwrap()));
    let entry = |entry: &[u8]| {
        let (granted, freed) = (number(&entry[13..18]), number(&entry[18..23]));
        (number(&entry[..7]), granted - freed)
    };
    stored[3..].chunks(23).map(entry).collect()
}

/// Slots that the server counts as held under a key; those of a key that is gone are none.
async fn held_at(server: &Server, pattern: &str) -> u64 {
    let mut connection = server.raw().await;
    let keys: Vec<String> = connection.keys(pattern).await.unwrap();
    let mut held = 0;
    for key in keys {
        let stored: Option<Vec<u8>> = connection.get(key).await.unwrap();
        held += stored.map_or(0, |stored| entries(&stored).iter().map(|entry| entry.1).sum::<u64>());
    }
    held
}

/// Waits until the server counts so many slots as held: a freed slot is told in the background.
async fn until_held(server: &Server, pattern: &str, expected: u64) {
    for _ in 0..5_000 {
        if held_at(server, pattern).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(held_at(server, pattern).await, expected, "slots held under {pattern}");
}

#[tokio::test]
async fn processes_share_the_slots_of_a_caller() {
    let Some(server) = server() else { return };
    let [one, other] = [(); 2].map(|()| server.limiter());
    let first = one.acquire(&TWO, "a").await.unwrap().unwrap();
    let second = other.acquire(&TWO, "a").await.unwrap().unwrap();
    for limiter in [&one, &other] {
        let busy = limiter.acquire(&TWO, "a").await.unwrap().unwrap_err();
        assert!(busy.is_busy() && busy.decision() == Decision::Busy && busy.retry_after().is_none());
        assert!(limiter.peek(&TWO, "a").await.unwrap().is_busy());
        assert!(limiter.acquire(&TWO, "b").await.unwrap().is_ok(), "another caller");
    }
    let key = "rl1:slots:n:*";
    until_held(&server, key, 2).await;
    drop(first);
    until_held(&server, key, 1).await;
    let third = other.acquire(&TWO, "a").await.unwrap();
    assert!(third.is_ok() && one.acquire(&TWO, "a").await.unwrap().is_err());
    drop((second, third));
    until_held(&server, key, 0).await;
}

/// A denial is never cached, so the freed slot is seen at once.
#[tokio::test]
async fn a_freed_slot_is_taken_by_the_next_request_of_the_same_process_at_once() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let one = Policy::concurrency("one", 1);
    for _ in 0..50 {
        let slot = limiter.acquire(&one, "a").await.unwrap().unwrap();
        assert!(limiter.acquire(&one, "a").await.unwrap().is_err());
        drop(slot);
    }
    assert!(limiter.acquire(&one, "a").await.unwrap().is_ok());
}

#[tokio::test]
async fn a_request_whose_future_is_dropped_holds_no_slot() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    drop(limiter.acquire(&TWO, "a").await.unwrap().unwrap());
    for _ in 0..20 {
        // Sent, and dropped before the reply.
        assert!(limiter.acquire(&TWO, "a").now_or_never().is_none());
    }
    until_held(&server, "*", 0).await;
    assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_check_of_one_limit_takes_no_slot() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    for _ in 0..5 {
        assert!(limiter.check(&TWO, "a").await.unwrap().is_allowed());
        until_held(&server, "*", 0).await;
    }
}

#[tokio::test]
async fn slots_are_neither_refunded_nor_settled_nor_charged_up_to_a_number() {
    let Some(server) = server() else { return };
    for limiter in
        [server.limiter(), RateLimiter::in_memory(), RateLimiter::new(Reference::new(&clock_at_start()))]
    {
        let group = [Check::new(&TWO, "a")];
        let outcome = limiter.check_all(&group).await.unwrap();
        let reservation = outcome.reservation(&group).unwrap();
        limiter.refund(reservation.clone()).await.unwrap();
        assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 1, "still held");
        let settled = limiter.settle(reservation, 0).await;
        assert!(matches!(settled, Err(SettleError::ConcurrencyLimit { limit }) if limit == "slots"));
        let up_to = limiter.check_up_to(&TWO, "a", 5).await;
        assert!(matches!(up_to, Err(StoreError::ConcurrencyLimit { limit, .. }) if limit == "slots"));
        drop(outcome);
        assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 2);
    }
}

#[tokio::test]
async fn a_reset_frees_what_does_not_run_and_tells_again_what_does() {
    let Some(server) = server() else { return };
    let (one, other) = (server.limiter(), server.limiter());
    let slot = one.acquire(&TWO, "a").await.unwrap().unwrap();
    let leaked = one.acquire(&TWO, "a").await.unwrap().unwrap();
    one.reset(&TWO, "a").await.unwrap();
    until_held(&server, "*", 2).await;
    // Another process resets: this one tells again with its next message.
    other.reset(&TWO, "a").await.unwrap();
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 2);
    assert!(one.acquire(&TWO, "a").await.unwrap().is_err(), "of the process that holds both");
    drop((slot, leaked));
    until_held(&server, "*", 0).await;
}

/// What happens to a guard that is forgotten is documented: its slot stays taken while the process runs.
#[tokio::test]
async fn a_process_that_is_gone_holds_its_slots_for_ten_seconds() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let [one, other] = [(); 2].map(|()| server.limiter_at(&clock));
    std::mem::forget(one.acquire(&TWO, "a").await.unwrap().unwrap());
    // Ends the thread that renews.
    drop(one);
    clock.advance(Duration::from_micros(9_999_999));
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 1);
    clock.advance(Duration::from_micros(1));
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn what_runs_is_renewed_every_three_seconds() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let limiter = server.limiter_at(&clock);
    let slot = limiter.acquire(&TWO, "a").await.unwrap().unwrap();
    let key = only_key(&server).await;
    let stored =
        async || -> Vec<(u64, u64)> { entries(&server.raw().await.get::<_, Vec<u8>>(&key).await.unwrap()) };
    let first = stored().await[0].0;
    assert_eq!(first, tests::START + 10_000_000);
    clock.advance(Duration::from_micros(2_999_999));
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(stored().await, [(first, 1)], "too early");
    clock.advance(Duration::from_micros(1));
    let renewed = first + 3_000_000;
    for _ in 0..5_000 {
        if stored().await == [(renewed, 1)] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(stored().await, [(renewed, 1)]);
    drop(slot);
}

/// The clock of the server goes back: dead slots end within 10 s of then.
#[tokio::test]
async fn entries_from_the_future_are_cut() {
    let Some(server) = server() else { return };
    let clock = clock_at_start();
    let [one, other] = [(); 2].map(|()| server.limiter_at(&clock));
    std::mem::forget(one.acquire(&TWO, "a").await.unwrap().unwrap());
    drop(one);
    clock.set(ratelimit_core::Timestamp::from_micros(tests::START - 3_600_000_000));
    drop(other.acquire(&TWO, "a").await.unwrap().unwrap());
    clock.advance(Duration::from_secs(10));
    assert_eq!(other.peek(&TWO, "a").await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_corrupt_state_of_slots_fails_its_caller_and_ends_by_itself() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let slot = limiter.acquire(&TWO, "a").await.unwrap().unwrap();
    let key = only_key(&server).await;
    let good: Vec<u8> = server.raw().await.get(&key).await.unwrap();
    let mut freed_more_than_granted = good.clone();
    freed_more_than_granted[3 + 18..].copy_from_slice(&[255; 5]);
    for bad in [
        &b"n"[..],
        b"n\0",
        b"n\x01\0",
        &good[..25],
        &[&good[..], b"x"].concat(),
        b"f",
        &freed_more_than_granted,
    ] {
        let _: () = server.raw().await.set(&key, bad).await.unwrap();
        let error = limiter.acquire(&TWO, "a").await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptState { .. }), "{bad:?}: {error}");
        let lives: i64 = server.raw().await.pttl(&key).await.unwrap();
        assert!((1..=11_000).contains(&lives), "{bad:?}: {lives}");
        assert!(limiter.acquire(&TWO, "b").await.unwrap().is_ok());
    }
    let _: () = server.raw().await.del(&key).await.unwrap();
    assert_eq!(limiter.peek(&TWO, "a").await.unwrap().remaining(), 1, "what runs is told again");
    drop(slot);
}

#[tokio::test]
async fn a_shadow_limit_of_slots_counts_and_denies_nothing() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let shadow =
        Policy::builder("shadow").algorithm(Algorithm::Concurrency).max(1).mode(Mode::Shadow).build();
    for alone in [true, false] {
        let (caller, rate) = (alone.to_string(), Policy::new("rate", 100, Duration::from_secs(60)));
        let group = [Check::new(&shadow, &caller), Check::new(&rate, &caller)];
        let group = if alone { &group[..1] } else { &group[..] };
        let holds = limiter.check_all(group).await.unwrap();
        let spared = limiter.check_all(group).await.unwrap();
        assert!(spared.is_allowed() && spared.outcomes()[0].would_deny() && !spared.is_busy());
        until_held(&server, "rl1:shadow:n.shadow:*", 1).await;
        drop(spared);
        assert!(limiter.peek_all(group).await.unwrap().outcomes()[0].would_deny());
        drop(holds);
        until_held(&server, "rl1:shadow:n.shadow:*", 0).await;
    }
}

/// A leased rate in the group keeps its lease, and the slot is taken all the same.
#[tokio::test]
async fn slots_stand_beside_a_limit_with_a_lease() {
    let Some(server) = server() else { return };
    let limiter = server.limiter();
    let leased = Policy::builder("leased").max(100_000).lease(Duration::from_millis(100)).build();
    let wide = Policy::concurrency("wide", 40);
    let group = [Check::new(&wide, "a"), Check::new(&leased, "a")];
    let mut held: Vec<Slots> = Vec::new();
    for round in 0..400u64 {
        let mut outcome = limiter.check_all(&group).await.unwrap();
        assert!(outcome.is_allowed(), "{round}");
        let slots = outcome.take_slots();
        assert!(!slots.is_empty(), "{round}: the outcome holds its slot");
        held.push(slots);
        if held.len() == 40 {
            let busy = limiter.check_all(&group).await.unwrap();
            assert!(busy.is_busy());
            held.clear();
        }
    }
    held.clear();
    until_held(&server, "rl1:wide:n:*", 0).await;
}

#[derive(Clone, Debug)]
enum Event {
    /// Requests of a process that come at once: of slots, and of slots and a bucket.
    Ask(usize, Vec<(u64, bool)>),
    Peek(usize, bool),
    /// A request ends.
    End(Index),
    /// Milliseconds.
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let request = (prop_oneof![1 => Just(0u64), 6 => Just(1), 2 => Just(2), 1 => Just(9)], any::<bool>());
    prop_oneof![
        4 => (0usize..3, prop::collection::vec(request, 1..4)).prop_map(|(process, requests)| Event::Ask(process, requests)),
        1 => (0usize..3, any::<bool>()).prop_map(|(process, with_bucket)| Event::Peek(process, with_bucket)),
        4 => any::<Index>().prop_map(Event::End),
        2 => (0u64..200).prop_map(Event::Wait),
    ]
}

/// I7, and script against model: three processes decide about slots and buckets, alone and in batches, what the specification
/// decides in one count, and the server counts as held what runs.
#[test]
fn random_requests_of_three_processes_are_decided_as_the_model_decides_them() {
    let Some(server) = server() else { return };
    let clock = FakeClock::default();
    let processes = [(); 3].map(|()| server.uncached_limiter_at(&clock));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A call whose script the server does not know would come behind the next one, and one that waits for the connection as well.
    runtime.block_on(async {
        let group = [Check::new(&TWO, "first"), Check::new(&BUCKET, "first")];
        for process in &processes {
            let _ = process.peek_all(&group).await.unwrap();
        }
        assert!(processes[0].check_all(&group).await.unwrap().is_allowed());
        assert!(processes[0].check_all(&group[..1]).await.unwrap().is_allowed());
    });
    let number = std::cell::Cell::new(0);
    let cases = tests::strategies::cases("SLOTS_CASES", 60);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let events = (1u64..5, prop::collection::vec(event(), 1..25));
    let run = runner.run(&events, |(max, events)| {
        number.set(number.get() + 1);
        clock.set(ratelimit_core::Timestamp::from_micros(tests::START));
        runtime.block_on(compare(&server, &processes, &clock, max, &events, number.get()));
        Ok(())
    });
    run.unwrap();
    println!("{cases} cases");
}

async fn compare(
    server: &Server,
    processes: &[RateLimiter; 3],
    clock: &FakeClock,
    max: u64,
    events: &[Event],
    number: u64,
) {
    let reference = RateLimiter::new(Reference::new(clock));
    let slots =
        Policy::builder("slots").algorithm(Algorithm::Concurrency).max(max).on_error(OnError::Deny).build();
    let slots = slots.with_key(format!("slots-{number}")).unwrap();
    let caller = format!("caller {number}");
    let group = |cost: u64, with_bucket: bool| -> Vec<Check<'_>> {
        let checks = [Check::new(&slots, &caller).with_cost(cost), Check::new(&BUCKET, &caller)];
        checks[..=usize::from(with_bucket)].to_vec()
    };
    let mut held: Vec<(GroupOutcome, GroupOutcome)> = Vec::new();
    let pattern = format!("rl1:slots-{number}:*");
    for event in events {
        match event {
            Event::Ask(process, requests) => {
                let groups: Vec<_> = requests.iter().map(|&(cost, bucket)| group(cost, bucket)).collect();
                let asked = groups.iter().map(|group| processes[*process].check_all(group));
                let outcomes = futures_util::future::join_all(asked).await;
                for (group, outcome) in groups.iter().zip(outcomes) {
                    let expected = reference.check_all(group).await.unwrap();
                    let outcome = outcome.unwrap();
                    assert_eq!(outcome, expected, "{group:?}");
                    held.push((outcome, expected));
                }
            }
            Event::Peek(process, bucket) => {
                let group = group(1, *bucket);
                let expected = reference.peek_all(&group).await.unwrap();
                assert_eq!(processes[*process].peek_all(&group).await.unwrap(), expected);
            }
            Event::End(which) if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
            Event::End(_) => {}
            Event::Wait(millis) => clock.advance(Duration::from_millis(*millis)),
        }
        let runs = max - reference.peek(&slots, &caller).await.unwrap().remaining();
        until_held(server, &pattern, runs).await;
    }
}

/// One message to the script: what it tells, and what it asks for. A cost of `None` is a peek.
#[derive(Clone, Debug)]
struct Message {
    process: usize,
    granted: u64,
    freed: u64,
    costs: Vec<Option<u64>>,
    /// By how much the clock moves before, in microseconds.
    step: i64,
}

fn message() -> impl Strategy<Value = Message> {
    let cost = prop_oneof![1 => Just(None), 2 => Just(Some(0)), 4 => Just(Some(1)), 1 => Just(Some(3))];
    let step = prop_oneof![
        4 => 0i64..1_000_000,
        2 => 0i64..6_000_000,
        1 => Just(10_000_000),
        1 => Just(9_999_999),
        1 => -20_000_000i64..0,
    ];
    (0usize..4, 0u64..6, 0u64..6, prop::collection::vec(cost, 1..3), step).prop_map(
        |(process, granted, freed, costs, step)| Message {
            process,
            granted,
            freed: freed.min(granted),
            costs,
            step,
        },
    )
}

/// The name by which the script of slots alone is called.
async fn script_of_slots(server: &Server) -> String {
    let mut monitor = tests::redis::Console::at(&server.url());
    monitor.must("MONITOR");
    drop(server.limiter().acquire(&TWO, "a").await.unwrap().unwrap());
    loop {
        let line = monitor.read();
        if let Some((_, call)) = line.split_once("\"EVALSHA\" \"")
            && call.contains(":n:{")
        {
            return call.split('"').next().unwrap().to_owned();
        }
    }
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Told numbers may come in any order, late, twice or never: the script keeps the largest of each process, also of a denied
/// message, and drops and cuts what the rule drops and cuts.
#[test]
fn the_script_keeps_what_each_process_told_as_the_rule_says() {
    const HOLD: i64 = 10_000_000;
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sha = runtime.block_on(script_of_slots(&server));
    let connection = std::cell::RefCell::new(runtime.block_on(server.raw()));
    let number = std::cell::Cell::new(0);
    let cases = tests::strategies::cases("SLOTS_CASES", 300);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let messages = (1u64..6, prop::collection::vec(message(), 1..25));
    let run = runner.run(&messages, |(max, messages)| {
        number.set(number.get() + 1);
        let key = format!("script {}", number.get());
        let mut now = i64::try_from(tests::START).unwrap();
        // For each process until when it counts, and what it told.
        let mut told: [Option<(i64, u64, u64)>; 4] = [None; 4];
        let mut before: Option<Vec<u8>> = None;
        for Message { process, granted, freed, costs, step } in messages {
            now += step;
            let mut expected = String::new();
            for cost in &costs {
                let mut live = told;
                let own = live[process].take();
                for entry in &mut live {
                    *entry = entry
                        .filter(|entry| entry.0 > now)
                        .map(|(till, granted, freed)| (till.min(now + HOLD), granted, freed));
                }
                let mut granted = own.map_or(granted, |own| own.1.max(granted));
                let freed = own.map_or(freed, |own| own.2.max(freed));
                let held: u64 = live.iter().flatten().map(|entry| entry.1 - entry.2).sum();
                let fits = held + granted - freed + cost.unwrap_or(1) <= max;
                expected.push(if fits { '1' } else { '0' });
                if cost.is_some() {
                    granted += if fits { cost.unwrap() } else { 0 };
                    live[process] = (granted > freed).then_some((now + HOLD, granted, freed));
                    told = live;
                }
            }
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let arguments = [
                doubles(&[now as f64, 1.0, 5.0, max as f64, HOLD as f64, 1.0, 1.0, -1.0]),
                costs
                    .iter()
                    .flat_map(|cost| {
                        doubles(&[
                            if cost.is_some() { 1.0 } else { -1.0 },
                            1.0,
                            1.0,
                            cost.unwrap_or(1) as f64,
                        ])
                    })
                    .collect(),
                doubles(&[0.0]),
                doubles(&[1_000.0 + process as f64, granted as f64, freed as f64]),
            ];
            let mut call = redis::cmd("EVALSHA");
            call.arg(&sha).arg(1).arg(&key).arg(&arguments[..]);
            let mut connection = connection.borrow_mut();
            let reply: Vec<u8> = runtime.block_on(call.query_async(&mut *connection)).unwrap();
            let (found, verdicts) = reply[8..].split_at(reply.len() - 8 - costs.len());
            prop_assert_eq!(std::str::from_utf8(verdicts).unwrap(), expected);
            prop_assert_eq!(found, before.as_deref().unwrap_or(b"."), "the state that was found");
            before = runtime.block_on(connection.get(&key)).unwrap();
            let mut found = before.as_deref().map_or(Vec::new(), entries);
            let mut kept: Vec<(u64, u64)> = told
                .iter()
                .flatten()
                .map(|(till, granted, freed)| (u64::try_from(*till).unwrap(), granted - freed))
                .collect();
            found.sort_unstable();
            kept.sort_unstable();
            prop_assert_eq!(found, kept);
        }
        Ok(())
    });
    run.unwrap();
    println!("{cases} cases");
}
