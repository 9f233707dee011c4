//! Everything that can befall a Redis server, on real servers: what a request then gets, how long it waits at most, and
//! how soon limits are shared again. Each test prints what it measured; `docs/when-redis-fails.md` has the figures.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use actix_web::{App, HttpRequest, HttpServer, web};
use ratelimit_actix::rate_limit;
use ratelimit_core::{Algorithm, Check, OnError, Policy, RateLimiter, RedisStore, StoreError};
use tests::client;
use tests::clock::clocked_server;
use tests::log::Log;
use tests::outage::{LONGEST, Outage, PROBE, SLACK, millis};
use tests::own_process::{in_own_process, test_path};
use tests::proxy::{Mode, Proxy};
use tests::redis::{server, server_with};
use tests::tls::{Certificate, secured_server};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

/// The whole story of a fault: a server that works, that fails, and that works again.
async fn story(name: &str, url: &str, fail: impl FnOnce(), repair: impl FnOnce(), limit: Duration) {
    let mut outage = Outage::of(name, url);
    outage.until_up().await;
    fail();
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    repair();
    outage.ends_within(limit).await;
}

/// A store that waits as long as a busy machine needs, for tests that count.
fn patient(url: &str) -> RateLimiter {
    let store = RedisStore::builder(url).deadline(20 * SECOND).connect_timeout(20 * SECOND);
    // What the server does is what is of interest, so it is asked every time.
    RateLimiter::with_redis(store.longest_refusal(Duration::ZERO).build().unwrap())
}

// ---- The server is gone -----------------------------------------------------------------------------------------

#[tokio::test]
async fn without_a_server_at_the_start_policies_apply_until_there_is_one() {
    let Some(mut server) = server() else { return };
    server.kill();
    let mut outage = Outage::of("no server at the start", &server.url());
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    server.restart();
    outage.ends_within(SECOND).await;
}

#[tokio::test]
async fn a_killed_server_is_found_again() {
    let Some(mut server) = server() else { return };
    let mut outage = Outage::of("killed", &server.url());
    outage.until_up().await;
    server.kill();
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    server.restart();
    outage.ends_within(SECOND).await;
}

