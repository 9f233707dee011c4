//! Sentinel and Cluster: real processes, one of which dies or hangs.
#![allow(clippy::unwrap_used, clippy::unnecessary_wraps, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::cell::OnceCell;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::App;
use actix_web::web::Data;
use ratelimit_actix::Quotas;
use ratelimit_core::clock::FakeClock;
use ratelimit_core::conformance::Fixture;
use ratelimit_core::policy::{Calendar, Weekday};
use ratelimit_core::{
    Algorithm, Check, OnError, Outcome, Policy, RateLimiter, RedisCredentials, RedisStore, StoreError,
    Timestamp,
};
use tests::cluster::{Cluster, cluster, cluster_behind_proxies};
use tests::demo::Demo;
use tests::noise::Noise;
use tests::outage::LONGEST;
use tests::proxy::Mode;
use tests::redis::{Console, Server, Topology};
use tests::sentinel::sentinels;
use tests::{answer, client};

/// Until servers have agreed on another master. A sentinel that was held up for 2 s, by a slow disk for
/// instance, waits for 30 s before it acts again.
pub(super) const ELECTED: Duration = Duration::from_secs(120);

pub(super) static MINUTE: Policy = Policy::builder("minute")
    .max(1_000_000)
    .window(Duration::from_secs(3600))
    .algorithm(Algorithm::FixedWindow)
    .on_error(OnError::Deny)
    .build();

