//! Sliding window logs of every length in Redis: they decide as the specification does, and no call does more
//! work for a long log than for a short one, whatever its cost.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::conformance::Reference;
use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{
    Algorithm, Check, MemoryStore, OnError, Policy, RateLimiter, Reservation, StoreError, Timestamp,
};
use redis::aio::MultiplexedConnection;
use tests::START;
use tests::random::Random;
use tests::redis::{Server, server};

/// Entries of a node, and nodes below one, as the script has them.
const ENTRIES: u64 = 61;
const FAN_OUT: u64 = 32;

const WINDOW: u64 = 3_600_000_000;

/// Microseconds between entries.
const STEP: u64 = 3;

fn log(key: &'static str, max: u64) -> Policy {
    Policy::builder(key)
        .algorithm(Algorithm::SlidingWindowLog)
        .max(max)
        .window(Duration::from_micros(WINDOW))
        .on_error(OnError::Deny)
        .build()
}

/// A log in Redis beside the specification.
struct Twins {
    clock: FakeClock,
    now: u64,
    redis: RateLimiter,
    model: RateLimiter,
}

impl Twins {
    fn new(server: &Server) -> Self {
        let clock = FakeClock::at(Timestamp::from_micros(START));
        Self {
            redis: server.uncached_limiter_at(&clock),
            model: RateLimiter::new(Reference::new(&clock)),
            clock,
            now: START,
        }
    }

    fn go(&mut self, now: u64) {
        self.now = now;
        self.clock.set(Timestamp::from_micros(now));
    }

    /// Checks requests at one instant, together by Redis and one after another by the specification.
    async fn check<'a>(&self, groups: &[Vec<Check<'a>>]) -> Vec<Reservation<'a>> {
        let answers = join_all(groups.iter().map(|group| self.redis.check_all(group))).await;
        let mut taken = Vec::new();
        for (group, answer) in groups.iter().zip(answers) {
            let expected = self.model.check_all(group).await.unwrap();
            assert_eq!(answer.unwrap(), expected, "{group:?} at {}", self.now);
            taken.extend(expected.reservation(group));
        }
        taken
    }

    /// Takes units at several instants.
    async fn grow<'a>(
        &mut self,
        policy: &'a Policy,
        entries: u64,
        random: &mut Random,
        taken: &mut Vec<Reservation<'a>>,
    ) {
        for _ in 0..entries {
            self.go(self.now + 1 + random.below(STEP));
            let cost =
                if policy.max() > 1_000_000 { random.pick(&[1, 1, 300, 70_000, 20_000_000]) } else { 1 };
            taken.extend(self.check(&[vec![Check::new(policy, "a").with_cost(cost)]]).await);
        }
    }

    async fn peek(&self, policy: &Policy, cost: u64) {
        let group = [Check::new(policy, "a").with_cost(cost)];
        let answer = self.redis.peek_all(&group).await.unwrap();
        assert_eq!(answer, self.model.peek_all(&group).await.unwrap(), "cost {cost} at {}", self.now);
    }

    async fn refund(&self, reservation: Reservation<'_>) {
        self.redis.refund(owned(&reservation)).await.unwrap();
        self.model.refund(reservation).await.unwrap();
    }
}

#[tokio::test]
async fn a_long_log_decides_as_the_model_after_random_operations() {
    let Some(server) = server() else { return };
    for (seed, entries, max) in
        [(1, 150, 200), (2, 900, 1_200), (3, 1_200, 1_000_000_000_000), (4, 2_500, 6_000)]
    {
        let mut random = Random(seed);
        let mut twins = Twins::new(&server);
        let (one, other) = (log("one", max), log("other", max / 2));
        let _: () = redis::cmd("FLUSHALL").query_async(&mut server.raw().await).await.unwrap();
        let mut taken: Vec<Reservation<'_>> = Vec::new();
        twins.grow(&one, entries, &mut random, &mut taken).await;
        for event in 0..400_u32 {
            let span = STEP * entries;
            match random.below(40) {
                0 => twins.go(twins.now - random.below(span / 10)),
                1 => twins.go(twins.now - random.below(span)),
                2 => twins.go(twins.now + WINDOW - random.below(span)),
                3..15 => {}
                _ => twins.go(twins.now + random.below(10)),
            }
            if random.below(100) == 0 {
                twins.grow(&one, entries.min(2_000), &mut random, &mut taken).await;
            }
            match random.below(10) {
                0..3 if !taken.is_empty() => {
                    let last = taken.len() - 1;
                    let which = random.pick(&[0, last, last - last.min(3), last / 2, last * 9 / 10]);
                    let reservation =
                        if random.below(3) == 0 { owned(&taken[which]) } else { taken.remove(which) };
                    twins.refund(reservation).await;
                }
                3 => twins.peek(&one, random.pick(&[0, 1, max / 2, max, max + 1])).await,
                4 if event % 7 == 0 => {
                    for limiter in [&twins.redis, &twins.model] {
                        limiter.reset(&other, "a").await.unwrap();
                    }
                }
                _ => {
                    let rush = random.pick(&[1, 1, 1, 3, 20]);
                    let groups: Vec<Vec<Check<'_>>> = (0..rush)
                        .map(|_| {
                            let cost = random.pick(&[1, 1, 1, 2, 0, 300, max / 3, max - 1, max, max + 1]);
                            let check = Check::new(&one, random.pick(&["a", "a", "a", "b"])).with_cost(cost);
                            if random.below(5) == 0 {
                                vec![check, Check::new(&other, "a").with_cost(random.below(3)), check]
                            } else {
                                vec![check]
                            }
                        })
                        .collect();
                    taken.extend(twins.check(&groups).await);
                }
            }
        }
    }
}

