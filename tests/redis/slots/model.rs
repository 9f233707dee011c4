//! Random requests of several processes, against the model.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::clock::FakeClock;
use ratelimit_core::conformance::Reference;
use ratelimit_core::{Algorithm, Check, GroupOutcome, OnError, Policy, RateLimiter};
use tests::redis::{Server, server};

use super::{TWO, until_held};

static BUCKET: Policy = Policy::builder("bucket")
    .algorithm(Algorithm::TokenBucket)
    .max(5)
    .window(Duration::from_secs(1))
    .on_error(OnError::Deny)
    .build();

#[derive(Clone, Debug)]
enum Event {
    /// Requests of a process that come at once, for slots and, if the flag is set, a bucket.
    Request(usize, Vec<(u64, bool)>),
    Peek(usize, bool),
    /// A request ends.
    End(Index),
    /// Time passes, in milliseconds.
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let request = (prop_oneof![1 => Just(0u64), 6 => Just(1), 2 => Just(2), 1 => Just(9)], any::<bool>());
    prop_oneof![
        4 => (0usize..3, prop::collection::vec(request, 1..4)).prop_map(|(process, requests)| Event::Request(process, requests)),
        1 => (0usize..3, any::<bool>()).prop_map(|(process, with_bucket)| Event::Peek(process, with_bucket)),
        4 => any::<Index>().prop_map(Event::End),
        2 => (0u64..200).prop_map(Event::Wait),
    ]
}

/// Three processes decide about slots and buckets, alone and in batches, as the specification decides in one
/// count. The server counts the slots of running requests as held.
#[test]
fn random_requests_of_three_processes_are_decided_as_the_model_decides_them() {
    let Some(server) = server() else { return };
    let clock = FakeClock::default();
    let processes = [(); 3].map(|()| server.uncached_limiter_at(&clock));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Loads the scripts. Without it, the next call would overtake a call whose script has to be loaded.
    runtime.block_on(async {
        let group = [Check::new(&TWO, "first"), Check::new(&BUCKET, "first")];
        assert!(processes[0].check_all(&group).await.unwrap().is_allowed());
        assert!(processes[0].check_all(&group[..1]).await.unwrap().is_allowed());
    });
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let events = (1u64..5, prop::collection::vec(event(), 1..25));
    let run = runner.run(&events, |(max, events)| {
        number.set(number.get() + 1);
        clock.set(ratelimit_core::Timestamp::from_micros(tests::START));
        runtime.block_on(compare(&server, &processes, &clock, max, &events, number.get()));
        Ok(())
    });
    run.unwrap();
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
            Event::Request(process, requests) => {
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