/// A caller for each part of the slots, more or less.
fn callers() -> Vec<String> {
    (0..60).map(|i| format!("caller-{i}")).collect()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A store, and the servers that it needs.
struct OnCluster(RedisStore, #[allow(dead_code, reason = "kept alive")] Arc<Cluster>);

impl Fixture for OnCluster {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.0
    }
}

/// Each history of a test begins on the same cluster, without counts: it takes seconds to make one.
fn on_cluster(clock: &FakeClock) -> Option<OnCluster> {
    thread_local! {
        static OF_TEST: OnceCell<Option<Arc<Cluster>>> = const { OnceCell::new() };
    }
    let cluster = OF_TEST.with(|made| made.get_or_init(|| block_on(cluster(false)).map(Arc::new)).clone())?;
    for node in &cluster.nodes {
        // What the store before still sends is lost.
        node.kill_clients();
        node.must("FLUSHALL");
    }
    Some(OnCluster(cluster.store_at(clock), cluster))
}

mod cluster_store {
    ratelimit_core::conformance_suite! { store: super::on_cluster, block_on: super::block_on }
}

/// Asks for every caller until all are decided, and returns how long the slowest single answer took and how
/// long it took until all were decided.
async fn until_all_decide(limiter: &RateLimiter, limit: Duration) -> (Duration, Duration) {
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    loop {
        let mut all = true;
        for caller in callers() {
            let sent = Instant::now();
            all &= limiter.check(&MINUTE, &caller).await.is_ok();
            slowest = slowest.max(sent.elapsed());
        }
        if all {
            return (slowest, began.elapsed());
        }
        assert!(began.elapsed() < limit, "not back after {limit:?}; slowest answer {slowest:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether every caller gets a decision, a refund and a reset.
async fn works(limiter: &RateLimiter) {
    until_all_decide(limiter, 20 * LONGEST).await;
    for caller in callers() {
        let group = [Check::new(&MINUTE, &caller).with_cost(2)];
        let outcome = limiter.check_all(&group).await.unwrap();
        limiter.refund(outcome.reservation(&group).unwrap()).await.unwrap();
        limiter.reset(&MINUTE, &caller).await.unwrap();
    }
}

#[tokio::test]
async fn the_documented_user_is_enough_for_a_cluster() {
    let Some(cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        node.make_documented_user(Some(Topology::Cluster));
        // What follows a slot that moves.
        let mut console = node.console();
        console.must("AUTH limiter s3cret");
        console.must("ASKING");
    }
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://limiter:s3cret@");
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(10)).build().unwrap();
    works(&RateLimiter::new(store)).await;
}

#[tokio::test]
async fn the_documented_user_is_enough_behind_sentinel() {
    let Some(set_up) = sentinels().await else { return };
    for server in [&set_up.master, &set_up.replica] {
        server.make_documented_user(Some(Topology::Sentinel));
    }
    let url = set_up.url().replace("redis-sentinel://", "redis-sentinel://limiter:s3cret@");
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(10)).build().unwrap();
    works(&RateLimiter::new(store)).await;
    // Without what the documentation adds for Sentinel the master is not recognised.
    set_up.master.must("ACL SETUSER limiter -role");
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(1)).build().unwrap();
    assert!(RateLimiter::new(store).check(&MINUTE, "a").await.is_err());
}

#[tokio::test]
async fn sentinels_that_require_a_password_get_that_of_the_url() {
    let Some(set_up) = sentinels().await else { return };
    set_up.master.make_documented_user(Some(Topology::Sentinel));
    let mut consoles: Vec<Console> =
        (0..3).map(|i| Console::at(&format!("redis://127.0.0.1:{}/", set_up.watcher(i)))).collect();
    for console in &mut consoles {
        console.must("ACL SETUSER limiter on >s3cret allkeys +@all");
        console.must("ACL SETUSER default resetpass >other");
    }
    let url = |credentials: &str| {
        set_up.url().replace("redis-sentinel://", &format!("redis-sentinel://{credentials}"))
    };
    let limiter = |url: &str| {
        RateLimiter::new(RedisStore::builder(url).deadline(Duration::from_secs(10)).build().unwrap())
    };
    works(&limiter(&url("limiter:s3cret@"))).await;
    for (credentials, expected) in [
        ("limiter:wr0ng@", "its sentinel does not take the user or the password of the URL"),
        (":s3cret@", "its sentinel does not take the user or the password of the URL"),
        // The sentinels take it, and the server has no password.
        (
            ":other@",
            "it does not take the user or the password of the URL, or of the function for credentials",
        ),
        ("", "it requires a password; give one in the URL"),
    ] {
        let limiter = limiter(&url(credentials));
        let end = Instant::now() + Duration::from_secs(20);
        let found = loop {
            match limiter.check(&MINUTE, "a").await {
                Err(StoreError::Misconfigured { remedy, .. }) => break remedy,
                other => assert!(Instant::now() < end, "{credentials}: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(found, expected, "{credentials}");
    }
}

#[tokio::test]
async fn a_group_of_callers_on_several_nodes_is_charged_as_a_whole_or_not_at_all() {
    let Some(cluster) = cluster(false).await else { return };
    // Eleven callers are charged one after another: on a busy machine longer than the usual deadline.
    let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10));
    let limiter = RateLimiter::new(store.build().unwrap());
    until_all_decide(&limiter, Duration::from_secs(10)).await;
    for &algorithm in Algorithm::ALL {
        let wide =
            Policy::builder("wide").algorithm(algorithm).max(100).window(Duration::from_secs(3600)).build();
        let tight =
            Policy::builder("tight").algorithm(algorithm).max(1).window(Duration::from_secs(3600)).build();
        let callers = callers();
        let mut group: Vec<Check<'_>> =
            callers[..10].iter().map(|caller| Check::new(&wide, caller)).collect();
        group.push(Check::new(&tight, "one"));
        assert!(limiter.check_all(&group).await.unwrap().is_allowed());
        for _ in 0..3 {
            let denied = limiter.check_all(&group).await.unwrap();
            assert!(!denied.is_allowed(), "{algorithm}");
            assert_eq!(denied.outcomes().iter().filter(|outcome| !outcome.is_allowed()).count(), 1);
            assert!(denied.outcomes()[..10].iter().all(|outcome| outcome.remaining() == 99), "{algorithm}");
        }
        for caller in &callers[..10] {
            assert_eq!(limiter.peek(&wide, caller).await.unwrap().remaining(), 99, "{algorithm}");
        }
    }
}

#[tokio::test]
async fn a_group_of_callers_on_several_nodes_begins_the_block_of_each_that_exceeds() {
    let Some(cluster) = cluster(false).await else { return };
    // Several callers are charged one after another: on a busy machine longer than the usual deadline.
    let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10));
    let limiter = RateLimiter::new(store.build().unwrap());
    until_all_decide(&limiter, Duration::from_secs(10)).await;
    let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    for &algorithm in Algorithm::ALL {
        let blocks = Policy::builder("blocks").algorithm(algorithm).max(2).window(hour).block(day).build();
        let callers = callers();
        let check = |caller: usize| Check::new(&blocks, &callers[caller]);
        // The second and the fourth have nothing left.
        for caller in [1, 3] {
            assert!(limiter.check_n(&blocks, &callers[caller], 2).await.unwrap().is_allowed(), "{algorithm}");
        }
        let denied = limiter.check_all(&[0, 1, 2, 3].map(check)).await.unwrap();
        let waits = |outcomes: &[Outcome]| -> Vec<bool> {
            outcomes.iter().map(|one| one.retry_after().is_some_and(|wait| wait > 23 * hour)).collect()
        };
        assert_eq!(waits(denied.outcomes()), [false, true, false, true], "{algorithm}");
        let peeked = limiter.peek_all(&[0, 1, 2, 3].map(check)).await.unwrap();
        assert_eq!(waits(peeked.outcomes()), [false, true, false, true], "{algorithm}");
        let left = [0, 2].map(|i: usize| peeked.outcomes()[i].remaining());
        assert_eq!(left, [2, 2], "{algorithm}: charged and refunded, or not charged");
        for caller in &callers[..4] {
            limiter.reset(&blocks, caller).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_caller_that_was_charged_and_refunded_begins_no_block() {
    let Some(cluster) = cluster_behind_proxies().await else { return };
    let (second, hour, day) =
        (Duration::from_secs(1), Duration::from_secs(3600), Duration::from_secs(86_400));
    let store = RedisStore::builder(&cluster.url()).deadline(30 * second).ping_interval(hour);
    let limiter = RateLimiter::new(store.build().unwrap());
    until_all_decide(&limiter, 10 * second).await;
    // A caller of each node.
    let (any, mut callers_of) = (Policy::new("any", 100, hour), [const { String::new() }; 3]);
    for caller in callers() {
        let sizes = || cluster.nodes.iter().map(|node| node.query("DBSIZE")).collect::<Vec<_>>();
        let before = sizes();
        assert!(limiter.check(&any, &caller).await.unwrap().is_allowed());
        let node = before.iter().zip(&sizes()).position(|(before, after)| before != after).unwrap();
        callers_of[node] = caller;
    }
    let blocks = Policy::builder("blocks").algorithm(Algorithm::TokenBucket).max(2).window(hour);
    let blocks = blocks.block(day).build();
    let [first, exhausted, _] = callers_of;
    assert!(limiter.check_n(&blocks, &exhausted, 2).await.unwrap().is_allowed());
    let both = [Check::new(&blocks, &first).with_cost(2)];
    let taken = limiter.check_all(&both).await.unwrap();
    // Another process, which reaches the first node whatever its proxy does.
    let other = cluster.nodes[0].raw().await;
    let keys: Vec<String> = redis::cmd("KEYS").arg("*blocks*").query_async(&mut other.clone()).await.unwrap();
    let state = async || -> Option<Vec<u8>> {
        redis::cmd("GET").arg(&keys[0]).query_async(&mut other.clone()).await.unwrap()
    };
    let until_not = async |before: &Option<Vec<u8>>| {
        let end = Instant::now() + 30 * second;
        loop {
            let now = state().await;
            if now != *before {
                return now;
            }
            assert!(Instant::now() < end, "neither charged nor refunded");
            tokio::time::sleep(second / 100).await;
        }
    };
    let empty = state().await.unwrap();
    // From now on the node knows the script of refunds.
    limiter.refund(taken.reservation(&both).unwrap()).await.unwrap();
    let full = state().await;
    let calls = cluster.nodes[1].script_calls().await;
    cluster.proxies[1].set(Mode::Hold);
    let group = [Check::new(&blocks, &first), Check::new(&blocks, &exhausted)];
    let (denied, ()) = tokio::join!(limiter.check_all(&group), async {
        let end = Instant::now() + 30 * second;
        // Not before the answer to the charge has come, which must not be held.
        while cluster.nodes[1].script_calls().await == calls {
            assert!(Instant::now() < end, "the second caller is not asked about");
        }
        let charged = state().await;
        assert_ne!(charged, full);
        // The refund runs, but its answer is held.
        cluster.proxies[0].set(Mode::Hold);
        cluster.proxies[1].set(Mode::Pass);
        until_not(&charged).await;
        let set = redis::cmd("SET").arg(&keys[0]).arg(&empty).arg("PX").arg(3_600_000).to_owned();
        let _: () = set.query_async(&mut other.clone()).await.unwrap();
        cluster.proxies[0].set(Mode::Pass);
    });
    assert!(!denied.unwrap().is_allowed());
    let wait = async |caller: &String| limiter.peek(&blocks, caller).await.unwrap().retry_after().unwrap();
    assert!(wait(&exhausted).await > 23 * hour, "the block of the denied caller");
    assert!(wait(&first).await <= 2 * hour, "a block, although this request did not exceed the limit");
}

#[tokio::test]
async fn as_many_as_fit_are_charged_to_one_caller_at_a_time() {
    let Some(cluster) = cluster(false).await else { return };
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    until_all_decide(&limiter, Duration::from_secs(10)).await;
    // A limit that admits all in an outage: nothing decides in place of the store.
    let policy = Policy::builder("k").max(7).on_error(OnError::Allow).build();
    let callers = callers();
    let group = [&callers[0], &callers[1]].map(|caller| Check::new(&policy, caller));
    let error = limiter.check_up_to_all(&group, 5).await.unwrap_err();
    assert!(matches!(error, StoreError::SeveralCallers) && !error.is_transient(), "{error}");
    for (check, left) in group.iter().zip([2, 2]) {
        let (charged, outcome) = limiter.check_up_to_all(&[*check, *check], 5).await.unwrap();
        assert_eq!((charged, outcome.outcomes()[0].remaining()), (3, left - 1), "nothing was charged before");
    }
}

/// Ten units of an account, and four of its host.
#[ratelimit_actix::rate_limit(max = 10, window = "1h", by = header("x-account"), on_error = "deny")]
#[ratelimit_actix::rate_limit(max = 4, window = "1h", by = header("x-host"), on_error = "deny")]
#[actix_web::get("/charged")]
async fn charge_five(quotas: Quotas) -> String {
    let charged = quotas.charge_up_to(5).await.map_err(|error| error.to_string());
    let left: Vec<u64> = quotas.to_vec().iter().map(|quota| quota.outcome().remaining()).collect();
    format!("{charged:?} {left:?}")
}

#[actix_web::test]
async fn quotas_of_a_request_are_charged_for_each_caller() {
    let Some(cluster) = cluster(false).await else { return };
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    until_all_decide(&limiter, Duration::from_secs(10)).await;
    let app = App::new().app_data(Data::new(limiter)).service(charge_five);
    let app = actix_web::test::init_service(app).await;
    // The attribute charges one unit of each before.
    for (account, host, told) in [("a", "a", "Ok(3) [6, 0]"), ("b", "c", "Ok(3) [4, 0]")] {
        let request =
            answer::get("/charged").insert_header(("x-account", account)).insert_header(("x-host", host));
        let text = answer::send(&app, request).await.text();
        assert!(text.ends_with(told), "{account}, {host}: {text}");
    }
}

/// Each label admits `max`, by whichever clock and zone data a process chooses it.
#[tokio::test]
async fn processes_with_other_clocks_and_zone_data_admit_no_window_twice_in_a_cluster() {
    const HOUR: Duration = Duration::from_secs(3600);
    let Some(cluster) = cluster(false).await else { return };
    let start = Timestamp::from_micros(1_789_992_000_000_000); // 2026-09-21T12:00:00Z
    let process = |zone: &'static str, ahead: Duration| {
        let clock = FakeClock::at(start.saturating_add(ahead));
        let store =
            RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10)).clock(clock.clone());
        let limiter = RateLimiter::builder(store.build().unwrap()).clock(clock.clone()).build();
        let policy = |key, calendar: Calendar| {
            Policy::builder(key).calendar(calendar.in_zone(zone)).max(3).on_error(OnError::Deny).build()
        };
        (clock, limiter, [policy("day", Calendar::day()), policy("week", Calendar::week(Weekday::Tuesday))])
    };
    let processes = [process("Europe/Berlin", Duration::ZERO), process("Europe/London", HOUR)];
    for (_, limiter, _) in &processes {
        until_all_decide(limiter, Duration::from_secs(10)).await;
    }
    let callers = callers();
    let mut admitted = [0; 2];
    for _ in 0..4 * 48 {
        for (clock, limiter, policies) in &processes {
            for (policy, admitted) in policies.iter().zip(&mut admitted) {
                *admitted += u64::from(limiter.check(policy, &callers[0]).await.unwrap().is_allowed());
            }
            // Both counts of a caller are on one node, whatever their labels.
            let group = [Check::new(&policies[0], &callers[1]), Check::new(&policies[1], &callers[1])];
            let _ = limiter.check_up_to_all(&group, 1).await.unwrap();
            clock.advance(HOUR / 2);
        }
    }
    // Days from 21 to 25 September, and the weeks from the 15th and the 22nd.
    assert_eq!(admitted, [5 * 3, 2 * 3]);
}