/// One thousand requests a second, from a hundred tasks.
struct Load {
    tasks: Vec<tokio::task::JoinHandle<Vec<(Duration, bool)>>>,
    end: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Load {
    fn on(limiter: &RateLimiter) -> Self {
        static ANY: Policy = Policy::builder("any")
            .max(1_000_000_000)
            .window(Duration::from_secs(3600))
            .algorithm(Algorithm::FixedWindow)
            .build();
        let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let task = |i: u64| {
            let (limiter, end) = (limiter.clone(), std::sync::Arc::clone(&end));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                let mut ticks = tokio::time::interval(Duration::from_millis(100));
                tokio::time::sleep(Duration::from_millis(i)).await;
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    ticks.tick().await;
                    let asked = Instant::now();
                    let outcome = limiter.check(&ANY, i.to_le_bytes()).await.unwrap();
                    assert!(outcome.is_allowed());
                    answers.push((asked.elapsed(), outcome.is_degraded()));
                }
                answers
            })
        };
        Self { tasks: (0..100).map(task).collect(), end }
    }

    /// All answers: how long each took, and whether it was degraded.
    async fn end(self) -> Vec<(Duration, bool)> {
        self.end.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut all = Vec::new();
        for task in self.tasks {
            all.extend(task.await.unwrap());
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_thousand_requests_a_second_a_kill_and_a_hang_delay_nobody_for_long() {
    let Some(mut server) = server() else { return };
    let outage = Outage::of("load", &server.url());
    outage.until_up().await;
    let load = Load::on(&outage.limiter);
    let mut backs = Vec::new();
    tokio::time::sleep(SECOND).await;
    server.kill();
    tokio::time::sleep(SECOND).await;
    server.restart();
    let back = Instant::now();
    outage.until_up().await;
    backs.push(back.elapsed());
    tokio::time::sleep(SECOND).await;
    server.signal("STOP");
    tokio::time::sleep(SECOND).await;
    server.signal("CONT");
    let back = Instant::now();
    outage.until_up().await;
    backs.push(back.elapsed());
    tokio::time::sleep(SECOND / 2).await;
    let answers = load.end().await;
    let slowest = answers.iter().map(|(took, _)| *took).max().unwrap();
    let degraded = answers.iter().filter(|(_, degraded)| *degraded).count();
    println!(
        "load: {} answers, {degraded} degraded, slowest {:.1} ms, back after kill {:.0} ms, after hang {:.0} ms \
         (noise {:.1} ms)",
        answers.len(),
        millis(slowest),
        millis(backs[0]),
        millis(backs[1]),
        millis(outage.noise.worst())
    );
    assert!(slowest <= LONGEST + SLACK, "{slowest:?}");
    assert!(degraded > 500 && degraded < answers.len(), "{degraded} of {}", answers.len());
    assert!(backs[0] <= SECOND + SLACK, "{backs:?}");
    assert!(backs[1] <= 2 * SECOND + SLACK, "{backs:?}");
}

// ---- The server hangs -------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_hung_server_is_used_again_when_it_goes_on() {
    let Some(server) = server() else { return };
    story("hung", &server.url(), || server.signal("STOP"), || server.signal("CONT"), 2 * SECOND).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_used_again_when_the_script_ends() {
    let Some(server) = server_with("--lua-time-limit 200") else { return };
    let url = server.url();
    let script = std::sync::Mutex::new(None);
    let fail = || {
        let run = move || tests::redis::ask(&url, "EVAL \"while true do end\" 0");
        *script.lock().unwrap() = Some(std::thread::spawn(run));
    };
    story("busy with a script", &server.url(), fail, || server.must("SCRIPT KILL"), SECOND).await;
    let answer = script.lock().unwrap().take().unwrap().join().unwrap();
    assert!(answer.starts_with('-'), "{answer}");
}

// ---- The server refuses -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_not_used_until_it_is_a_master_again() {
    let Some(server) = server() else { return };
    let demote = || server.must("REPLICAOF 127.0.0.1 1");
    story("READONLY", &server.url(), demote, || server.must("REPLICAOF NO ONE"), SECOND).await;
}

#[tokio::test]
async fn a_replica_without_its_master_is_not_used() {
    let Some(server) = server_with("--replica-serve-stale-data no") else { return };
    let demote = || server.must("REPLICAOF 127.0.0.1 1");
    story("MASTERDOWN", &server.url(), demote, || server.must("REPLICAOF NO ONE"), SECOND).await;
}

#[tokio::test]
async fn a_server_without_memory_is_used_again_when_it_has_some() {
    let Some(server) = server() else { return };
    let fail = || server.must("CONFIG SET maxmemory 1");
    story("OOM", &server.url(), fail, || server.must("CONFIG SET maxmemory 0"), SECOND).await;
}

#[tokio::test]
async fn a_master_that_wants_replicas_is_used_again_when_it_does_not() {
    let Some(server) = server() else { return };
    let fail = || server.must("CONFIG SET min-replicas-to-write 1");
    story("NOREPLICAS", &server.url(), fail, || server.must("CONFIG SET min-replicas-to-write 0"), SECOND)
        .await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_clients_is_used_again_when_it_does() {
    let Some(server) = server() else { return };
    let console = std::cell::RefCell::new(server.console());
    let fail = || {
        console.borrow_mut().must("CONFIG SET maxclients 1");
        console.borrow_mut().must("CLIENT KILL TYPE normal SKIPME yes");
    };
    let repair = || console.borrow_mut().must("CONFIG SET maxclients 1000");
    story("maxclients", &server.url(), fail, repair, SECOND).await;
}

#[tokio::test]
async fn a_server_that_is_loading_is_used_when_it_has_loaded() {
    let Some(mut server) = server_with("--key-load-delay 100 --loading-process-events-interval-bytes 1024")
    else {
        return;
    };
    server.must("DEBUG POPULATE 10000");
    server.must("SAVE");
    let mut outage = Outage::of("LOADING", &server.url());
    outage.until_up().await;
    server.restart_at_once();
    let loading = || {
        let connected = std::net::TcpStream::connect(("127.0.0.1", server.port())).is_ok();
        connected && server.ask("PING").starts_with("-LOADING")
    };
    assert!(tests::within(Duration::from_secs(10), loading), "never said LOADING");
    outage.until_noticed().await;
    outage.policies_apply().await;
    assert!(tests::within(Duration::from_secs(20), || server.ask("PING") == "+PONG"), "never loaded");
    outage.ends_within(SECOND).await;
}

// ---- The server does not know us --------------------------------------------------------------------------------

#[tokio::test]
async fn a_password_that_comes_and_goes_ends_nothing_for_ever() {
    let Some(server) = server() else { return };
    let console = std::cell::RefCell::new(server.console());
    let fail = || {
        console.borrow_mut().must("CONFIG SET requirepass s3cret");
        console.borrow_mut().must("CLIENT KILL TYPE normal SKIPME yes");
    };
    let repair = || console.borrow_mut().must("CONFIG SET requirepass \"\"");
    // Database 1, because then connecting itself fails while the password is asked for.
    story("NOAUTH", &format!("{}1", server.url()), fail, repair, 2 * SECOND).await;
}

#[tokio::test]
async fn a_password_that_is_changed_and_changed_back_ends_nothing_for_ever() {
    let Some(server) = server() else { return };
    server.must("ACL SETUSER app on >one ~* +@all");
    let fail = || {
        server.must("ACL SETUSER app resetpass >two");
        server.must("CLIENT KILL USER app");
    };
    let url = format!("redis://app:one@127.0.0.1:{}/", server.port());
    story("WRONGPASS", &url, fail, || server.must("ACL SETUSER app >one"), 2 * SECOND).await;
}

#[tokio::test]
async fn a_user_who_may_not_decide_any_more_is_told_and_goes_on_when_allowed() {
    let Some(server) = server() else { return };
    server.must("ACL SETUSER app on >one ~* +@all");
    let url = format!("redis://app:one@127.0.0.1:{}/", server.port());
    let fail = || server.must("ACL SETUSER app -@scripting");
    story("NOPERM", &url, fail, || server.must("ACL SETUSER app +@scripting"), SECOND).await;
}

/// The permissions of `docs/when-redis-fails.md`, each taken away in turn.
#[tokio::test]
async fn every_permission_that_is_asked_for_is_needed_and_told_when_it_is_missing() {
    const COMMANDS: &str =
        "evalsha eval unlink time get mget set setrange pttl pexpire hget hset hdel select ping";
    let Some(server) = server() else { return };
    let commands: Vec<&str> = COMMANDS.split_whitespace().collect();
    let mut stories = Vec::new();
    for missing in &commands {
        let rest = commands.iter().filter(|command| *command != missing);
        let rules: Vec<String> = rest.map(|command| format!("+{command}")).collect();
        server.must(&format!("ACL SETUSER without-{missing} on >s3cret ~* {}", rules.join(" ")));
        let url = format!("redis://without-{missing}:s3cret@127.0.0.1:{}/1", server.port());
        stories.push(async move {
            let limiter = patient(&url);
            let mut reasons = Vec::new();
            for algorithm in [
                Algorithm::FixedWindow,
                Algorithm::SlidingWindowCounter,
                Algorithm::SlidingWindowLog,
                Algorithm::TokenBucket,
            ] {
                let policy = Policy::builder("permissions")
                    .algorithm(algorithm)
                    .max(3)
                    .window(Duration::from_millis(200))
                    .on_error(OnError::Deny)
                    .build();
                let group = [Check::new(&policy, missing.as_bytes())];
                let end = Instant::now() + Duration::from_secs(2);
                while Instant::now() < end {
                    let outcome = match limiter.check_all(&group).await {
                        Ok(outcome) => outcome,
                        Err(error) => {
                            if let Some(reason) = std::error::Error::source(&error) {
                                reasons.push(reason.to_string());
                                break;
                            }
                            tokio::time::sleep(Duration::from_millis(10)).await;
                            continue;
                        }
                    };
                    if !outcome.is_allowed() {
                        break;
                    }
                    if let Some(taken) = outcome.reservation(&group)
                        && outcome.outcomes()[0].remaining() == 1
                        && let Err(error) = limiter.refund(taken).await
                    {
                        reasons.extend(std::error::Error::source(&error).map(ToString::to_string));
                        break;
                    }
                }
                if let Err(error) = limiter.reset(&policy, missing).await {
                    reasons.extend(std::error::Error::source(&error).map(ToString::to_string));
                }
            }
            (*missing, reasons)
        });
    }
    for (missing, reasons) in futures_util::future::join_all(stories).await {
        println!("without {missing}: {}", reasons.first().map_or("works", |reason| reason));
        // Only who is idle needs it.
        assert_eq!(reasons.is_empty(), missing == "ping", "{missing}: {reasons:?}");
        for reason in &reasons {
            let reason = reason.to_lowercase();
            assert!(reason.contains("perm") || reason.contains("can't run"), "{missing}: {reason}");
            assert!(reason.contains(missing), "{missing}: {reason}");
        }
    }
}

// ---- The network ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_connection_that_swallows_everything_is_replaced_while_the_server_works() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let mut outage = Outage::of("swallowed connection", &proxy.url());
    outage.until_up().await;
    proxy.swallow_present();
    outage.until_lost().await;
    outage.ends_within(SECOND).await;
    assert!(proxy.accepted() >= 2);
}

/// Time to recover from what an attempt to connect waits for in vain: the rest of that attempt, and a pause.
const IN_VAIN: Duration = Duration::from_millis(500 + 100 + 800 + 100);

macro_rules! disturbed {
    ($($test:ident, $name:literal, $mode:expr, $limit:expr;)+) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(server) = server() else { return };
            let proxy = Proxy::before(server.port());
            story($name, &proxy.url(), || proxy.set($mode), || proxy.set(Mode::Pass), $limit).await;
        })+
    };
}

