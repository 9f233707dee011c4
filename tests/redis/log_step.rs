//! A log is decided by its step where that is enough, and by its tree otherwise: both make the same of the
//! same requests.

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_core::clock::FakeClock;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, Reservation, StoreError, Timestamp};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tests::START;
use tests::random::Random;
use tests::redis::{Server, server};

/// Longer than the hour that every key lives under a test's clock.
const WINDOW: u64 = 100 * 3_600_000_000;

/// Longer than the five bytes of an entry hold.
const LONG_WINDOW: u64 = 4 * WINDOW;

/// Policy keys of the two logs. A request about the first is decided by the step if that is enough; a request
/// about the second names its limit twice, which only the tree decides.
const STEP: &str = "step";
const TREE: &str = "tree";

/// The policies of the two logs.
fn policies(max: u64, window: u64) -> [Policy; 2] {
    [STEP, TREE].map(|key| {
        Policy::builder(key)
            .algorithm(Algorithm::SlidingWindowLog)
            .max(max)
            .window(Duration::from_micros(window))
            .on_error(OnError::Deny)
            .build()
    })
}

/// Two logs with the same requests.
struct Twins {
    clock: FakeClock,
    now: u64,
    limiter: RateLimiter,
    raw: MultiplexedConnection,
}

impl Twins {
    async fn new(server: &Server) -> Self {
        let clock = FakeClock::at(Timestamp::from_micros(START));
        let limiter = server.uncached_limiter_at(&clock);
        let mut raw = server.raw().await;
        let _: () = redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        Self { clock, now: START, limiter, raw }
    }

    fn go(&mut self, now: u64) {
        self.now = now;
        self.clock.set(Timestamp::from_micros(now));
    }

    /// The keys of both logs, or none.
    async fn keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = self.raw.keys("rl1:*").await.unwrap();
        keys.sort_unstable();
        let of = [STEP, TREE].map(|policy_key| format!("rl1:{policy_key}:"));
        assert!(
            keys.is_empty() || keys.len() == 2 && keys.iter().zip(&of).all(|(key, of)| key.starts_with(of))
        );
        keys
    }

    /// The fields of both logs, which are the same, and for how many minutes both live.
    async fn compare(&mut self, case: &str) -> (BTreeMap<String, Vec<u8>>, i64) {
        let [by_step, by_tree] = &self.keys().await[..] else { return Default::default() };
        let mut pipe = redis::pipe();
        pipe.hgetall(by_step).pttl(by_step).hgetall(by_tree).pttl(by_tree);
        let (by_step, step_lives, by_tree, tree_lives): (_, i64, _, i64) =
            pipe.query_async(&mut self.raw).await.unwrap();
        let minutes = |lives: i64| (lives + 30_000) / 60_000;
        let by_step = (by_step, minutes(step_lives));
        assert_eq!(by_step, (by_tree, minutes(tree_lives)), "{case}");
        by_step
    }

    /// Checks a cost in both ways, and compares what clients learn and what is stored then. Returns what was
    /// taken.
    async fn check<'p>(
        &mut self,
        [by_step, by_tree]: &'p [Policy; 2],
        cost: u64,
        case: &str,
    ) -> Result<Option<[Reservation<'p>; 2]>, StoreError> {
        let once = [Check::new(by_step, "a").with_cost(cost)];
        let twice = [cost, 0].map(|cost| Check::new(by_tree, "a").with_cost(cost));
        let answers = (self.limiter.check_all(&once).await, self.limiter.check_all(&twice).await);
        let case = format!("{case}, cost {cost} at {}", self.now);
        self.compare(&case).await;
        match answers {
            (Ok(by_step), Ok(by_tree)) => {
                assert_eq!(by_step.outcomes()[0], by_tree.outcomes()[0], "{case}");
                let taken = by_step.reservation(&once).zip(by_tree.reservation(&twice));
                Ok(taken.map(|(by_step, by_tree)| [by_step, by_tree]))
            }
            (Err(error @ StoreError::CorruptState { .. }), Err(StoreError::CorruptState { .. })) => {
                Err(error)
            }
            answers => panic!("{case}: {answers:?}"),
        }
    }

    async fn refund(&mut self, taken: [Reservation<'_>; 2], case: &str) {
        for reservation in taken {
            self.limiter.refund(reservation).await.unwrap();
        }
        self.compare(&format!("{case}, refund")).await;
    }
}