#[tokio::test]
async fn a_lost_node_affects_only_its_own_callers() {
    let Some(mut cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        // Otherwise the whole cluster refuses as soon as it knows that a part is missing.
        node.must("CONFIG SET cluster-require-full-coverage no");
    }
    // Longer than an answer may take here, so that a busy machine fails no request of the other nodes.
    let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(2));
    let limiter = RateLimiter::new(store.build().unwrap());
    until_all_decide(&limiter, Duration::from_secs(10)).await;
    let noise = Noise::watch();
    cluster.nodes[2].kill();
    let (mut slowest, mut decided, mut checks) = (Duration::ZERO, 0, 0);
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        for caller in callers() {
            let began = Instant::now();
            decided += u32::from(limiter.check(&MINUTE, &caller).await.is_ok());
            slowest = slowest.max(began.elapsed());
            checks += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "lost node: {decided} of {checks} decided, slowest answer {slowest:?} (noise {:?})",
        noise.worst()
    );
    assert!(slowest <= LONGEST + noise.slack(), "{slowest:?}");
    // Two thirds have their counts on the two other nodes.
    assert!(decided > checks * 3 / 5, "{decided} of {checks}");
    cluster.nodes[2].restart();
    let (slowest, back) = until_all_decide(&limiter, ELECTED).await;
    println!("lost node is back: slowest answer {slowest:?}, all decided after {back:?}");
}