disturbed! {
    answers_that_take_150_ms_are_too_late, "answers 150 ms late", Mode::Delay(Duration::from_millis(150)), SECOND;
    answers_that_take_500_ms_are_too_late, "answers 500 ms late", Mode::Delay(Duration::from_millis(500)), IN_VAIN;
    a_network_that_swallows_everything_is_an_outage, "network swallows", Mode::Swallow, IN_VAIN;
    connections_that_are_reset_in_an_answer_are_an_outage, "reset in an answer", Mode::Reset, SECOND;
    connections_that_end_in_an_answer_are_an_outage, "end in an answer", Mode::Cut, SECOND;
    answers_that_trickle_are_too_late, "trickle", Mode::Trickle(Duration::from_millis(5)), IN_VAIN;
    answers_that_are_not_the_protocol_are_an_outage, "garbage", Mode::Garbage, SECOND;
    an_announced_terabyte_is_an_outage, "announced terabyte", Mode::Oversized, IN_VAIN;
}

#[tokio::test]
async fn answers_that_take_half_of_the_deadline_are_in_time() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    // The proxy holds up one answer after another, and that to the heartbeat would be one more.
    let builder = RedisStore::builder(&proxy.url()).heartbeat(3600 * SECOND).deadline(4 * SECOND);
    let outage = Outage::with("answers 2 s late", builder);
    outage.until_up().await;
    proxy.set(Mode::Delay(2 * SECOND));
    for _ in 0..3 {
        let (decided, took) = outage.probe().await;
        assert!(decided && took >= 2 * SECOND, "{took:?}");
    }
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up_at_the_deadline() {
    const DEADLINE: Duration = Duration::from_secs(2);
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let builder = RedisStore::builder(&proxy.url()).heartbeat(3600 * SECOND).deadline(DEADLINE);
    let outage = Outage::with("no answer", builder);
    outage.until_up().await;
    proxy.set(Mode::Swallow);
    let asked = Instant::now();
    let answer = outage.limiter.check(&PROBE, "never").await;
    let took = asked.elapsed();
    assert!(matches!(answer, Err(StoreError::Timeout { after }) if after == DEADLINE), "{answer:?}");
    assert!((DEADLINE..2 * DEADLINE).contains(&took), "{took:?}");
}

