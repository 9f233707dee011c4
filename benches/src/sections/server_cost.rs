//! What a check costs the server alone: commands are sent in one write, so that system calls do not count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratelimit_actix::ratelimit_core::__private_0_1::PrivateLimiter as _;
use ratelimit_actix::{Algorithm, Check, Outcome, Policy, RateLimiter, RedisStore};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Builder;

use super::{Bench, compare};
use crate::caller::Caller;
use crate::ours::{self, DEADLINE};
use crate::recorder::{Call, record};
use crate::report::{Goal, Report, Row};
use crate::rivals::Way;
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::{MAX, cpu};

/// Checks in one write, each of another caller.
const CHECKS: u64 = 1024;

/// Loads that are recorded until their calls have the right size, and the pause between two.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Callers in a call.
const SIZES: [u64; 3] = [1, 16, 128];

/// The window of checks that find a state of the window before.
const SHORT_WINDOW: Duration = Duration::from_millis(100);

/// A window that does not end while it is measured.
const LONG_WINDOW: Duration = Duration::from_secs(3600);

/// Kinds of limits, what each is compared with, and the goal.
const KINDS: [(&str, &str, f64); 2] =
    [("calendar month", "fixed window", 1.0), ("wait", "token bucket", 1.1)];

/// What becomes of a check of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Passed,
    Denied,
    /// Passed, and the state is one of the window before.
    Rolled,
}

impl Case {
    const ALL: [Self; 3] = [Self::Passed, Self::Denied, Self::Rolled];

    const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Denied => "denied",
            Self::Rolled => "window rolled",
        }
    }

    fn policy(self) -> Policy {
        match self {
            Self::Passed => ours::builder().build(),
            Self::Denied => Policy::builder("denied").max(1).window(LONG_WINDOW).build(),
            Self::Rolled => Policy::builder("rolled").max(MAX).window(SHORT_WINDOW).build(),
        }
    }

    /// The goal for calls about one key, × lean.
    const fn goal(self) -> f64 {
        match self {
            Self::Passed => 1.7,
            Self::Denied => 1.5,
            Self::Rolled => 2.4,
        }
    }
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("What a check costs the server");
    report.text(&format!(
        "Nanoseconds of Redis's processor time for a check, {CHECKS} checks of as many callers in one write."
    ));
    let ways = Way::ALL.into_iter().filter(|way| way.is_one_command());
    let mut variants: Vec<Variant<'_, f64>> = ways
        .map(|way| {
            let rival = super::rival(bench, servers, way);
            let commands = (0..CHECKS).map(move |number| rival.command(Caller::new(0, number)));
            replay(bench, servers, way.name(), 1, move || commands.clone().collect())
        })
        .collect();
    for (case, size) in Case::ALL.into_iter().flat_map(|case| SIZES.map(|size| (case, size))) {
        let policy = case.policy();
        let calls = calls(servers, size, &async |limiter: &RateLimiter, caller| {
            let check = [Check::new(&policy, caller.as_ref())];
            limiter.check_all_on_worker(&check).await.unwrap().outcomes()[0].clone()
        });
        let wire = bench.runtime.block_on(servers[0].connect());
        let commands = move || {
            let commands: Vec<_> = calls.iter().map(Call::command).collect();
            if case == Case::Rolled {
                send(bench, &wire, commands.clone());
                // From here on the states are those of the window before.
                std::thread::sleep(SHORT_WINDOW);
            }
            commands
        };
        variants.push(replay(bench, servers, &name(case, size), size, commands));
    }
    let measured = take_turns(bench.settings.goal_rounds, variants);
    report.table(&compare(&measured, Way::Lean.name(), "ns"));
    goals(&measured, report);
    let cost = |size| find(&measured, &name(Case::Passed, size)).spread(|ns| *ns).median;
    report.conclude(&format!(
        "One core of Redis decides at most {} checks a second one by one, and {} in the calls that form under load.",
        short(1e9 / cost(SIZES[0])),
        short(1e9 / cost(SIZES[2])),
    ));
    kinds(bench, servers, report);
}