/// How often each command was called.
async fn commands(raw: &mut MultiplexedConnection) -> BTreeMap<String, u64> {
    let text: String = redis::cmd("INFO").arg("commandstats").query_async(raw).await.unwrap();
    let count = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

async fn only_key(raw: &mut MultiplexedConnection) -> String {
    let keys: Vec<String> = redis::cmd("KEYS").arg("rl1:*").query_async(raw).await.unwrap();
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().unwrap()
}

/// Admits units at instants of their own, the first a step after the start.
async fn fill(limiter: &RateLimiter, clock: &FakeClock, policy: &Policy, caller: &str, entries: u64) {
    for entry in 1..=entries {
        clock.set(Timestamp::from_micros(START + entry * STEP));
        assert!(limiter.check(policy, caller).await.unwrap().is_allowed());
    }
}

/// What happens to a log, and the most commands that a script may call for it, whatever the length of the
/// log.
const CASES: [(&str, u64); 9] = [
    ("admitted", 8),
    ("denied at cost 1", 4),
    ("denied at cost = max", 5),
    ("denied at half of max", 20),
    ("all but one expired", 8),
    ("all expired", 8),
    ("refund of the oldest", 12),
    ("refund of one in the middle", 20),
    ("the clock goes back to the middle", 24),
];

#[tokio::test]
async fn an_entry_costs_little_memory_and_a_call_the_same_work_in_long_and_short_logs() {
    let Some(server) = server() else { return };
    let mut raw = server.raw().await;
    // A few nodes below one other, some below others of these, and a level above.
    for entries in [100, 10_000, 100_000] {
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        let clock = FakeClock::at(Timestamp::from_micros(START));
        let limiter = server.uncached_limiter_at(&clock);
        let (full, roomy) = (log("k", entries), log("k", 1_000_000));
        fill(&limiter, &clock, &full, "a", entries).await;
        let key = only_key(&mut raw).await;
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(&key).arg("SAMPLES").arg(0);
        let usage: u64 = usage.query_async(&mut raw).await.unwrap();
        println!("{entries} entries: {usage} B");
        assert!(usage <= 9 * entries, "{usage} B for {entries} entries");
        let longest = async |raw: &mut MultiplexedConnection| -> u64 {
            let nodes: Vec<Vec<u8>> = redis::cmd("HVALS").arg(&key).query_async(raw).await.unwrap();
            nodes.iter().map(|node| node.len() as u64).max().unwrap()
        };
        let node = (29 + 8 + 5 * ENTRIES).max(12 * FAN_OUT);
        assert!(longest(&mut raw).await <= node);
        let _: () = redis::cmd("COPY").arg(&key).arg("original").query_async(&mut raw).await.unwrap();
        let at = |entry: u64| Timestamp::from_micros(START + entry * STEP);
        let taken_at = async |entry: u64| -> Reservation<'_> {
            clock.set(at(entry));
            let group = [Check::new(&full, "a")];
            let outcome = limiter.check_all(&group).await.unwrap();
            outcome.reservation(&group).unwrap()
        };
        for (case, most) in CASES {
            // A reservation as of the entry that was admitted at that instant, on an empty log.
            let _: () = redis::cmd("UNLINK").arg(&key).query_async(&mut raw).await.unwrap();
            let reservation = taken_at(if case.ends_with("oldest") { 1 } else { entries / 2 }).await;
            let copy = redis::cmd("COPY").arg("original").arg(&key).arg("REPLACE").to_owned();
            let _: () = copy.query_async(&mut raw).await.unwrap();
            let end = entries + 1;
            let life = |entry: u64| Timestamp::from_micros(START + entry * STEP + WINDOW);
            let (now, policy, cost) = match case {
                "admitted" => (at(end), &roomy, 1),
                "denied at cost 1" => (at(end), &full, 1),
                "denied at cost = max" => (at(end), &full, entries),
                "denied at half of max" => (at(end), &full, entries / 2),
                "all but one expired" => (life(entries), &full, 1),
                "all expired" => (life(end), &full, 1),
                "the clock goes back to the middle" => (at(entries / 2), &full, entries),
                _ => (at(end), &full, 0),
            };
            clock.set(now);
            let before = commands(&mut raw).await;
            if cost == 0 {
                limiter.refund(reservation).await.unwrap();
            } else {
                let outcome = limiter.check_n(policy, "a", cost).await.unwrap();
                assert_eq!(outcome.is_allowed(), cost == 1 && case != "denied at cost 1", "{case}");
            }
            let mut called = commands(&mut raw).await;
            called.retain(|command, calls| {
                *calls -= before.get(command).unwrap_or(&0);
                *calls > 0 && !["info", "evalsha", "eval", "client|setinfo"].contains(&&**command)
            });
            let total: u64 = called.values().sum();
            println!("{entries} entries, {case}: {called:?}");
            assert!(total <= most, "{entries} entries, {case}: {called:?}");
            // Each command is about one node, or about a few that one call adds or removes.
            for command in ["hset", "hdel", "unlink", "pexpire", "mget"] {
                assert!(
                    called.get(command).is_none_or(|calls| *calls == 1),
                    "{entries} entries, {case}: {called:?}"
                );
            }
            assert_eq!(called.contains_key("hset"), !case.starts_with("denied"), "{case}");
            let kept: Vec<String> = redis::cmd("HKEYS").arg(&key).query_async(&mut raw).await.unwrap();
            let all: Vec<String> = redis::cmd("HKEYS").arg("original").query_async(&mut raw).await.unwrap();
            // Garbage goes by and by, so that a call does not remove thousands of nodes.
            let gone = all.iter().filter(|field| !kept.contains(field)).count();
            assert!(gone <= 20 || case == "all expired", "{entries} entries, {case}: {gone} nodes");
        }
    }
}

