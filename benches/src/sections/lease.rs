//! Leases: hot callers below their limit, decided in the process.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ratelimit_actix::{Algorithm, MemoryStore, Policy, PolicyBuilder, RateLimiter, RedisStore};

use super::throughput::{self, OURS, costs, faster};
use super::{Bench, compare, contender, rival, two_windows};
use crate::caller::{Caller, Callers};
use crate::drive::{Decider, Load, Yield, drive};
use crate::ours;
use crate::random::Random;
use crate::report::{Goal, Report, Row};
use crate::rivals::Way;
use crate::rounds::{Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::table::Table;

const LEASE: Duration = Duration::from_millis(100);
/// Load before a measurement of warm callers: ten leases of each.
const WARM_UP: Duration = Duration::from_secs(1);
const LEASED: &str = "ours, leased";
const MEMORY: &str = "ours, in memory";
/// Processes among which callers of the rows about calls are divided.
const PROCESSES: u32 = 4;

fn leased(max: u64) -> PolicyBuilder {
    Policy::builder("leased").max(max).window(Duration::from_secs(1)).lease(LEASE)
}

/// Our limiter with leases. A denial is no error here: the load is a share of the limit in the mean only.
#[derive(Clone, Debug)]
struct Leased {
    limiter: RateLimiter,
    policy: Arc<Policy>,
    denied: Arc<AtomicU64>,
}

impl Leased {
    fn new(url: &str, policy: Policy) -> Self {
        Self { limiter: ours::connect(url), policy: Arc::new(policy), denied: Arc::default() }
    }
}

impl Decider for Leased {
    async fn decide(&self, caller: Caller) -> bool {
        let outcome = self.limiter.check(&self.policy, caller).await.unwrap();
        assert!(!outcome.is_degraded(), "decided without Redis");
        self.denied.fetch_add(u64::from(!outcome.is_allowed()), Ordering::Relaxed);
        true
    }
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    report.section("Leases: hot callers below their limit");
    report
        .text("A limit with `lease = \"100ms\"`, whose callers have been seen before, at 0.8 of the limit.");
    for (callers, least) in [(1000, 15.0), (1, 12.0)] {
        duel(bench, servers, callers, least, report);
    }
    warm(bench, servers, report);
    calls(bench, servers, report);
    admitted(bench, servers, report);
}

/// 512 tasks over some callers, against a script and a command for each decision.
fn duel(bench: &Bench<'_>, servers: &[Server], number: u64, least: f64, report: &mut Report) {
    servers[0].flush();
    let url = servers[0].url();
    // What it makes without a limit in sight, and from that the limit of which this is 0.8.
    let load = Load { tasks: 512, callers: Callers { population: 0, number }, span: bench.settings.span };
    let warm = |decider: &Leased| {
        let before = Load { span: WARM_UP, ..load };
        let _ = drive(&bench.runtime, decider, servers, before);
        drive(&bench.runtime, decider, servers, load)
    };
    let rate = warm(&Leased::new(&url, leased(1_000_000_000_000).build())).per_second;
    let max = (rate / number as f64 / 0.8) as u64;
    let decider = Leased::new(&url, leased(max.max(64)).build());
    let denied = Arc::clone(&decider.denied);
    let mut variants: Vec<Variant<'_, Yield>> = [Way::Incr, Way::Lean]
        .iter()
        .map(|&way| {
            let load = move || throughput::load(bench, 512, number);
            contender(bench, servers, way.name(), rival(bench, servers, way), load)
        })
        .collect();
    let plain = move || throughput::load(bench, 512, number);
    variants.push(contender(bench, servers, OURS, two_windows(&url), plain));
    variants.push(Variant::new(LEASED, move || warm(&decider)));
    let measured = take_turns(bench.settings.goal_rounds, variants);
    report
        .text(&format!("512 tasks over {number} callers, at most {} a second for each:", short(max as f64)));
    report.table(&costs(&measured));
    report.text(&format!(
        "Leased and denied, also before the measurements: {}.",
        denied.load(Ordering::Relaxed)
    ));
    let ratio = faster(find(&measured, LEASED), find(&measured, Way::Lean.name()));
    let what = format!("{number} callers");
    report.goal(Goal::at_least(Row::Lease, what, least, " × lean", ratio));
}

/// One warm caller, one check after the other; and the first request of a caller, which takes a round trip.
fn warm(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    let checks = bench.settings.micro_times.max(2_000);
    let memory = RateLimiter::new(MemoryStore::new());
    let redis = ours::connect(&servers[0].url());
    let policy = leased(1_000_000_000).build();
    let block = |limiter: RateLimiter, policy: Policy| {
        move || {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            let task = bench.runtime.spawn(async move {
                let mut times = Vec::with_capacity(checks as usize);
                for _ in 0..checks {
                    let start = Instant::now();
                    assert!(limiter.check(&policy, "hot").await.unwrap().is_allowed());
                    times.push(start.elapsed().as_nanos() as f64);
                }
                Spread::of(times).median
            });
            bench.runtime.block_on(task).unwrap()
        }
    };
    let first = {
        let (limiter, policy) = (redis.clone(), policy.clone());
        move || {
            let (limiter, policy) = (limiter.clone(), policy.clone());
            let task = bench.runtime.spawn(async move {
                let mut times = Vec::new();
                for number in 0..50u64 {
                    let caller = Caller::new(u16::MAX, number ^ Random::default().next());
                    let start = Instant::now();
                    assert!(limiter.check(&policy, caller).await.unwrap().is_allowed());
                    times.push(start.elapsed().as_nanos() as f64);
                }
                Spread::of(times).median
            });
            bench.runtime.block_on(task).unwrap()
        }
    };
    let variants = vec![
        Variant::new(MEMORY, block(memory, policy.clone())),
        Variant::new(LEASED, block(redis, policy)),
        Variant::new("ours, first request of a caller", first),
    ];
    let measured = take_turns(bench.settings.goal_rounds.max(3) * 3, variants);
    report.text("Median of a block of checks of one warm caller, one after the other, with two readings of a clock each:");
    report.table(&compare(&measured, MEMORY, "p50 ns"));
    let ratio = Spread::ratio(&find(&measured, LEASED).rounds, &find(&measured, MEMORY).rounds);
    report.goal(Goal::at_most(Row::Lease, "p50 of a warm caller", 2.0, " × the in-memory check", ratio));
}

/// Calls of the server for a request, four processes at nine tenths of the limit.
fn calls(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let algorithms = [
        ("fixed window", Algorithm::FixedWindow, 1.5, 7.0),
        ("two windows", Algorithm::SlidingWindowCounter, 4.0, 25.0),
    ];
    report.text(&format!(
        "Script calls a request, with give-backs: {PROCESSES} stores as of as many processes, 0.9 of the limit, {} windows of a second:",
        bench.settings.windows
    ));
    let mut table = Table::new(["what", "limit/s", "requests", "denied", "script calls", "calls a request"]);
    for (name, algorithm, at_5000, at_1000) in algorithms {
        for (max, most) in [(5_000, at_5000), (1_000, at_1000)] {
            servers[0].flush();
            let policy = Arc::new(leased(max).algorithm(algorithm).build());
            let before = servers[0].script_calls();
            let lasts = Duration::from_secs(1) * bench.settings.windows;
            let (requests, denied) =
                bench.runtime.block_on(processes(&servers[0].url(), &policy, 0.9, lasts));
            let calls = servers[0].script_calls() - before;
            let percent = 100.0 * calls as f64 / requests as f64;
            let row = [name.to_owned(), max.to_string(), requests.to_string(), denied.to_string()];
            table.row(row.into_iter().chain([calls.to_string(), format!("{percent:.1} %")]));
            let what = format!("calls a request, {name}, {max}/s");
            let measured = format!("{percent:.1} %");
            report.goal(Goal::new(Row::Lease, what, format!("≤ {most} %"), measured, percent <= most));
        }
    }
    report.table(&table);
    report.text(
        "At 0.9 of 1000/s a counter over two windows leaves 100 units, of which a lease is a sixteenth.",
    );
}

/// What is admitted with leases, of what is admitted without, from half of the limit to three times the
/// limit.
fn admitted(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    const MAX: u64 = 1_000;
    const ALGORITHMS: [(&str, Algorithm); 2] =
        [("fixed window", Algorithm::FixedWindow), ("two windows", Algorithm::SlidingWindowCounter)];
    report.text(&format!(
        "Requests of {PROCESSES} processes that pass, for {} windows of {MAX}: with leases, and at the same time the same requests \
         without.",
        bench.settings.windows
    ));
    servers[0].flush();
    let url = servers[0].url();
    let lasts = Duration::from_secs(1) * bench.settings.windows;
    let mut table = Table::new(["what", "load", "requests", "pass without", "pass with", "share"]);
    let mut least = [f64::INFINITY; ALGORITHMS.len()];
    for load in [0.5, 1.0, 1.5, 3.0] {
        let pairs = bench.runtime.block_on(async {
            let run = |policy: Policy| {
                let (url, policy) = (url.clone(), Arc::new(policy));
                tokio::spawn(async move { processes(&url, &policy, load, lasts).await })
            };
            let plain = || Policy::builder("plain").max(MAX).window(Duration::from_secs(1));
            let running = ALGORITHMS.map(|(_, algorithm)| {
                (run(leased(MAX).algorithm(algorithm).build()), run(plain().algorithm(algorithm).build()))
            });
            let mut pairs = Vec::new();
            for (with, without) in running {
                pairs.push((with.await.unwrap(), without.await.unwrap()));
            }
            pairs
        });
        for (((name, _), (with, without)), least) in ALGORITHMS.iter().zip(pairs).zip(&mut least) {
            let [with_pass, without_pass] = [with, without].map(|(made, denied)| made - denied);
            let share = 100.0 * with_pass as f64 / without_pass as f64;
            *least = least.min(share);
            table.row([
                (*name).to_owned(),
                format!("{load}"),
                with.0.to_string(),
                without_pass.to_string(),
                with_pass.to_string(),
                format!("{share:.1} %"),
            ]);
        }
    }
    report.table(&table);
    for ((name, _), least) in ALGORITHMS.iter().zip(least) {
        let what = format!("admitted of what passes without leases, {name}, loads 0.5 to 3");
        report.goal(Goal::new(Row::Lease, what, "≥ 98 %", format!("{least:.1} %"), least >= 98.0));
    }
}

/// Requests of several stores, each with a connection of its own, at a share of the limit; how many, and how
/// many were denied.
async fn processes(url: &str, policy: &Arc<Policy>, load: f64, lasts: Duration) -> (u64, u64) {
    let limiters = (0..PROCESSES).map(|_| {
        let store = RedisStore::builder(url).build().unwrap();
        let instances = NonZeroU32::new(PROCESSES).expect("not 0");
        ours::ready(RateLimiter::builder(store).instances(instances).build())
    });
    let limiters: Vec<RateLimiter> = limiters.collect();
    let rate = load * policy.max() as f64 / f64::from(PROCESSES);
    let running = limiters
        .into_iter()
        .zip(1..)
        .map(|(limiter, seed)| tokio::spawn(requests(limiter, Arc::clone(policy), rate, lasts, seed)));
    let (mut made, mut denied) = (0, 0);
    for process in running.collect::<Vec<_>>() {
        let of_process = process.await.unwrap();
        (made, denied) = (made + of_process.0, denied + of_process.1);
    }
    (made, denied)
}

/// Requests of one process at random times; how many, and how many of them were denied.
async fn requests(
    limiter: RateLimiter,
    policy: Arc<Policy>,
    rate: f64,
    lasts: Duration,
    seed: u64,
) -> (u64, u64) {
    let (mut random, mut due, start) = (Random::seeded(seed), 0.0, Instant::now());
    let (mut made, mut denied) = (0, 0);
    let mut waiting = tokio::task::JoinSet::new();
    while due < lasts.as_secs_f64() {
        due += random.wait() / rate;
        let wait = Duration::from_secs_f64(due).saturating_sub(start.elapsed());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        made += 1;
        if let Some(outcome) = limiter.try_check(&policy, "hot").unwrap() {
            denied += u64::from(!outcome.is_allowed());
        } else {
            // Later requests do not wait for its answer.
            let (limiter, policy) = (limiter.clone(), Arc::clone(&policy));
            waiting.spawn(async move { limiter.check(&policy, "hot").await.unwrap().is_allowed() });
        }
        while let Some(is_allowed) = waiting.try_join_next() {
            denied += u64::from(!is_allowed.unwrap());
        }
    }
    while let Some(is_allowed) = waiting.join_next().await {
        denied += u64::from(!is_allowed.unwrap());
    }
    (made, denied)
}