/// What a calendar window costs beside another fixed window, and a wait whose turn is now beside a check.
fn kinds(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    report.text("One check a call, of limits that decide in nearly the same way:");
    let bucket = || ours::builder().algorithm(Algorithm::TokenBucket).build();
    let kinds = ours::algorithms().into_iter().map(|(name, policy)| (name, policy, false));
    let kinds = kinds.chain([("wait", bucket(), true)]);
    let kinds = kinds.filter(|(name, ..)| KINDS.iter().any(|(one, other, _)| [one, other].contains(&name)));
    let variants = kinds.map(|(name, policy, waits)| {
        let calls = calls(servers, 1, &async |limiter: &RateLimiter, caller| {
            if waits {
                limiter.wait(&policy, caller, 1, Duration::ZERO).await.unwrap()
            } else {
                limiter.check(&policy, caller).await.unwrap()
            }
        });
        replay(bench, servers, name, 1, move || calls.iter().map(Call::command).collect())
    });
    let measured = take_turns(bench.settings.goal_rounds, variants.collect());
    report.table(&compare(&measured, KINDS[0].1, "ns"));
    for (name, base, goal) in KINDS {
        let ratio = Spread::ratio(&find(&measured, name).rounds, &find(&measured, base).rounds);
        report.goal(Goal::at_most(Row::CostOfOne, name, goal, &format!(" × {base}"), ratio));
    }
}

fn name(case: Case, size: u64) -> String {
    let calls = if size == 1 { "one check a call".to_owned() } else { format!("calls of {size} keys") };
    format!("ours, {calls}, {}", case.name())
}

fn goals(measured: &[Measured<f64>], report: &mut Report) {
    let lean = find(measured, Way::Lean.name());
    for case in Case::ALL {
        let ratio = Spread::ratio(&find(measured, &name(case, 1)).rounds, &lean.rounds);
        report.goal(Goal::at_most(Row::CostOfOne, case.name(), case.goal(), " × lean", ratio));
    }
}

/// Commands in one write, each of so many checks; the measurement is nanoseconds of the server for a check.
fn replay<'a>(
    bench: &'a Bench<'_>,
    servers: &'a [Server],
    name: &str,
    checks: u64,
    commands: impl Fn() -> Vec<redis::Cmd> + 'a,
) -> Variant<'a, f64> {
    let wire = bench.runtime.block_on(servers[0].connect());
    Variant::new(name, move || {
        let commands = commands();
        let checks = commands.len() as f64 * checks as f64;
        let before = cpu::of_servers(servers);
        send(bench, &wire, commands);
        (cpu::of_servers(servers) - before) / checks
    })
}

/// Sends commands in one write, and waits for the replies.
fn send(bench: &Bench<'_>, wire: &MultiplexedConnection, commands: Vec<redis::Cmd>) {
    let mut pipe = redis::pipe();
    for command in commands {
        pipe.add_command(command).ignore();
    }
    let () = bench.runtime.block_on(pipe.query_async(&mut wire.clone())).unwrap();
}

/// Calls about `size` callers each, [`CHECKS`] in all, no caller in two of them. What a worker asks in one
/// turn goes as one call.
fn calls(servers: &[Server], size: u64, decide: &impl AsyncFn(&RateLimiter, Caller) -> Outcome) -> Vec<Call> {
    let store = RedisStore::builder(&servers[0].url()).deadline(DEADLINE).denial_cache_ttl(Duration::ZERO);
    let limiter = ours::ready(RateLimiter::new(store.build().unwrap()));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let next = AtomicU64::new(0);
    let turn = async || {
        let checks = (0..size).map(|_| async {
            let caller = Caller::new(0, next.fetch_add(1, Ordering::Relaxed));
            assert!(!decide(&limiter, caller).await.is_degraded(), "decided without Redis");
        });
        futures_util::future::join_all(checks).await
    };
    let load = async || {
        for _ in 0..CHECKS / size {
            turn().await;
        }
    };
    // Until the worker has a connection of its own, the store's thread makes calls of what has arrived
    // there.
    for _ in 0..ATTEMPTS {
        runtime.block_on(async {
            turn().await;
            tokio::time::sleep(PAUSE).await;
        });
        let made = record(servers[0].port(), || runtime.block_on(load()));
        if made.len() as u64 == CHECKS / size && made.iter().all(|call| call.keys() as u64 == size) {
            return made;
        }
    }
    panic!("what a worker asked in one turn went as several calls, {ATTEMPTS} times");
}
