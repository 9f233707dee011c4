//! Masters that die or hang under load: how soon limits are shared again after the promotion, and how many
//! excess requests pass.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Check, GroupOutcome, OnError, Policy, RateLimiter, RedisStore};
use tests::cluster::{Cluster, cluster};
use tests::noise::Noise;
use tests::outage::{LONGEST, SLACK, millis};
use tests::proxy::Proxy;
use tests::redis::{Server, ask};
use tests::sentinel::{SERVICE, Sentinels, master_port, sentinels};
use tokio::task::JoinHandle;

use crate::topology::{ELECTED, MINUTE};

const SECOND: Duration = Duration::from_secs(1);

/// What a caller may do. Half of it is used when the fault comes.
const MAX: u64 = 400;

const fn policy(key: &'static str, on_error: OnError) -> Policy {
    let builder = Policy::builder(key).max(MAX).window(Duration::from_secs(3600)).on_error(on_error);
    builder.algorithm(Algorithm::SlidingWindowLog).build()
}

/// So many answers of the store one after another mean that it is back.
const STEADY: usize = 20;

static DENY: Policy = policy("deny", OnError::Deny);
static LOCAL: Policy = policy("local", OnError::Local);

/// One answer.
struct Answer {
    at: Instant,
    took: Duration,
    admitted: bool,
    /// By the store, and not in its place.
    decided: bool,
}

/// Every caller sends a hundred checks a second under each policy.
struct Load {
    ends: Arc<AtomicBool>,
    callers: Vec<(String, [JoinHandle<Vec<Answer>>; 2])>,
}

impl Load {
    fn start(limiter: &RateLimiter, callers: &[String]) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let task = |caller: &String, policy: &'static Policy| {
            let (limiter, caller, ends) = (limiter.clone(), caller.clone(), Arc::clone(&ends));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                let mut ticks = tokio::time::interval(Duration::from_millis(10));
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                while !ends.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let at = Instant::now();
                    let outcome = limiter.check_all(&[Check::new(policy, &caller)]).await;
                    answers.push(Answer {
                        at,
                        took: at.elapsed(),
                        admitted: outcome.as_ref().is_ok_and(GroupOutcome::is_allowed),
                        decided: outcome.is_ok_and(|outcome| !outcome.is_degraded()),
                    });
                }
                answers
            })
        };
        let callers =
            callers.iter().map(|caller| (caller.clone(), [task(caller, &DENY), task(caller, &LOCAL)]));
        Self { callers: callers.collect(), ends: Arc::clone(&ends) }
    }

    /// For each caller the answers under `deny` and `local`.
    async fn stop(self) -> Vec<(String, [Vec<Answer>; 2])> {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for (caller, [deny, local]) in self.callers {
            all.push((caller, [deny.await.unwrap(), local.await.unwrap()]));
        }
        all
    }
}

/// Waits for `promoted` on a thread of its own, and returns when it came true.
pub(super) async fn wait_until(promoted: impl Fn() -> bool + Send + 'static) -> Instant {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // A deadline for the servers, which vote anew when a busy machine makes them late. A sentinel that
        // was held up for two seconds does nothing for half a minute.
        assert!(tests::within(300 * SECOND, promoted), "the servers never came to that");
        let _ = sender.send(Instant::now());
    });
    receiver.await.unwrap()
}

