//! Tests that take minutes: `cargo test --release -p tests --test outages -- --ignored --nocapture`, or a single one by its
//! name. Linux only.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "these tests are about real waits")]

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Policy, RateLimiter};
use tests::demo::Demo;
use tests::flood::flood;
use tests::load::{Answer, Load};
use tests::noise::Noise;
use tests::outage::{LONGEST, Outage, millis};
use tests::own_process::in_own_process;
use tests::redis::server;

#[test]
#[ignore = "takes five minutes"]
fn a_server_that_flaps_for_five_minutes_leaves_nothing_behind() {
    in_own_process(|| {
        tests::flapping::flap(150);
    });
}

#[tokio::test]
#[ignore = "takes forty seconds"]
async fn a_server_that_hangs_for_half_a_minute_is_used_again_when_it_goes_on() {
    let Some(server) = server() else { return };
    let mut outage = Outage::of("hung for 30 s", &server.url());
    outage.until_up().await;
    server.signal("STOP");
    outage.until_noticed().await;
    outage.policies_apply().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    server.signal("CONT");
    outage.ends_within(Duration::from_secs(2)).await;
}

#[test]
#[ignore = "only worth it in release mode"]
fn ten_million_callers_stay_within_memory_and_free_no_denied_caller() {
    in_own_process(|| flood(10_000_000));
}

/// The service at a thousand requests a second: each gets a response in time, whatever happens to the server.
#[test]
#[ignore = "takes half a minute"]
fn a_service_under_load_responds_in_time_while_its_server_dies_and_hangs() {
    const PHASE: Duration = Duration::from_secs(4);
    let Some(mut server) = server() else { return };
    let variables = [("REDIS_URL", &*server.url()), ("RUST_LOG", "off")];
    let demo = Demo::start(env!("CARGO_BIN_EXE_demo"), &variables);
    let noise = Noise::watch();
    let load = Load::start(demo.address, "/api/data", 1000);
    // In force: what is counted is counted at the server.
    let in_force = |server: &tests::redis::Server| {
        let since = Instant::now();
        assert!(
            tests::within(Duration::from_secs(10), || server.query("DBSIZE") != ":0"),
            "never in force again"
        );
        since.elapsed()
    };
    let wait = || std::thread::sleep(PHASE);
    in_force(&server);
    wait();
    server.kill();
    wait();
    server.restart();
    let after_kill = in_force(&server);
    wait();
    server.signal("STOP");
    wait();
    server.signal("CONT");
    server.must("FLUSHALL");
    let after_hang = in_force(&server);
    wait();
    let answers = load.stop();
    let mut took: Vec<Duration> = answers.iter().map(|answer| answer.took).collect();
    took.sort_unstable();
    let with = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    println!(
        "{} requests in {:.1} s: {} passed, {} denied, {} lost; p50 {:.2} ms, p99 {:.2} ms, slowest {:.1} ms; in force \
         {:.0} ms after the restart, {:.0} ms after the hang (noise {:.1} ms)",
        answers.len(),
        (answers[answers.len() - 1].at - answers[0].at).as_secs_f64(),
        with(200),
        with(429),
        with(0),
        millis(took[took.len() / 2]),
        millis(took[took.len() * 99 / 100]),
        millis(took[took.len() - 1]),
        millis(after_kill),
        millis(after_hang),
        millis(noise.worst())
    );
    let lost: Vec<&Answer> = answers.iter().filter(|answer| ![200, 429].contains(&answer.status)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert!(took[took.len() - 1] <= LONGEST + noise.slack(), "{:?}", took[took.len() - 1]);
    assert!(
        after_kill.max(after_hang) <= Duration::from_secs(2) + noise.slack(),
        "{after_kill:?} {after_hang:?}"
    );
}

static POLICY: Policy = Policy::builder("exact")
    .max(50_000)
    .window(Duration::from_secs(86_400))
    .algorithm(Algorithm::SlidingWindowLog)
    .build();

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_hundred_thousand_decisions_through_one_server_are_exact() {
    let Some(server) = server() else { return };
    let limiter = RateLimiter::builder(
        ratelimit_core::RedisStore::builder(&server.url()).deadline(Duration::from_secs(20)).build().unwrap(),
    )
    .build();
    let began = Instant::now();
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let mut admitted = 0u32;
                for _ in 0..1600 {
                    admitted += u32::from(limiter.check(&POLICY, "a").await.unwrap().is_allowed());
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    println!("102400 decisions in {:?}, {admitted} admitted", began.elapsed());
    assert_eq!(admitted, 50_000);
}