#[tokio::test]
async fn whatever_happens_to_connections_nobody_gets_the_answer_to_another_request() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let outage = Outage::of("mixed up", &proxy.url());
    let limiter = &outage.limiter;
    let (mut asked, mut decided) = (0, 0);
    let modes = [
        Mode::Reset,
        Mode::Delay(Duration::from_millis(120)),
        Mode::Cut,
        Mode::Trickle(Duration::from_millis(1)),
        Mode::Garbage,
    ];
    for (round, mode) in (0..10u64).zip(modes.into_iter().cycle()) {
        proxy.set(Mode::Pass);
        outage.until_up().await;
        let requests = (0..100u64).map(|i| async move {
            tokio::time::sleep(Duration::from_millis(i)).await;
            // Each has a caller and a cost of its own, and therefore an answer of its own.
            let cost = 1 + round * 100 + i;
            match limiter.check_n(&PROBE, cost.to_le_bytes(), cost).await {
                Ok(outcome) => {
                    assert_eq!(outcome.remaining(), PROBE.max() - cost);
                    1
                }
                Err(_) => 0,
            }
        });
        let disturb = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            proxy.set(mode);
            tokio::time::sleep(Duration::from_millis(20)).await;
            proxy.set(Mode::Pass);
        };
        let (answers, ()) =
            futures_util::future::join(futures_util::future::join_all(requests), disturb).await;
        asked += answers.len();
        decided += answers.into_iter().sum::<usize>();
    }
    println!("{decided} of {asked} decided, each as it should be");
    assert!(decided > 300 && decided < asked, "{decided}");
}

#[tokio::test]
async fn a_server_that_has_moved_is_found() {
    let (Some(mut first), Some(second)) = (server(), server()) else { return };
    // The proxy stands for a name whose address changes.
    let proxy = Proxy::before(first.port());
    let mut outage = Outage::of("moved", &proxy.url());
    outage.until_up().await;
    proxy.retarget(second.port());
    first.kill();
    outage.until_lost().await;
    outage.ends_within(SECOND).await;
    assert_ne!(second.ask("DBSIZE"), ":0");
}