/// Checks the answers of a run: those of callers of the lost master, and those of other callers.
fn assert_bounds(
    name: &str,
    lost: &[String],
    answers: &[(String, [Vec<Answer>; 2])],
    (fault, promoted): (Instant, Instant),
    noise: &Noise,
) {
    let count = |answers: &[Answer], what: fn(&Answer) -> bool| answers.iter().filter(|a| what(a)).count();
    let (mut back, mut slowest) = (Duration::ZERO, Duration::ZERO);
    let (mut most_deny, mut most_local, mut others_without) = (0, 0, 0);
    let (mut all, mut others, mut without_after) = (0, 0, 0);
    for (caller, policies) in answers {
        let is_lost = lost.contains(caller);
        for (answers, is_deny) in policies.iter().zip([true, false]) {
            all += answers.len();
            slowest = answers.iter().map(|answer| answer.took).chain([slowest]).max().unwrap();
            let admitted = count(answers, |answer| answer.admitted) as u64;
            // Back as soon as the store decides `STEADY` checks in a row; a single late reply is no outage.
            let after: Vec<&Answer> = answers.iter().filter(|answer| answer.at > promoted).collect();
            let start = after.windows(STEADY).position(|answers| answers.iter().all(|answer| answer.decided));
            let start = start.unwrap_or_else(|| panic!("{name}: {caller} is not back"));
            back = back.max(after[start].at - promoted);
            without_after += after[start..].iter().filter(|answer| !answer.decided).count();
            if !is_lost {
                others += answers.len();
                others_without += count(answers, |answer| !answer.decided);
            }
            // What the old master admitted last may not have reached the new one.
            let late = answers.iter().filter(|answer| {
                answer.admitted && answer.decided && answer.at < fault && fault - answer.at < SECOND / 4
            });
            let unheard = if is_lost { late.count() as u64 } else { 0 };
            if is_deny {
                most_deny = most_deny.max(admitted);
                assert!(admitted <= MAX + unheard, "{name}: {caller}: {admitted}, {unheard} unheard of");
            } else {
                most_local = most_local.max(admitted);
                assert!(admitted <= 2 * MAX + unheard, "{name}: {caller}: {admitted}, {unheard} unheard of");
            }
        }
    }
    println!(
        "{name}: promoted after {:.0} ms; back {:.0} ms after that; slowest answer {:.1} ms of {all}; most admitted of \
         {MAX}: {most_deny} (deny), {most_local} (local); of callers elsewhere {others_without} of {others} without the \
         store, and {without_after} of all after that (noise {:.1} ms)",
        millis(promoted - fault),
        millis(back),
        millis(slowest),
        millis(noise.worst())
    );
    assert!(back <= 2 * SECOND + noise.slack(), "{name}: back {back:?} after the promotion");
    assert!(slowest <= LONGEST + noise.slack(), "{name}: {slowest:?}");
    // A busy machine may delay some callers. A lost node delays all of its own callers and no others.
    assert!(without_after * 4 <= all, "{name}: {without_after} of {all} after it was back");
    assert!(others_without * 4 <= others, "{name}: {others_without} of {others} elsewhere");
}

/// `each` callers for each of the three masters.
async fn callers_of(cluster: &Cluster, each: usize) -> [Vec<String>; 3] {
    let mut found = [const { Vec::new() }; 3];
    let store = RedisStore::builder(&cluster.url()).deadline(10 * SECOND).prefix("where");
    let limiter = RateLimiter::new(store.build().unwrap());
    for i in 0.. {
        let caller = format!("caller-{i}");
        let sizes = || [0, 1, 2].map(|node: usize| cluster.nodes[node].query("DBSIZE"));
        let before = sizes();
        assert!(limiter.check(&DENY, &caller).await.unwrap().is_allowed());
        let after = sizes();
        let node = (0..3).find(|&node| before[node] != after[node]).unwrap();
        if found[node].len() < each {
            found[node].push(caller);
        }
        if found.iter().all(|callers| callers.len() == each) {
            break;
        }
    }
    found
}

