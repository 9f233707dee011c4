//! Concurrency limits: what a group of a slot and a bucket costs the server beside two rates, and what
//! renewals cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_actix::{Algorithm, Check, GroupOutcome, Policy, RateLimiter, RedisStore};

use super::{Bench, compare};
use crate::caller::Caller;
use crate::ours::{self, DEADLINE};
use crate::report::{Goal, Report, Row};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::{MAX, WINDOW, cpu};

/// Tasks, and requests of each.
const TASKS: u64 = 64;
const REQUESTS: u64 = 32;

/// Streams that are held, each of another caller.
const STREAMS: u64 = 10_000;

/// Time for which renewals are measured.
const RENEWING: Duration = Duration::from_secs(6);

const RATES: &str = "window and bucket";
const SLOT: &str = "slot and bucket";
const FREED: &str = "slot and bucket, with the message that frees the slot";

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("Concurrency limits");
    report.text(&format!(
        "Nanoseconds of Redis's processor time for a request of two limits, from {TASKS} tasks, each request of another caller."
    ));
    let store = || RedisStore::builder(&servers[0].url()).deadline(DEADLINE).denial_cache_ttl(Duration::ZERO);
    let limiter = || ours::ready(RateLimiter::new(store().build().unwrap()));
    let bucket = Policy::builder("bucket").max(MAX).window(WINDOW).algorithm(Algorithm::TokenBucket).build();
    let window = Policy::builder("window").max(MAX).window(WINDOW).algorithm(Algorithm::FixedWindow).build();
    let slots = Policy::concurrency("slots", MAX);
    let next = AtomicU64::new(0);
    let requests = |name: &'static str, first: Policy, is_freed: bool| {
        let (limiter, second, next) = (limiter(), bucket.clone(), &next);
        Variant::new(name, move || {
            let before = cpu::of_servers(servers);
            let tasks = (0..TASKS).map(|_| async {
                let mut held: Vec<GroupOutcome> = Vec::new();
                for _ in 0..REQUESTS {
                    let caller = Caller::new(0, next.fetch_add(1, Ordering::Relaxed)).text();
                    let group = [Check::new(&first, &caller), Check::new(&second, &caller)];
                    let outcome = limiter.check_all(&group).await.unwrap();
                    assert!(outcome.is_allowed() && !outcome.is_degraded());
                    if !is_freed {
                        held.push(outcome);
                    }
                }
                held
            });
            let held = bench.runtime.block_on(futures_util::future::join_all(tasks));
            let cost = (cpu::of_servers(servers) - before) / (TASKS * REQUESTS) as f64;
            drop(held);
            cost
        })
    };
    let variants = vec![
        requests(RATES, window, false),
        requests(SLOT, slots.clone(), false),
        requests(FREED, slots.clone(), true),
    ];
    let measured: Vec<Measured<f64>> = take_turns(bench.settings.goal_rounds, variants);
    report.table(&compare(&measured, RATES, "ns"));
    let ratio = Spread::ratio(&find(&measured, SLOT).rounds, &find(&measured, RATES).rounds);
    report.goal(Goal::at_most(Row::Slots, "slot and bucket", 1.1, " × two rates", ratio));
    renewals(bench, servers, &limiter(), &slots, report);
}

fn renewals(
    bench: &Bench<'_>,
    servers: &[Server],
    limiter: &RateLimiter,
    slots: &Policy,
    report: &mut Report,
) {
    servers[0].flush();
    let held = bench.runtime.block_on(async {
        let mut held = Vec::new();
        for number in 0..STREAMS {
            held.push(limiter.acquire(slots, Caller::new(1, number).text()).await.unwrap().unwrap());
        }
        held
    });
    std::thread::sleep(Duration::from_secs(4));
    let before = cpu::of_servers(servers);
    std::thread::sleep(RENEWING);
    let cost = cpu::of_servers(servers) - before;
    // Each is renewed when a look finds it 3 s old, and looks are half a second apart.
    let renewed = STREAMS as f64 * RENEWING.as_secs_f64() / 3.25;
    report.conclude(&format!(
        "{STREAMS} held streams of as many callers take {} ms of Redis's processor time a second: about {} µs a renewal.",
        short(cost / 1e6 / RENEWING.as_secs_f64()),
        short(cost / 1e3 / renewed)
    ));
    drop(held);
}