// ---- Scripts and counts -----------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_forgotten_every_10_ms_cost_no_error_and_no_count() {
    let Some(server) = server() else { return };
    let limiter = patient(&server.url());
    let (mut console, done) =
        (server.console(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stop = std::sync::Arc::clone(&done);
    let storm = std::thread::spawn(move || {
        let mut flushes = 0;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            console.must("SCRIPT FLUSH");
            flushes += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        flushes
    });
    for algorithm in [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog,
        Algorithm::TokenBucket,
    ] {
        let day = Duration::from_secs(86_400 * 30);
        let policy = Policy::builder("storm")
            .algorithm(algorithm)
            .max(2000)
            .window(day)
            .on_error(OnError::Deny)
            .build();
        let tasks = (0..16).map(|_| {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..150 {
                    admitted += u32::from(limiter.check(&policy, "a").await.unwrap().is_allowed());
                }
                admitted
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, 2000, "{algorithm}");
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    println!("{} floods of forgetting", storm.join().unwrap());
}

#[tokio::test]
async fn what_a_failover_can_lose_is_what_was_not_replicated() {
    static HUNDRED: Policy = Policy::builder("failover")
        .max(100)
        .window(Duration::from_secs(3600))
        .algorithm(Algorithm::SlidingWindowLog)
        .on_error(OnError::Deny)
        .build();
    let Some(mut master) = server() else { return };
    let replication = Proxy::before(master.port());
    let Some(replica) = server_with(&format!("--replicaof 127.0.0.1 {}", replication.port())) else { return };
    let linked = || {
        let mut raw = replica.console();
        raw.ask("ROLE");
        // Array of five: the role, the master's host and port, the state of the link, the offset.
        let lines: Vec<String> = (0..7).map(|_| raw.read()).collect();
        lines.iter().any(|line| line == "connected")
    };
    assert!(tests::within(Duration::from_secs(20), linked), "the replica never synchronised");
    let proxy = Proxy::before(master.port());
    let limiter = patient(&proxy.url());
    let admitted = async |tries: usize| {
        let mut admitted = 0;
        for _ in 0..tries {
            admitted +=
                usize::from(limiter.check(&HUNDRED, "a").await.is_ok_and(|outcome| outcome.is_allowed()));
        }
        admitted
    };
    assert_eq!(admitted(40).await, 40);
    // It waits for what its own connection has written.
    let mut console = master.console();
    console.must("SET mark here");
    assert_eq!(console.ask("WAIT 1 10000"), ":1");
    // From here on the replica hears nothing.
    replication.set(Mode::Swallow);
    assert_eq!(admitted(30).await, 30);
    master.kill();
    proxy.retarget(replica.port());
    replica.must("REPLICAOF NO ONE");
    let end = Instant::now() + Duration::from_secs(20);
    while limiter.peek(&HUNDRED, "a").await.is_err() {
        assert!(Instant::now() < end, "the new master is not used");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = admitted(200).await;
    println!("failover: {} of 100 admitted, 30 were not replicated", 70 + after);
    assert_eq!(after, 60);
}

#[test]
fn a_server_that_evicts_is_warned_of_because_a_flood_frees_those_who_are_denied() {
    static ONE: Policy = Policy::builder("evicted")
        .max(1)
        .window(Duration::from_secs(3600))
        .algorithm(Algorithm::SlidingWindowLog)
        .on_error(OnError::Deny)
        .build();
    in_own_process(|| {
        let Some(server) = server_with("--maxmemory 3mb --maxmemory-policy allkeys-lru") else { return };
        let log = Log::of_process();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let limiter = patient(&server.url());
            // The server picks whom to drop at random, so one alone might be spared.
            let victims: Vec<String> = (0..50).map(|i| format!("victim-{i}")).collect();
            for victim in &victims {
                assert!(limiter.check(&ONE, victim).await.unwrap().is_allowed());
                assert!(!limiter.check(&ONE, victim).await.unwrap().is_allowed());
            }
            // They do not ask meanwhile: every question would make them some of the recently used.
            for wave in 0..120u32 {
                let limiter = &limiter;
                let flood = (0..200u32).map(|i| async move {
                    let caller = (wave * 200 + i).to_le_bytes();
                    assert!(limiter.check(&ONE, caller).await.unwrap().is_allowed());
                });
                futures_util::future::join_all(flood).await;
            }
            let kept: u32 = server.ask("DBSIZE")[1..].parse().unwrap();
            let mut freed = 0;
            for victim in &victims {
                freed += u32::from(limiter.check(&ONE, victim).await.unwrap().is_allowed());
            }
            println!("{kept} of 24050 callers are kept, and {freed} of 50 who were denied are free");
            assert!(kept < 24_000, "nothing is evicted");
            assert!(freed > 0, "a flood of others frees nobody");
        });
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("allkeys-lru") && warnings[0].contains("noeviction"), "{warnings:?}");
    });
}

// ---- TLS --------------------------------------------------------------------------------------------------------

/// What a debug build computes at most to connect.
const TLS_SLACK: Duration = if cfg!(debug_assertions) { Duration::from_millis(200) } else { Duration::ZERO };

#[tokio::test]
async fn over_tls_limits_are_shared_as_without() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let builder = RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
    let builder = builder.deadline(20 * SECOND).connect_timeout(20 * SECOND);
    let limiter = RateLimiter::with_redis(builder.build().unwrap());
    let before = PROBE.max();
    let outcome = limiter.check(&PROBE, "a").await.unwrap();
    assert!(!outcome.is_degraded());
    assert_eq!(outcome.remaining(), before - 1);
    // The same count, seen without TLS.
    let plain = patient(&secured.server.url());
    assert_eq!(plain.peek(&PROBE, "a").await.unwrap().remaining(), before - 1);
}