#[tokio::test]
async fn expired_entries_are_removed_step_by_step() {
    let Some(server) = server() else { return };
    let mut raw = server.raw().await;
    let clock = FakeClock::at(Timestamp::from_micros(START));
    let limiter = server.uncached_limiter_at(&clock);
    let policy = log("k", 1_000_000);
    let entries = 4_000;
    fill(&limiter, &clock, &policy, "a", entries).await;
    let key = only_key(&mut raw).await;
    let nodes = async |raw: &mut MultiplexedConnection| -> u64 {
        redis::cmd("HLEN").arg(&key).query_async(raw).await.unwrap()
    };
    let mut before = nodes(&mut raw).await;
    assert!(before > entries / ENTRIES);
    // All but the newest have expired.
    for later in 0..20 {
        clock.set(Timestamp::from_micros(START + entries * STEP + WINDOW - 100 + later));
        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
        let now = nodes(&mut raw).await;
        assert!(now <= before && before - now <= 20, "{before} and then {now} nodes");
        before = now;
    }
    assert!(before <= 12, "{before} nodes");
    // Everything has.
    clock.advance(Duration::from_micros(WINDOW + 1));
    assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
    assert_eq!(nodes(&mut raw).await, 1);
    // And nothing is left of what is given back, however many requests that were.
    for _ in 0..10 {
        let mut taken = Vec::new();
        for _ in 0..200 {
            clock.advance(Duration::from_micros(1));
            let group = [Check::new(&policy, "a")];
            taken.push(limiter.check_all(&group).await.unwrap().reservation(&group).unwrap());
        }
        for reservation in taken {
            limiter.refund(reservation).await.unwrap();
        }
    }
    let left = nodes(&mut raw).await;
    assert!(left <= 20, "{left} nodes for one entry and 2000 that were given back");
    assert_eq!(limiter.peek(&policy, "a").await.unwrap().remaining(), policy.max() - 1);
}