/// Under load, the first master dies or hangs; the load goes on until `after` has passed since the promotion.
async fn lose_a_primary(name: &str, fail: impl FnOnce(&mut Server), recover: impl FnOnce(&mut Server)) {
    let Some(mut cluster) = cluster(true).await else { return };
    for node in &cluster.nodes {
        // Otherwise all nodes refuse until the lost one is replaced.
        node.must("CONFIG SET cluster-require-full-coverage no");
    }
    let callers = callers_of(&cluster, 4).await;
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    let end = Instant::now() + 20 * SECOND;
    for caller in callers.iter().flatten() {
        while limiter.peek(&DENY, caller).await.is_err() {
            assert!(Instant::now() < end, "never connected");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let noise = Noise::watch();
    let load = Load::start(&limiter, &callers.concat());
    tokio::time::sleep(2 * SECOND).await;
    let replica = cluster.nodes[3].port();
    fail(&mut cluster.nodes[0]);
    let fault = Instant::now();
    let promoted = wait_until(move || serves_as_master(replica)).await;
    tokio::time::sleep(3 * SECOND).await;
    recover(&mut cluster.nodes[0]);
    tokio::time::sleep(SECOND).await;
    assert_bounds(name, &callers[0], &load.stop().await, (fault, promoted), &noise);
}

/// Whether the node at `port` is a master, in a cluster that serves.
pub(super) fn serves_as_master(port: u16) -> bool {
    let line = |command, place: usize| ask(port, command, place + 1).map(|mut lines| lines.remove(place));
    line("ROLE", 2).as_deref() == Some("master")
        && line("CLUSTER INFO", 1).as_deref() == Some("cluster_state:ok")
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_soon_after_a_primary_was_killed_under_load() {
    lose_a_primary("cluster, primary killed", Server::kill, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_soon_after_a_primary_hung_under_load() {
    lose_a_primary("cluster, primary hung", |node| node.signal("STOP"), |node| node.signal("CONT")).await;
}

/// Under load, the master that three sentinels watch dies or hangs.
async fn lose_a_master(name: &str, fail: impl FnOnce(&mut Sentinels), recover: impl FnOnce(&mut Sentinels)) {
    let Some(mut set_up) = sentinels().await else { return };
    let limiter = RateLimiter::redis(&set_up.url()).unwrap();
    let end = Instant::now() + 20 * SECOND;
    while limiter.peek(&DENY, "a").await.is_err() {
        assert!(Instant::now() < end, "never connected");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let noise = Noise::watch();
    let callers = ["a", "b", "c", "d"].map(str::to_owned);
    let load = Load::start(&limiter, &callers);
    tokio::time::sleep(2 * SECOND).await;
    let (watcher, first) = (set_up.watcher(2), set_up.master.port());
    fail(&mut set_up);
    let fault = Instant::now();
    let promoted = wait_until(move || master_port(watcher).is_some_and(|port| port != first)).await;
    tokio::time::sleep(3 * SECOND).await;
    recover(&mut set_up);
    tokio::time::sleep(SECOND).await;
    assert_bounds(name, &callers, &load.stop().await, (fault, promoted), &noise);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_soon_after_a_master_was_killed_under_load() {
    lose_a_master("Sentinel, master killed", |set_up| set_up.master.kill(), |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_soon_after_a_master_hung_under_load() {
    let stop = |set_up: &mut Sentinels| set_up.master.signal("STOP");
    lose_a_master("Sentinel, master hung", stop, |set_up| set_up.master.signal("CONT")).await;
}

/// Sends until the limiter decides by the store again.
async fn until_decided(limiter: &RateLimiter, limit: Duration) -> (Duration, Duration) {
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    loop {
        let sent = Instant::now();
        let decided = limiter.check(&MINUTE, "a").await.is_ok();
        slowest = slowest.max(sent.elapsed());
        if decided {
            return (slowest, began.elapsed());
        }
        assert!(began.elapsed() < limit, "not back after {limit:?}; slowest answer {slowest:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a server answers, printed for debugging; nothing while it changes its role and cuts its connections.
async fn query(server: &Server, command: &redis::Cmd) -> String {
    let client = redis::Client::open(server.url()).unwrap();
    let Ok(mut wire) = client.get_multiplexed_async_connection().await else { return String::new() };
    let answer: redis::RedisResult<redis::Value> = command.query_async(&mut wire).await;
    answer.map(|answer| format!("{answer:?}")).unwrap_or_default()
}

#[tokio::test]
async fn the_new_master_is_found_when_roles_are_changed_by_command() {
    let Some(set_up) = sentinels().await else { return };
    let limiter = RateLimiter::redis(&set_up.url()).unwrap();
    until_decided(&limiter, Duration::from_secs(10)).await;
    let first = set_up.url();
    let port: u16 =
        first.trim_start_matches("redis-sentinel://127.0.0.1:").split(',').next().unwrap().parse().unwrap();
    let client = redis::Client::open(("127.0.0.1", port)).unwrap();
    let mut sentinel = client.get_multiplexed_async_connection().await.unwrap();
    let mut failover = redis::cmd("SENTINEL");
    failover.arg("FAILOVER").arg(SERVICE);
    let _: () = failover.query_async(&mut sentinel).await.unwrap();
    // What is decided from now on is written at the new master.
    let end = Instant::now() + ELECTED;
    let mut again = Instant::now() + Duration::from_secs(15);
    loop {
        let _ = limiter.check(&MINUTE, "b").await;
        let keys = query(&set_up.replica, redis::cmd("KEYS").arg("*minute*")).await;
        let roles = (
            query(&set_up.replica, &redis::cmd("ROLE")).await,
            query(&set_up.master, &redis::cmd("ROLE")).await,
        );
        if keys.contains("minute") && roles.0.contains("master") && roles.1.contains("slave") {
            break;
        }
        assert!(Instant::now() < end, "{keys} {roles:?}");
        if Instant::now() > again && roles.0.contains("slave") {
            // A sentinel of a busy machine gives a failover up.
            again += Duration::from_secs(15);
            let _: redis::RedisResult<()> = failover.query_async(&mut sentinel).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(until_decided(&limiter, Duration::from_secs(10)).await.0 <= LONGEST + SLACK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_sentinel_does_not_delay_failover() {
    let fail = |set_up: &mut Sentinels| {
        // The one that clients contact first. The two others are a majority.
        set_up.signal(0, "STOP");
        set_up.master.kill();
    };
    lose_a_master("Sentinel, master killed and a sentinel hung", fail, |set_up| set_up.signal(0, "CONT"))
        .await;
}

/// What a sentinel says of its master, and of itself: whether it takes the master for down, and whether it is
/// in its TILT mode.
fn is_down_and_tilted(sentinel: u16) -> Option<(bool, bool)> {
    // The flags are behind name, address, port and identity, each with its length.
    let master = ask(sentinel, &format!("SENTINEL MASTER {SERVICE}"), 21)?;
    let state = ask(sentinel, "INFO sentinel", 4)?;
    Some((master[20].contains("s_down"), state[3] == "sentinel_tilt:1"))
}

/// Sentinels that were held up for two seconds judge no node for half a minute, and a master that they took
/// for down stays so.
#[tokio::test]
async fn a_master_is_found_that_sentinels_in_tilt_take_for_down() {
    let Some(set_up) = sentinels().await else { return };
    let all = [0, 1, 2].map(|sentinel| set_up.watcher(sentinel));
    let are_all = move |wanted: fn((bool, bool)) -> bool| {
        all.iter().all(|sentinel| is_down_and_tilted(*sentinel).is_some_and(wanted))
    };
    // First the replica, so that there is none to take over.
    set_up.replica.signal("STOP");
    let replicas = format!("SENTINEL REPLICAS {SERVICE}");
    let is_down = move |sentinel| {
        ask(sentinel, &replicas, 22).is_some_and(|answer| answer.iter().any(|line| line.contains("s_down")))
    };
    wait_until(move || all.iter().all(|sentinel| is_down(*sentinel))).await;
    set_up.master.signal("STOP");
    wait_until(move || are_all(|(is_down, _)| is_down)).await;
    (0..3).for_each(|sentinel| set_up.signal(sentinel, "STOP"));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let tilted = Instant::now();
    (0..3).for_each(|sentinel| set_up.signal(sentinel, "CONT"));
    wait_until(move || are_all(|said| said == (true, true))).await;
    set_up.master.signal("CONT");
    // A busy machine may take its time, but not the half minute.
    let store = RedisStore::builder(&set_up.url()).deadline(5 * SECOND).connect_timeout(5 * SECOND);
    let limiter = RateLimiter::new(store.build().unwrap());
    while let Err(error) = limiter.peek(&DENY, "a").await {
        assert!(tilted.elapsed() < 25 * SECOND, "never connected: {error:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(tilted.elapsed() < 30 * SECOND, "the sentinels judge again, so any store finds the master");
}

/// The proxy stands for a name whose address changes: the only one that the limiter knows.
#[tokio::test]
async fn a_cluster_is_found_under_a_name_that_leads_to_another_node() {
    let Some(mut cluster) = cluster(true).await else { return };
    let name = Proxy::before(cluster.nodes[0].port());
    let url = format!("redis-cluster://127.0.0.1:{}", name.port());
    let limiter = RateLimiter::redis(&url).unwrap();
    let decided = async |limit: Duration| {
        let since = Instant::now();
        loop {
            let mut all = true;
            for caller in 0..30u32 {
                all &= limiter.check(&DENY, caller.to_le_bytes()).await.is_ok();
            }
            if all {
                return since.elapsed();
            }
            assert!(since.elapsed() < limit, "not found again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    decided(20 * SECOND).await;
    name.retarget(cluster.nodes[1].port());
    let noise = Noise::watch();
    cluster.nodes[0].kill();
    let replica = cluster.nodes[3].port();
    wait_until(move || serves_as_master(replica)).await;
    let back = decided(20 * SECOND).await;
    println!("cluster under another address: back {back:?} after the promotion");
    assert!(back <= 5 * SECOND + noise.slack(), "{back:?}");
}

/// A node that the limiter has never heard of takes over a slot under load, gives it back, and leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_and_leaves_causes_no_error_and_no_lost_count() {
    static HOT: Policy = Policy::builder("hot")
        .max(1_000_000_000)
        .window(Duration::from_secs(366 * 86_400))
        .algorithm(Algorithm::FixedWindow)
        .on_error(OnError::Deny)
        .build();
    let Some(mut cluster) = cluster(false).await else { return };
    let store = RedisStore::builder(&cluster.url()).deadline(20 * SECOND).connect_timeout(20 * SECOND);
    let limiter = RateLimiter::new(store.build().unwrap());
    assert!(limiter.check(&HOT, "a").await.unwrap().is_allowed());
    cluster.add_node().await;
    let (home, key) = cluster.place_of("*hot*").await;
    let done = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|_| {
            let (limiter, done) = (limiter.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut admitted = 0;
                while !done.load(Ordering::Relaxed) {
                    admitted += u64::from(limiter.check(&HOT, "a").await.unwrap().is_allowed());
                }
                admitted
            })
        })
        .collect();
    for (from, to) in [(home, 3), (3, home)] {
        cluster.move_slot_of(&key, from, to, Duration::from_millis(200)).await;
    }
    let gone: String =
        redis::cmd("CLUSTER").arg("MYID").query_async(&mut cluster.nodes[3].raw().await).await.unwrap();
    for node in &cluster.nodes[..3] {
        node.must(&format!("CLUSTER FORGET {gone}"));
    }
    done.store(true, Ordering::Relaxed);
    let mut admitted = 1;
    for task in load {
        admitted += task.await.unwrap();
    }
    let counted = HOT.max() - limiter.peek(&HOT, "a").await.unwrap().remaining();
    println!("a node joined and left: {admitted} admitted, {counted} counted");
    assert!(admitted > 100, "hardly any check was sent while the slot moved");
    assert_eq!(admitted, counted);
}
