//! Random values at the keys of the limiter: requests in one batch are decided like single requests and leave
//! the same state, and every failure is a foreign value, reported to its own caller only.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Check, GroupOutcome, OnError, Policy, RateLimiter, StoreError, Timestamp};
use redis::aio::MultiplexedConnection;
use tests::START;
use tests::strategies::{self, step_back, step_forward};

const CASES: u32 = 300;

fn policy() -> impl Strategy<Value = Policy> {
    let max = prop_oneof![3 => 1u64..8, 2 => 1u64..200, 1 => 999_999_999_000u64..=1_000_000_000_000];
    let window = prop_oneof![Just(2_520u64), Just(60_480_000), Just(31_622_400_000_000)];
    let sub_windows = prop_oneof![Just(1u64), 2u64..=10, Just(60)];
    let numbers = (strategies::algorithm(), max, window, sub_windows, any::<bool>());
    numbers.prop_map(|(algorithm, max, window, sub_windows, blocks)| {
        let plain = Policy::builder("k")
            .algorithm(algorithm)
            .max(max)
            .window(Duration::from_micros(window))
            .on_error(OnError::Deny);
        let builder = if blocks { plain.block(Duration::from_micros(window)) } else { plain };
        // An error if the algorithm has no sub-windows.
        builder.sub_windows(sub_windows).try_build().unwrap_or_else(|_| builder.build())
    })
}

/// What another program does to a key.
#[derive(Clone, Debug)]
enum Tamper {
    /// Some bytes of a string, or of a field of a hash, are others.
    Bytes(usize, Vec<u8>),
    Append(Vec<u8>),
    Set(Vec<u8>),
    Hash,
    List(Vec<Vec<u8>>),
    Pop,
}

fn tamper() -> impl Strategy<Value = Tamper> {
    let some = || prop::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        6 => (0usize..28, prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 1..6))
            .prop_map(|(at, bytes)| Tamper::Bytes(at, bytes)),
        1 => some().prop_map(Tamper::Append),
        1 => prop_oneof![Just(Vec::new()), Just(b".".to_vec()), Just(b"!".to_vec()), some()].prop_map(Tamper::Set),
        1 => block().prop_map(Tamper::Set),
        1 => debt().prop_map(Tamper::Set),
        1 => Just(Tamper::Hash),
        1 => prop::collection::vec(some(), 1..3).prop_map(Tamper::List),
        1 => Just(Tamper::Pop),
    ]
}

/// A block that ends around the present, or in the far future, or that is too short or too long.
fn block() -> impl Strategy<Value = Vec<u8>> {
    let until = prop_oneof![3 => (-2_000_000i64..100_000_000).prop_map(|by| START.saturating_add_signed(by)), 1 => any::<u64>()];
    let size = prop_oneof![4 => Just(8usize), 1 => 1usize..8, 1 => Just(9)];
    (until, size).prop_map(|(until, size)| [b"b", &until.to_le_bytes()[..]].concat()[..size].to_vec())
}

/// A bucket that may be in debt, settled around the present or in the far future, or that is too short or too
/// long.
fn debt() -> impl Strategy<Value = Vec<u8>> {
    let around = || (-2_000_000i64..100_000_000).prop_map(|by| START.saturating_add_signed(by));
    let at = prop_oneof![6 => around(), 1 => any::<u64>()];
    let size = prop_oneof![5 => Just(20usize), 1 => 14usize..22];
    (around(), 0u64..3, at, size).prop_map(|(tat, fraction, at, size)| {
        let numbers = [&tat.to_le_bytes()[..7], &fraction.to_le_bytes()[..5], &at.to_le_bytes()[..7], b"xx"];
        [b"d", &numbers.concat()[..]].concat()[..size].to_vec()
    })
}

/// For each limit of a request: which policy, which caller, which cost; and whether it only looks.
type Request = (Vec<(usize, usize, u64)>, bool);

#[derive(Clone, Debug)]
struct Rush {
    /// By which the clock moves, in percent of the window of the first policy, and microseconds more.
    step: (i64, i64),
    /// Which key, and what is done to it before.
    tampers: Vec<(usize, Tamper)>,
    requests: Vec<Request>,
}