macro_rules! mistrusted {
    ($($test:ident, $name:literal, $certificate:expr;)+) => {
        $(#[tokio::test]
        async fn $test() {
            let Some(secured) = secured_server($certificate) else { return };
            let builder = RedisStore::builder(&secured.url()).root_certificate_pem(secured.authority.clone());
            let mut outage = Outage::with($name, builder).with_slack(TLS_SLACK);
            outage.until_noticed().await;
            outage.policies_apply().await;
            outage.lasts().await;
            assert_eq!(secured.server.ask("DBSIZE"), ":0");
            secured.present(Certificate::Good);
            outage.ends_within(2 * SECOND).await;
        })+
    };
}

mistrusted! {
    a_certificate_of_an_unknown_authority_is_not_trusted, "wrong CA", Certificate::OfAStranger;
    a_certificate_that_has_expired_is_not_trusted, "expired", Certificate::Expired;
    a_certificate_of_another_host_is_not_trusted, "other host", Certificate::OfAnotherHost;
}

#[tokio::test]
async fn the_authorities_of_the_system_do_not_vouch_for_a_server_with_one_of_its_own() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let mut outage = Outage::of("own CA, not given", &secured.url()).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    assert_eq!(secured.server.ask("DBSIZE"), ":0");
}

#[tokio::test]
async fn a_handshake_that_stalls_is_an_outage() {
    let Some(secured) = secured_server(Certificate::Good) else { return };
    let proxy = Proxy::before(secured.tls_port);
    proxy.set(Mode::Swallow);
    let url = format!("rediss://localhost:{}/", proxy.port());
    let builder = RedisStore::builder(&url).root_certificate_pem(secured.authority.clone());
    let mut outage = Outage::with("stalled handshake", builder).with_slack(TLS_SLACK);
    outage.until_noticed().await;
    outage.policies_apply().await;
    outage.lasts().await;
    proxy.set(Mode::Pass);
    outage.ends_within(2 * SECOND).await;
}

// ---- Time -------------------------------------------------------------------------------------------------------

/// Asks as fast as it may until `until`; what was admitted, and when.
async fn admissions(limiter: &RateLimiter, policy: &Policy, caller: &str, until: Instant) -> Vec<Instant> {
    let mut admitted = Vec::new();
    while Instant::now() < until {
        let outcome = limiter.check(policy, caller).await.unwrap();
        if outcome.is_allowed() {
            admitted.push(Instant::now());
        } else {
            // An entry of a log that is exactly one window old still counts.
            let longest = policy.window() + Duration::from_micros(1);
            assert!(outcome.retry_after().unwrap() <= longest, "{:?}", outcome.retry_after());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    admitted
}

#[tokio::test]
async fn a_server_clock_that_is_set_locks_nobody_out_for_longer_than_a_window() {
    const WINDOW: Duration = Duration::from_secs(1);
    const HOUR_US: i64 = 3_600_000_000;
    let Some(mut clocked) = clocked_server() else { return };
    let limiter = patient(&clocked.server.url());
    let time = |server: &tests::redis::Server| {
        let mut console = server.console();
        console.ask("TIME");
        console.read();
        console.read().parse::<i64>().unwrap()
    };
    let here = time(&clocked.server);
    clocked.ahead(HOUR_US);
    assert!(time(&clocked.server) >= here + 3600, "the shim does nothing");
    clocked.ahead(0);
    let policies = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog,
        Algorithm::TokenBucket,
    ]
    .map(|algorithm| {
        Policy::builder("stepped").algorithm(algorithm).max(20).window(WINDOW).on_error(OnError::Deny).build()
    });
    for (name, steps) in [
        ("an hour back", &[-HOUR_US][..]),
        ("two hours on", &[2 * HOUR_US]),
        ("50 ms to and fro", &[50_000, -50_000, 50_000, -50_000, 50_000, -50_000, 50_000, 0]),
    ] {
        let began = Instant::now();
        let until = began + 4 * WINDOW;
        let load = policies.each_ref().map(|policy| admissions(&limiter, policy, name, until));
        let set = async {
            tokio::time::sleep(WINDOW * 8 / 5).await;
            let stepped = Instant::now();
            for step in steps {
                clocked.ahead(*step);
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            stepped
        };
        let (admitted, stepped) = futures_util::future::join(futures_util::future::join_all(load), set).await;
        clocked.ahead(0);
        for (policy, admitted) in policies.iter().zip(admitted) {
            let algorithm = policy.algorithm();
            let next = admitted.iter().find(|at| **at > stepped).map(|at| *at - stepped);
            let after = admitted.iter().filter(|at| **at > stepped).count();
            println!(
                "{name}, {algorithm}: {} admitted in 4 windows, {after} after, the next {next:?} after",
                admitted.len()
            );
            // Set up and asked every 2 ms; the rest is for a busy machine.
            let bound = WINDOW + SLACK;
            assert!(next.is_some_and(|next| next <= bound), "{name}, {algorithm}: {next:?}");
            // Four windows, the one that was begun, the burst of a bucket; and one more for the step.
            assert!(admitted.len() <= 20 * (4 + 1 + 1), "{name}, {algorithm}: {}", admitted.len());
        }
    }
}

#[test]
fn the_clock_of_the_application_may_be_set_without_effect() {
    const URL: &str = "RATELIMIT_TESTS_CLOCK";
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let mut held = None;
    let variables = || {
        // Started from here, so that the server keeps the system's clock.
        let (server, shim) = (server()?, tests::clock::shim()?);
        let mut variables = shim.variables.clone();
        variables.push((URL.to_owned(), server.url().into()));
        held = Some((server, shim));
        Some(variables)
    };
    tests::own_process::in_own_process_with(variables, || {
        let wall = || std::time::SystemTime::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let limiters = [RateLimiter::in_memory(), patient(&std::env::var(URL).unwrap())];
            for algorithm in [
                Algorithm::FixedWindow,
                Algorithm::SlidingWindowCounter,
                Algorithm::SlidingWindowLog,
                Algorithm::TokenBucket,
            ] {
                let policy = Policy::builder("app-clock").algorithm(algorithm).max(5).window(YEAR).build();
                for limiter in &limiters {
                    tests::clock::set_own(0);
                    for _ in 0..5 {
                        assert!(limiter.check(&policy, "a").await.unwrap().is_allowed());
                    }
                    let wait = limiter.check(&policy, "a").await.unwrap().retry_after().unwrap();
                    for hours in [-1, 2, 24 * 400] {
                        let before = wall();
                        tests::clock::set_own(hours * 3_600_000_000);
                        let apart = wall().duration_since(before).unwrap_or_else(|error| error.duration());
                        assert!(apart > Duration::from_secs(1800), "the shim does nothing");
                        let outcome = limiter.check(&policy, "a").await.unwrap();
                        assert!(!outcome.is_allowed() && !outcome.is_degraded(), "{algorithm}: {outcome:?}");
                        let left = outcome.retry_after().unwrap();
                        let passed = wait.checked_sub(left).expect("the wait has grown");
                        assert!(passed < 60 * SECOND, "{algorithm}: {wait:?}, {left:?}");
                    }
                }
            }
        });
    });
    drop(held);
}