#[tokio::test]
async fn a_log_is_the_same_by_its_step_and_by_its_tree() {
    let Some(server) = server() else { return };
    // Logs of one node, of one that is just full, of a few, and of nodes above these; by the entries in a
    // window.
    for (max, entries, window) in [
        (1, 2, WINDOW),
        (5, 7, WINDOW),
        (60, 70, WINDOW),
        (61, 64, WINDOW),
        (62, 64, WINDOW),
        (62, 64, LONG_WINDOW),
        (150, 180, WINDOW),
        (2_100, 2_050, WINDOW),
        (1_000_000, 100, WINDOW),
    ] {
        let mut random = Random(max);
        let [usual, lowered] = [max, max.div_ceil(2)].map(|max| policies(max, window));
        let mut twins = Twins::new(&server).await;
        let (mut taken, mut instants) = (Vec::new(), vec![START]);
        for event in 0..entries.max(400) + entries {
            let case = format!("max {max}, event {event}");
            let (now, pause) = (twins.now, window / entries);
            twins.go(match random.below(80) {
                0 => now - random.below(2 * pause),
                1 => now - random.below(window / 2),
                2 => now + window - random.below(3 * pause).min(window),
                3 => now + window + random.below(2),
                // Some entry is exactly one window old, or no longer counts.
                4 => instants[instants.len().saturating_sub(5)] + window + random.below(2),
                5..8 => now,
                8..16 => now + 1 + random.below(5),
                _ => now + pause / 2 + random.below(pause),
            });
            instants.push(twins.now);
            let costs = [0, 2, 3, 9, 200, 255, 256, max / 2, max, max + 1];
            let cost = if random.below(12) == 0 { random.pick(&costs) } else { 1 };
            let policies = if random.below(15) == 0 { &lowered } else { &usual };
            taken.extend(twins.check(policies, cost, &case).await.unwrap());
            if random.below(20) == 0 && !taken.is_empty() {
                let last = taken.len() - 1;
                let which = random.pick(&[last, last - last.min(3), last / 2]);
                twins.refund(taken.remove(which), &case).await;
            }
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_log_is_noticed_by_its_step_as_by_its_tree() {
    let Some(server) = server() else { return };
    let mut random = Random(9);
    let (mut failed, mut decided) = (0, 0);
    // Logs of one node and of two, with entries of one unit and with wider ones. Only the tree adds up wide
    // entries of the last node of several: there it notices more.
    for (entries, widest, max) in [(1, 1, 9), (20, 1, 20), (61, 2, 90), (62, 1, 62), (95, 1, 95), (80, 2, 90)]
    {
        let policies = policies(max, WINDOW);
        let mut twins = Twins::new(&server).await;
        for entry in 0..entries {
            twins.go(twins.now + 1 + random.below(WINDOW / 100));
            let cost = if entry % 40 == 7 { widest } else { 1 };
            let _ = twins.check(&policies, cost, "before").await.unwrap();
        }
        let end = twins.now;
        let (original, lives) = twins.compare("before").await;
        let fields: Vec<_> = original.iter().collect();
        let keys = twins.keys().await;
        for case in 0..600 {
            let (field, value) = fields[random.index(fields.len())];
            let tampered = tamper(value.clone(), &mut random);
            for key in &keys {
                let mut pipe = redis::pipe();
                pipe.del(key).hset_multiple(key, &fields);
                if tampered.is_empty() {
                    pipe.hdel(key, field);
                } else {
                    pipe.hset(key, field, &tampered);
                }
                let _: () = pipe.pexpire(key, lives * 60_000).query_async(&mut twins.raw).await.unwrap();
            }
            twins.go(end + random.pick(&[1, 1, WINDOW / 100, WINDOW / 2, WINDOW]));
            let case = format!("{entries} entries, case {case}: {field} is {tampered:?}");
            match twins.check(&policies, random.pick(&[1, 1, 1, 2]), &case).await {
                Ok(_) => decided += 1,
                Err(_) => failed += 1,
            }
        }
    }
    println!("{failed} of {} failed", failed + decided);
    assert!(failed > 400 && decided > 400, "{failed} failed, {decided} decided");
}

/// Makes a node another one: empty, shorter, longer, or with other bytes.
fn tamper(mut value: Vec<u8>, random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => value.clear(),
        1 => value.truncate(random.index(value.len())),
        2 => value.extend([random.pick(&[0, 1, 255]); 12]),
        3 => value.extend([0; 5]),
        _ => {
            for _ in 0..=random.below(3) {
                // The header is in the first bytes.
                let end = random.pick(&[8, 45, 400]);
                let at = random.index(value.len().min(end));
                value[at] = random.pick(&[0, 1, 2, 16, 61, 127, 255]);
            }
        }
    }
    value
}
