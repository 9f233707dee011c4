//! Ten times more requests than may pass, through one process: how many of them reach the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_actix::{Policy, RateLimiter};

use super::Bench;
use crate::ours;
use crate::random::Random;
use crate::report::{Goal, Report, Row};
use crate::server::Server;
use crate::spread::short;

/// Units in a window.
const MAX: u64 = 100;
const WINDOW: Duration = Duration::from_millis(500);
/// How many times more requests than may pass.
const OVERLOAD: f64 = 10.0;

/// What came of the requests.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    asked: u64,
    passed: u64,
    passed_in_memory: u64,
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("Ten times more requests than may pass");
    let windows = bench.settings.windows;
    report.text(&format!(
        "One caller, {MAX} in {} ms, {} requests a second at random times, for {windows} windows; the same in memory.",
        WINDOW.as_millis(),
        OVERLOAD * MAX as f64 / WINDOW.as_secs_f64(),
    ));
    let limiter = ours::connect(&servers[0].url());
    let policy = Arc::new(Policy::builder("overload").max(MAX).window(WINDOW).build());
    let before = servers[0].script_calls();
    let tally = bench.runtime.block_on(async {
        let task = tokio::spawn(flood(limiter, policy, WINDOW * windows));
        task.await.unwrap()
    });
    let calls = servers[0].script_calls() - before;
    let gone = 100.0 * (1.0 - calls as f64 / tally.asked as f64);
    report.text(&format!(
        "{} requests, {calls} calls of the server, {} admitted through Redis, {} in memory.",
        tally.asked, tally.passed, tally.passed_in_memory
    ));
    let measured = format!("{gone:.1} %");
    report.goal(Goal::new(Row::Overload, "Redis calls gone", "≥ 79 %", measured, gone >= 79.0));
    report.conclude(&format!(
        "A caller that sends ten times its limit costs Redis {} calls a second; {gone:.0} % of its requests are denied in \
         this process.",
        short(calls as f64 / (WINDOW * windows).as_secs_f64()),
    ));
    let ratio = tally.passed as f64 / tally.passed_in_memory as f64;
    let measured = format!("{} against {} by the rule in memory", tally.passed, tally.passed_in_memory);
    // The two read their clocks at different instants, so that single requests near an edge differ.
    let met = (ratio - 1.0).abs() <= 0.02;
    report.goal(Goal::new(Row::Overload, "admitted", "the same, within 2 %", measured, met));
}

async fn flood(limiter: RateLimiter, policy: Arc<Policy>, lasts: Duration) -> Tally {
    let memory = RateLimiter::in_memory();
    let pause = WINDOW.as_secs_f64() / (OVERLOAD * MAX as f64);
    let (mut random, mut tally) = (Random::default(), Tally::default());
    let start = Instant::now();
    let mut due = 0.0;
    while due < lasts.as_secs_f64() {
        due += random.wait() * pause;
        let wait = Duration::from_secs_f64(due).saturating_sub(start.elapsed());
        if wait > Duration::from_millis(1) {
            tokio::time::sleep(wait).await;
        }
        while start.elapsed().as_secs_f64() < due {
            tokio::task::yield_now().await;
        }
        tally.asked += 1;
        let outcome = limiter.check(&policy, "attacker").await.unwrap();
        assert!(!outcome.is_degraded(), "decided without Redis");
        tally.passed += u64::from(outcome.is_allowed());
        let outcome = memory.check(&policy, "attacker").await.unwrap();
        tally.passed_in_memory += u64::from(outcome.is_allowed());
    }
    tally
}