#[tokio::test]
async fn a_damaged_log_fails_as_a_foreign_value_and_charges_nothing() {
    let Some(server) = server() else { return };
    let mut raw = server.raw().await;
    let clock = FakeClock::at(Timestamp::from_micros(START));
    let limiter = server.uncached_limiter_at(&clock);
    let entries = ENTRIES * FAN_OUT * 2 + 100;
    let (full, roomy) = (log("k", entries), log("k", 1_000_000));
    fill(&limiter, &clock, &full, "a", entries).await;
    let key = only_key(&mut raw).await;
    let _: () = redis::cmd("COPY").arg(&key).arg("original").query_async(&mut raw).await.unwrap();
    let mut fields: Vec<(String, Vec<u8>)> =
        redis::cmd("HGETALL").arg(&key).query_async(&mut raw).await.unwrap();
    fields.sort();
    let above = fields.iter().filter(|(field, _)| !field.starts_with('0')).count() as u64;
    let mut random = Random(7);
    let (mut failed, mut decided) = (0, 0);
    for case in 0..1_000 {
        let copy = redis::cmd("COPY").arg("original").arg(&key).arg("REPLACE").to_owned();
        let _: () = copy.query_async(&mut raw).await.unwrap();
        // The header and the few nodes above others as often as those of entries.
        let place = if random.below(2) == 0 {
            fields.len() as u64 - 1 - random.below(above)
        } else {
            random.below(fields.len() as u64)
        };
        let (field, mut value) = fields[usize::try_from(place).unwrap()].clone();
        match random.below(6) {
            0 => value = Vec::new(),
            1 => value.truncate(usize::try_from(random.below(value.len() as u64)).unwrap()),
            2 => value.extend([random.pick(&[0, 1, 255]); 12]),
            _ => {
                for _ in 0..=random.below(4) {
                    let at = usize::try_from(random.below(value.len().min(64) as u64)).unwrap();
                    value[at] = random.pick(&[0, 1, 2, 16, 61, 127, 255]);
                }
            }
        }
        if value.is_empty() {
            let _: () = redis::cmd("HDEL").arg(&key).arg(&field).query_async(&mut raw).await.unwrap();
        } else {
            let _: () =
                redis::cmd("HSET").arg(&key).arg(&field).arg(&value).query_async(&mut raw).await.unwrap();
        }
        let entry = |entry: u64| START + entry * STEP;
        let (now, policy, cost) = match random.below(8) {
            0 => (entry(entries + 1), &roomy, 1),
            1 => (entry(entries + 1), &full, 1),
            2 => (entry(entries + 1), &full, entries),
            3 => (entry(entries + 1), &full, random.below(entries)),
            4 => (entry(random.below(entries)) + WINDOW, &full, random.pick(&[1, entries, entries / 2])),
            5 => (entry(random.below(entries)), &full, random.pick(&[1, entries])),
            6 => (entry(entries), &roomy, 70_000),
            _ => (entry(entries + 1) + WINDOW, &full, 1),
        };
        let group = [Check::new(policy, "a").with_cost(cost)];
        let reservation = if random.below(4) == 0 {
            let at = entry(random.pick(&[1, ENTRIES, ENTRIES + 1, entries / 2, entries]));
            clock.set(Timestamp::from_micros(at));
            let elsewhere = RateLimiter::new(MemoryStore::new().with_clock(clock.clone()));
            elsewhere.check_all(&group).await.unwrap().reservation(&group)
        } else {
            None
        };
        clock.set(Timestamp::from_micros(now));
        let dump = async |raw: &mut MultiplexedConnection| -> BTreeMap<String, Vec<u8>> {
            redis::cmd("HGETALL").arg(&key).query_async(raw).await.unwrap()
        };
        let (before, called) = (dump(&mut raw).await, commands(&mut raw).await);
        let answer = match reservation {
            Some(reservation) => limiter.refund(reservation).await.map(|()| None),
            None => limiter.check_all(&group).await.map(Some),
        };
        let reads = commands(&mut raw).await["hget"] - called["hget"];
        assert!(reads <= 60, "{case}: {reads} nodes of {field}");
        match answer {
            Ok(_) => decided += 1,
            Err(StoreError::CorruptState { .. }) => {
                failed += 1;
                assert_eq!(dump(&mut raw).await, before, "{case}: {field} {value:?}");
            }
            Err(error) => panic!("{case}: {field} {value:?}: {error:?}"),
        }
    }
    println!("{failed} of {} failed", failed + decided);
    assert!(failed > 100 && decided > 100, "{failed} failed, {decided} decided");
}