// ---- Many processes, and many times -----------------------------------------------------------------------------

#[test]
fn eight_processes_that_start_without_a_server_try_seldom() {
    let test = test_path(module_path!(), "eight_processes_that_start_without_a_server_try_seldom");
    const URL: &str = "RATELIMIT_TESTS_STORM";
    const WATCHED: Duration = Duration::from_secs(3);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Ok(url) = std::env::var(URL) {
        let limiter = RateLimiter::redis(&url).unwrap();
        let end = Instant::now() + WATCHED;
        runtime().block_on(async {
            while Instant::now() < end {
                assert!(limiter.check(&PROBE, "a").await.is_err());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        return;
    }
    // Ends each connection as soon as it is made: a dead server that can be counted at.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let mut processes: Vec<_> = (0..8)
        .map(|_| {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command
                .args([test.as_str(), "--exact"])
                .env(URL, &url)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&count);
    std::thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            drop(connection);
        }
    });
    for process in &mut processes {
        assert!(process.wait().unwrap().success());
    }
    let attempts = count.load(std::sync::atomic::Ordering::SeqCst);
    println!("{attempts} connections of 8 processes in {WATCHED:?}");
    // One at once, then after pauses of at least 50, 100, 200, 400 and then 400 ms.
    assert!((8..=8 * 10).contains(&attempts), "{attempts}");
}

#[test]
fn a_flapping_server_leaves_nothing_behind() {
    in_own_process(|| tests::flapping::flap(3));
}

#[test]
fn a_flood_of_callers_does_not_fill_the_memory_and_frees_nobody() {
    in_own_process(|| {
        tests::flood::flood(300_000);
    });
}

// ---- The application --------------------------------------------------------------------------------------------

#[tokio::test]
async fn requests_that_are_given_up_leave_nothing_behind() {
    let Some(server) = server() else { return };
    let proxy = Proxy::before(server.port());
    let outage = Outage::with("given up", RedisStore::builder(&proxy.url()).deadline(20 * SECOND));
    outage.until_up().await;
    let connections = proxy.accepted();
    proxy.set(Mode::Delay(Duration::from_millis(2)));
    let limiter = &outage.limiter;
    let requests = (0..500u64).map(|i| async move {
        tokio::time::sleep(Duration::from_millis(i / 5)).await;
        let check = limiter.check(&PROBE, "given up");
        tokio::time::timeout(Duration::from_millis(i % 12), check).await.is_ok()
    });
    let answered =
        futures_util::future::join_all(requests).await.into_iter().filter(|answered| *answered).count();
    proxy.set(Mode::Pass);
    let patient = patient(&server.url());
    let left = patient.peek(&PROBE, "given up").await.unwrap().remaining();
    let charged = PROBE.max() - left;
    println!("500 requests: {answered} answered, {charged} charged");
    assert!(charged <= 500);
    assert_eq!(proxy.accepted(), connections, "the connection served on");
    assert!(charged >= u64::try_from(answered).unwrap());
}

#[test]
fn a_runtime_that_ends_amid_requests_takes_nothing_with_it() {
    let Some(server) = server() else { return };
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    let first = runtime();
    let decided = |runtime: &tokio::runtime::Runtime| {
        tests::within(Duration::from_secs(10), || runtime.block_on(limiter.check(&PROBE, "a")).is_ok())
    };
    assert!(decided(&first));
    server.signal("STOP");
    for _ in 0..50 {
        let limiter = limiter.clone();
        first.spawn(async move { limiter.check(&PROBE, "a").await.is_ok() });
    }
    drop(first);
    server.signal("CONT");
    assert!(decided(&runtime()));
}

#[rate_limit(max = 5, algorithm = "sliding_window_log", by = caller)]
async fn limited() -> &'static str {
    "passed"
}