fn rush(policies: usize) -> impl Strategy<Value = Rush> {
    let step = prop_oneof![15 => step_forward(), 2 => step_back(), 1 => Just(100_000)];
    let cost = prop_oneof![8 => Just(1u64), 4 => 0u64..6, 1 => 999_999_999_990u64..=1_000_000_000_001, 1 => Just(u64::MAX)];
    let limit = || (0..policies, 0usize..4, cost.clone());
    let group = prop_oneof![
        4 => prop::collection::vec(limit(), 1..=1),
        1 => prop::collection::vec(limit(), 0..=3),
    ];
    let peek = prop_oneof![7 => Just(false), 1 => Just(true)];
    let requests = prop::collection::vec((group, peek), 1..24);
    let tampers = prop::collection::vec((0usize..8, tamper()), 0..3);
    ((step, -2i64..3), tampers, requests).prop_map(|(step, tampers, requests)| Rush {
        step,
        tampers,
        requests,
    })
}

fn history() -> impl Strategy<Value = (Vec<Policy>, Vec<Rush>)> {
    prop::collection::vec(policy(), 1..=3).prop_flat_map(|policies| {
        let rushes = prop::collection::vec(rush(policies.len()), 2..6);
        (Just(policies), rushes)
    })
}

/// Keys without the prefix, in order.
async fn keys(raw: &mut MultiplexedConnection, prefix: &str) -> Vec<String> {
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}1:k:*")).query_async(raw).await.unwrap();
    let mut keys: Vec<String> = keys.into_iter().map(|key| key[prefix.len()..].to_owned()).collect();
    keys.sort();
    keys
}

/// Tampers with a key. What shows only while it is used, and therefore earlier to one call about many
/// requests than to a call about one, is left as it is unless `everything` is to be tried.
async fn apply(raw: &mut MultiplexedConnection, key: &str, tamper: &Tamper, everything: bool) {
    let mut pipe = redis::pipe();
    let kind: String = redis::cmd("TYPE").arg(key).query_async(raw).await.unwrap();
    match (tamper, kind.as_str()) {
        (Tamper::Bytes(at, bytes), "string") => {
            let size: usize = redis::cmd("STRLEN").arg(key).query_async(raw).await.unwrap();
            // Behind them are counts of sub-windows, which the script reads only where it needs them.
            let size = if everything { size } else { size.min(18) };
            let at = at % size.max(1);
            pipe.cmd("SETRANGE").arg(key).arg(at).arg(&bytes[..bytes.len().min(size - at)]);
        }
        (Tamper::Bytes(at, bytes), "hash") if everything => {
            let mut fields: Vec<(Vec<u8>, Vec<u8>)> =
                redis::cmd("HGETALL").arg(key).query_async(raw).await.unwrap();
            fields.sort();
            let (field, mut value) = fields.swap_remove(bytes.len() % fields.len());
            for (old, new) in value.iter_mut().skip(at * 2).zip(bytes) {
                *old = *new;
            }
            pipe.hset(key, field, value);
        }
        (Tamper::Append(bytes), "string") => {
            pipe.cmd("APPEND").arg(key).arg(&bytes[..]);
        }
        (Tamper::Append(bytes), "hash") if everything => {
            let header: Vec<u8> =
                redis::cmd("HGET").arg(key).arg("h").query_async(raw).await.unwrap_or_default();
            pipe.hset(key, "h", [&header[..], bytes].concat());
        }
        (Tamper::Pop, "hash") => {
            pipe.hdel(key, "h").hset(key, "a", "b");
        }
        (Tamper::Set(bytes), _) => {
            pipe.cmd("SET").arg(key).arg(&bytes[..]);
        }
        (Tamper::Hash, _) => {
            pipe.del(key).hset(key, "a", "b");
        }
        (Tamper::List(entries), _) => {
            pipe.del(key).cmd("RPUSH").arg(key).arg(&entries[..]);
        }
        _ => return,
    }
    let _: () = pipe.query_async(raw).await.unwrap();
}

/// What is at all keys with a prefix, and whether it expires.
async fn contents(raw: &mut MultiplexedConnection, prefix: &str) -> BTreeMap<String, (bool, Vec<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    for key in keys(raw, prefix).await {
        let name = format!("{prefix}{key}");
        let kind: String = redis::cmd("TYPE").arg(&name).query_async(raw).await.unwrap();
        let bytes: Vec<Vec<u8>> = match kind.as_str() {
            "string" => vec![redis::cmd("GET").arg(&name).query_async(raw).await.unwrap()],
            "hash" => {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> =
                    redis::cmd("HGETALL").arg(&name).query_async(raw).await.unwrap();
                fields.into_iter().flat_map(|(field, value)| [field, value]).collect()
            }
            _ => vec![kind.into_bytes()],
        };
        let ttl: i64 = redis::cmd("PTTL").arg(&name).query_async(raw).await.unwrap();
        found.insert(key, (ttl > 0, bytes));
    }
    found
}