/// Slot ranges of the second and of the third node of a new cluster. Those between belong to two nodes.
const OF_SECOND: RangeInclusive<usize> = 22..=41;
const OF_THIRD: RangeInclusive<usize> = 43..=63;

#[tokio::test]
async fn a_master_that_hangs_does_not_take_the_cluster_down_while_credentials_are_slow() {
    let Some(cluster) = cluster_behind_proxies().await else { return };
    let second = Duration::from_secs(1);
    for node in &cluster.nodes {
        node.make_documented_user(Some(Topology::Cluster));
    }
    cluster.proxies[2].set(Mode::Hold);
    let store = RedisStore::builder(&cluster.url()).connect_timeout(second).credentials(move || {
        std::thread::sleep(second * 4 / 5);
        Ok(RedisCredentials::new("limiter", "s3cret"))
    });
    let limiter = RateLimiter::new(store.build().unwrap());
    let end = Instant::now() + 30 * second;
    loop {
        for caller in callers() {
            if limiter.check(&MINUTE, &caller).await.is_ok() {
                return;
            }
        }
        assert!(Instant::now() < end, "no part serves");
    }
}

#[tokio::test]
async fn a_part_that_hangs_stays_out_while_another_comes_back_and_then_comes_back_as_well() {
    let Some(cluster) = cluster_behind_proxies().await else { return };
    let limiter = RateLimiter::redis(&cluster.url()).unwrap();
    let open = |of: RangeInclusive<usize>| -> Vec<usize> {
        let ranges = limiter.store_status().connection.unwrap().open_slot_ranges;
        ranges.into_iter().filter(|range| of.contains(range)).collect()
    };
    until_all_decide(&limiter, ELECTED).await;
    for proxy in &cluster.proxies[1..] {
        proxy.set(Mode::Hold);
    }
    let end = Instant::now() + ELECTED;
    let mut waits = true;
    while waits {
        assert!(Instant::now() < end, "callers still wait for {:?}", open(0..=63));
        waits = false;
        for caller in callers() {
            waits |= matches!(limiter.check(&MINUTE, &caller).await, Err(StoreError::Timeout { .. }));
        }
    }
    let hung = open(OF_THIRD);
    assert!(!hung.is_empty() && !open(OF_SECOND).is_empty(), "{:?}", open(0..=63));
    // No requests meanwhile: only the supervisor finds out.
    cluster.proxies[1].set(Mode::Pass);
    while !open(OF_SECOND).is_empty() {
        assert!(Instant::now() < end, "{:?}", open(0..=63));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(open(OF_THIRD), hung, "no probe has run there");
    cluster.proxies[2].set(Mode::Pass);
    while !open(OF_THIRD).is_empty() {
        assert!(Instant::now() < end, "{:?}", open(0..=63));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until_all_decide(&limiter, ELECTED).await;
}

/// Calls of `CLUSTER SLOTS` that a node has seen.
fn slots_asked(node: &Server) -> u32 {
    let mut console = node.console();
    let size = console.query("INFO commandstats");
    let (mut left, mut calls) = (size[1..].trim().parse::<usize>().unwrap(), 0);
    while left > 0 {
        let line = console.read();
        left = left.saturating_sub(line.len() + 2);
        if let Some(rest) = line.strip_prefix("cmdstat_cluster|slots:calls=") {
            calls = rest.split(',').next().unwrap().parse().unwrap();
        }
    }
    calls
}

/// By the filter `info` of a service, whichever crate writes: one line of an outage, without an address, and
/// no flood of questions.
#[tokio::test]
async fn a_lost_node_is_one_line_in_the_log_and_few_questions_to_the_others() {
    const SECONDS: u32 = 10;
    let Some(mut cluster) = cluster(false).await else { return };
    for node in &cluster.nodes {
        node.must("CONFIG SET cluster-require-full-coverage no");
    }
    let log = tempfile::NamedTempFile::new().unwrap();
    let variables =
        [("REDIS_URL", cluster.url()), ("RUST_LOG", "info,actix_web=off,actix_server=off".to_owned())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let demo = Demo::start_logging_to(log.reopen().unwrap(), env!("CARGO_BIN_EXE_demo"), &variables);
    let ask_for_all_callers = || {
        for caller in callers() {
            client::get(demo.address, "/api/protected", &[&format!("x-api-key: {caller}")]);
        }
    };
    let lines =
        || std::fs::read_to_string(log.path()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(tests::within(ELECTED, || lines().iter().any(|line| line.contains("connected to Redis"))));
    ask_for_all_callers();
    let (before, asked) = (lines().len(), [0, 1].map(|node: usize| slots_asked(&cluster.nodes[node])));
    cluster.nodes[2].kill();
    let end = Instant::now() + Duration::from_secs(SECONDS.into());
    while Instant::now() < end {
        ask_for_all_callers();
    }
    let written = lines().split_off(before);
    let asked = [0, 1].map(|node: usize| slots_asked(&cluster.nodes[node]) - asked[node]);
    println!("in {SECONDS} s: {} lines, CLUSTER SLOTS {asked:?} times", written.len());
    let text = written.join("\n");
    assert!(text.contains("the rate limiter's store cannot answer"), "{text}");
    assert!(!text.contains("127.0.0.1"), "{text}");
    // More than one outage only if the breaker let no request fail for a second.
    assert!(written.len() <= 4, "{text}");
    // The supervisor tries twice a second or so, and one refresh follows each attempt to connect to the lost
    // node.
    assert!(asked.iter().sum::<u32>() <= 8 * SECONDS, "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_load_causes_no_error_and_no_lost_count() {
    static HOT: Policy = Policy::builder("hot")
        .max(3000)
        .window(Duration::from_secs(86_400))
        .algorithm(Algorithm::SlidingWindowLog)
        .on_error(OnError::Deny)
        .build();
    let Some(admitted) = admitted_while_its_slot_moves(&HOT).await else { return };
    assert_eq!(admitted, 3000);
}

/// Leases of the node that has lost the slot are void, and their units with them. Never more pass.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_load_voids_leases_and_admits_none_too_many() {
    static HOT: Policy = Policy::builder("hot")
        .max(3000)
        .window(Duration::from_secs(86_400))
        .on_error(OnError::Deny)
        .lease(Duration::from_millis(100))
        .build();
    let Some(admitted) = admitted_while_its_slot_moves(&HOT).await else { return };
    assert!((1500..=3000).contains(&admitted), "{admitted}");
}

/// A limit with leases on a cluster whose clock, and that of the process, stands still, so that only events
/// end leases.
struct LeasedOnCluster {
    cluster: Cluster,
    limiter: RateLimiter,
}

impl LeasedOnCluster {
    const HOT: Policy = Policy::builder("hot")
        .max(100_000)
        .window(Duration::from_secs(3600))
        .algorithm(Algorithm::FixedWindow)
        .on_error(OnError::Deny)
        .lease(Duration::from_millis(100))
        .build();

    /// Makes the caller `a` hot.
    async fn new() -> Option<Self> {
        let cluster = cluster(false).await?;
        // Only requests tell of a node: no ping, and no other connection.
        let store = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(10)).connections(1);
        let store = store.ping_interval(Duration::from_secs(3600)).clock(tests::clock_at_start());
        let limiter = RateLimiter::new(store.build().unwrap());
        until_all_decide(&limiter, ELECTED).await;
        let began = Instant::now();
        while limiter.store_status().connection.unwrap().leases.held < 10 {
            // The connection for leases is made in the background.
            assert!(began.elapsed() < ELECTED, "nothing is held");
            assert!(limiter.check(&Self::HOT, "a").await.unwrap().is_allowed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Behind the answers to leases that were fetched in the background.
        assert!(limiter.check(&MINUTE, "a").await.unwrap().is_allowed());
        Some(Self { cluster, limiter })
    }

    fn holds(&self) -> bool {
        self.limiter.try_check(&Self::HOT, "a").unwrap().is_some_and(|outcome| outcome.is_allowed())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_that_learns_of_a_moved_slot_voids_what_is_held_of_its_node() {
    let Some(hot) = LeasedOnCluster::new().await else { return };
    let (from, key) = hot.cluster.place_of("*:hot:*").await;
    let to = (from + 1) % hot.cluster.nodes.len();
    hot.cluster.move_slot_of(&key, from, to, Duration::ZERO).await;
    assert!(hot.holds(), "the process does not know yet");
    // Another limit of the caller, whose keys share the slot.
    assert!(hot.limiter.check(&MINUTE, "a").await.unwrap().is_allowed());
    assert!(!hot.holds());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_that_finds_a_master_gone_voids_what_is_held_of_it() {
    let Some(mut hot) = LeasedOnCluster::new().await else { return };
    let (place, _) = hot.cluster.place_of("*:hot:*").await;
    hot.cluster.nodes[place].kill();
    assert!(hot.holds(), "the process does not know yet");
    assert!(hot.limiter.check(&MINUTE, "a").await.is_err());
    assert!(!hot.holds());
}

/// Moves the slot of a caller from node to node under 4001 requests. Returns how many are admitted.
async fn admitted_while_its_slot_moves(hot: &'static Policy) -> Option<u32> {
    let cluster = cluster(false).await?;
    let store = RedisStore::builder(&cluster.url())
        .deadline(Duration::from_secs(20))
        .connect_timeout(Duration::from_secs(20));
    let limiter = RateLimiter::new(store.build().unwrap());
    assert!(limiter.check(hot, "a").await.unwrap().is_allowed());
    let (mut from, key) = cluster.place_of("*hot*").await;
    let load: Vec<_> = (0..8)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..500 {
                    admitted += u32::from(limiter.check(hot, "a").await.unwrap().is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut moves = 0;
    while load.iter().any(|task| !task.is_finished()) {
        let to = (from + 1) % cluster.nodes.len();
        cluster.move_slot_of(&key, from, to, Duration::from_millis(20)).await;
        (from, moves) = (to, moves + 1);
    }
    let mut admitted = 1;
    for task in load {
        admitted += task.await.unwrap();
    }
    println!("the slot moved {moves} times, {admitted} of 4001 admitted");
    assert!(moves > 0);
    Some(admitted)
}