fn caller(req: &HttpRequest) -> String {
    req.headers().get("x-caller").unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_panic_of_the_function_that_names_the_caller_costs_that_request_only() {
    use std::io::{Read, Write};
    let (tell, told) = std::sync::mpsc::channel();
    let serve = move || {
        actix_web::rt::System::new().block_on(async move {
            let limiter = RateLimiter::in_memory();
            let app = move || {
                App::new().app_data(web::Data::new(limiter.clone())).route("/", web::get().to(limited))
            };
            let server = HttpServer::new(app).workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
            let address = server.addrs()[0];
            let running = server.run();
            tell.send((address, running.handle())).unwrap();
            running.await.unwrap();
        });
    };
    let server = std::thread::spawn(serve);
    let (address, handle) = told.recv().unwrap();
    for round in 0..3 {
        assert_eq!(
            client::get(address, "/", &["x-caller: a"]).header("x-ratelimit-remaining"),
            Some(["4", "3", "2"][round])
        );
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        connection.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = connection.read_to_string(&mut answer);
        assert!(!answer.contains(" 200 "), "{answer}");
    }
    actix_web::rt::System::new().block_on(handle.stop(false));
    server.join().unwrap();
}

#[test]
fn metrics_tell_of_an_outage_and_the_probe_of_readiness() {
    let Some(mut server) = server() else { return };
    let demo = tests::demo::Demo::start(env!("CARGO_BIN_EXE_demo-metrics"), &[("REDIS_URL", &server.url())]);
    let value = |line: &str| -> Option<f64> {
        let text = client::get(demo.address, "/metrics", &[]).body;
        let found = text.lines().find_map(|other| other.strip_prefix(line)?.strip_prefix(' '));
        found.map(|value| value.parse().unwrap())
    };
    let status = |path: &str| client::get(demo.address, path, &[]).status;
    let limit = Duration::from_secs(10);
    assert!(tests::within(limit, || status("/ready") == 200), "never ready");
    assert_eq!(status("/api/public"), 200);
    assert_eq!(value("ratelimit_decisions_total{policy=\"public\",outcome=\"allowed\"}"), Some(1.0));
    assert_eq!(value("ratelimit_store_seconds_count"), Some(1.0));
    assert_eq!(value("ratelimit_redis_connected"), Some(1.0));
    assert_eq!(value("ratelimit_redis_connections_total"), Some(1.0));
    server.kill();
    assert!(tests::within(limit, || status("/ready") == 503), "ready without a server");
    for _ in 0..11 {
        status("/api/public");
    }
    let degraded = |outcome: &str| {
        value(&format!(
            "ratelimit_degraded_decisions_total{{policy=\"public\",on_error=\"local\",outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!((degraded("allowed"), degraded("denied")), (Some(10.0), Some(1.0)));
    assert_eq!(value("ratelimit_decisions_total{policy=\"public\",outcome=\"denied\"}"), Some(1.0));
    let failures = ["unavailable", "timeout"].map(|class| {
        value(&format!("ratelimit_store_failures_total{{class=\"{class}\"}}")).unwrap_or_default()
    });
    assert_eq!(failures.iter().sum::<f64>().to_string(), "11");
    assert_eq!(value("ratelimit_fallback_callers"), Some(1.0));
    assert_eq!(value("ratelimit_redis_connected"), Some(0.0));
    server.restart();
    assert!(tests::within(limit, || status("/ready") == 200), "not ready again");
    assert_eq!(value("ratelimit_redis_connections_total"), Some(2.0));
}