type Answer = Result<GroupOutcome, StoreError>;

async fn check_or_peek(limiter: &RateLimiter, group: &[Check<'_>], peek: bool) -> Answer {
    if peek { limiter.peek_all(group).await } else { limiter.check_all(group).await }
}

/// What a client sees of an answer.
fn outcome_or_policy(answer: &Answer) -> Result<&GroupOutcome, String> {
    match answer {
        Ok(outcome) => Ok(outcome),
        Err(error @ StoreError::CorruptState { .. }) => Err(error.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

async fn compare_batches(
    together: &RateLimiter,
    alone: &RateLimiter,
    raw: &mut MultiplexedConnection,
    clock: &FakeClock,
    (policies, rushes): (&[Policy], &[Rush]),
    everything: bool,
) -> (usize, usize) {
    let _: () = redis::cmd("FLUSHALL").query_async(raw).await.unwrap();
    let callers = ["a", "b", "c", "d"];
    let (mut now, mut requests, mut errors) = (START, 0, 0);
    for rush in rushes {
        let window = i128::try_from(policies[0].window().as_micros()).unwrap();
        let step = window * i128::from(rush.step.0) / 100 + i128::from(rush.step.1);
        now = u64::try_from((i128::from(now) + step).clamp(1_000_000, 8_000_000_000_000_000)).unwrap();
        clock.set(Timestamp::from_micros(now));
        let known = keys(raw, "one").await;
        for (which, tamper) in &rush.tampers {
            if !known.is_empty() {
                for prefix in ["one", "each"] {
                    apply(raw, &format!("{prefix}{}", known[which % known.len()]), tamper, everything).await;
                }
            }
        }
        let groups: Vec<Vec<Check<'_>>> = rush
            .requests
            .iter()
            .map(|(group, _)| {
                let check = |&(policy, caller, cost): &(usize, usize, u64)| {
                    Check::new(&policies[policy], callers[caller]).with_cost(cost)
                };
                group.iter().map(check).collect()
            })
            .collect();
        let before = contents(raw, "each").await;
        let calls =
            groups.iter().zip(&rush.requests).map(|(group, (_, peek))| check_or_peek(together, group, *peek));
        let answers = join_all(calls).await;
        let mut singly = Vec::new();
        for (group, (_, peek)) in groups.iter().zip(&rush.requests) {
            singly.push(check_or_peek(alone, group, *peek).await);
        }
        for ((one, each), request) in answers.iter().zip(&singly).zip(&rush.requests) {
            requests += 1;
            errors += usize::from(each.is_err());
            let (one, each) = (outcome_or_policy(one), outcome_or_policy(each));
            assert!(everything || one == each, "{request:?} of {before:?}: {one:#?}, but alone {each:#?}");
        }
        let [one, each] = [contents(raw, "one").await, contents(raw, "each").await];
        assert!(everything || one == each, "after {before:?}: {one:?}, but alone {each:?}");
    }
    (requests, errors)
}

/// Compares random histories; `everything` tries what only has to fail well.
fn compare_histories(everything: bool) {
    let Some(server) = tests::redis::server() else { return };
    let clock = FakeClock::default();
    let limiter = |prefix| {
        let store =
            server.builder_at(&clock).prefix(prefix).denial_cache_ttl(Duration::ZERO).connections(1).build();
        RateLimiter::new(store.unwrap())
    };
    let (together, alone) = (limiter("one"), limiter("each"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(tests::redis::load_scripts(&together));
    let raw = std::cell::RefCell::new(runtime.block_on(server.raw()));
    let (requests, errors) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    runner
        .run(&history(), |(policies, rushes)| {
            let mut raw = raw.borrow_mut();
            let compared =
                compare_batches(&together, &alone, &mut raw, &clock, (&policies, &rushes), everything);
            let (sent, failed) = runtime.block_on(compared);
            requests.set(requests.get() + sent);
            errors.set(errors.get() + failed);
            Ok(())
        })
        .unwrap();
    println!("{} requests, {} about values that are not ours", requests.get(), errors.get());
    assert!(requests.get() > 2 * errors.get() && errors.get() > 0);
}

#[test]
fn a_batch_decides_as_single_calls_whatever_is_stored() {
    compare_histories(false);
}

#[test]
fn tampered_values_fail_only_as_foreign_values() {
    compare_histories(true);
}
