//! What a decision about a long log costs Redis, for every kind of check.

use std::time::Duration;

use ratelimit_actix::core::clock::FakeClock;
use ratelimit_actix::{Algorithm, Check, MemoryStore, Policy, RateLimiter, RedisStore, Timestamp};
use redis::cmd;

use super::Bench;
use crate::clocks::START_US;
use crate::report::{Goal, Report, Row};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::table::Table;

/// Entries of the logs.
const SIZES: [u64; 3] = [100, 10_000, 1_000_000]; // the last takes minutes to fill

/// Callers in one batch.
const CALLERS: u64 = 64;

/// Peeks before a measurement.
const WARM_UP: usize = 50;

/// Microseconds between entries.
const STEP: u64 = 3;

const WINDOW: Duration = Duration::from_secs(3600);

/// A kind of check of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Admitted,
    DeniedOne,
    DeniedAll,
    Expired,
    RefundOldest,
    Batch,
}

impl Case {
    const ALL: [Self; 6] =
        [Self::Admitted, Self::DeniedOne, Self::DeniedAll, Self::Expired, Self::RefundOldest, Self::Batch];

    const fn name(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::DeniedOne => "denied at cost 1",
            Self::DeniedAll => "denied at cost = max",
            Self::Expired => "first request after all but one entry have expired",
            Self::RefundOldest => "refund of the oldest entry",
            Self::Batch => "one of 64 callers at once, denied at cost = max",
        }
    }

    /// Entries of a log of `size`; a batch has many logs, so they are shorter.
    fn entries(self, size: u64) -> u64 {
        if self == Self::Batch { size.min(10_000) } else { size }
    }
}

/// A server with a log on it, and a clock for it.
struct Stage<'a> {
    bench: &'a Bench<'a>,
    server: &'a Server,
    clock: FakeClock,
    limiter: RateLimiter,
}

impl Stage<'_> {
    fn go(&self, entry: u64, later: Duration) {
        let later = u64::try_from(later.as_micros()).unwrap();
        self.clock.set(Timestamp::from_micros(START_US + entry * STEP + later));
    }

    /// The first caller's log, and a copy of it.
    fn fill(&self, policy: &Policy, entries: u64) {
        self.server.flush();
        self.bench.runtime.block_on(async {
            for entry in 1..=entries {
                self.go(entry, Duration::ZERO);
                assert!(self.limiter.check(policy, "0").await.unwrap().is_allowed());
            }
        });
        self.copy(&self.keys()[0], "original");
    }

    fn keys(&self) -> Vec<String> {
        self.server.ask(cmd("KEYS").arg("rl1:*"))
    }

    fn copy(&self, from: &str, to: &str) {
        let _: u64 = self.server.ask(cmd("COPY").arg(from).arg(to).arg("REPLACE"));
    }

    /// Microseconds that the server was busy with scripts so far.
    fn busy(&self) -> f64 {
        let told = self.server.info("commandstats", "cmdstat_evalsha").unwrap();
        told.split("usec=").nth(1).and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap()
    }

    /// Microseconds of the server for a decision.
    fn cost(&self, case: Case, entries: u64) -> f64 {
        let (full, roomy) = (log(entries), log(10_000_000));
        for key in self.keys() {
            self.copy("original", &key);
        }
        let group = [Check::new(&full, "0")];
        // Of an entry of another server's log, which was admitted at the same instant.
        self.go(1, Duration::ZERO);
        let elsewhere = RateLimiter::new(MemoryStore::new().with_clock(self.clock.clone()));
        let taken =
            self.bench.runtime.block_on(elsewhere.check_all(&group)).unwrap().reservation(&group).unwrap();
        self.go(entries, if case == Case::Expired { WINDOW } else { Duration::from_micros(1) });
        let (policy, cost) = match case {
            Case::Admitted => (&roomy, 1),
            Case::DeniedAll | Case::Batch => (&full, entries),
            _ => (&full, 1),
        };
        // Copying a long log has driven everything else out of the processor's caches, also what every call needs.
        self.bench.runtime.block_on(async {
            for _ in 0..WARM_UP {
                let _ = self.limiter.peek_all(&[Check::new(policy, "0").with_cost(cost)]).await.unwrap();
            }
        });
        let before = self.busy();
        self.bench.runtime.block_on(async {
            match case {
                Case::RefundOldest => self.limiter.refund(taken).await.unwrap(),
                Case::Batch => {
                    let callers: Vec<String> = (0..CALLERS).map(|caller| caller.to_string()).collect();
                    let asked = callers.iter().map(|caller| self.limiter.check_n(policy, caller, cost));
                    for answer in futures_util::future::join_all(asked).await {
                        assert!(!answer.unwrap().is_allowed());
                    }
                }
                _ => {
                    let answer = self.limiter.check_n(policy, "0", cost).await.unwrap();
                    assert_eq!(answer.is_allowed(), matches!(case, Case::Admitted | Case::Expired));
                }
            }
        });
        let decisions = if case == Case::Batch { CALLERS as f64 } else { 1.0 };
        (self.busy() - before) / decisions
    }
}

fn log(max: u64) -> Policy {
    Policy::builder("log").algorithm(Algorithm::SlidingWindowLog).max(max).window(WINDOW).build()
}

/// Microseconds of the server for a decision of each case, about a log of `size` entries.
fn measure(bench: &Bench<'_>, server: &Server, size: u64) -> Vec<Spread> {
    let clock = FakeClock::at(Timestamp::from_micros(START_US));
    let store = RedisStore::builder(&server.url()).deadline(Duration::from_secs(20)).clock(clock.clone());
    let limiter = RateLimiter::new(store.denial_cache_ttl(Duration::ZERO).build().unwrap());
    let stage = Stage { bench, server, clock, limiter };
    let mut filled = 0;
    let spreads = Case::ALL.map(|case| {
        let entries = case.entries(size);
        if entries != filled || case == Case::Batch {
            stage.fill(&log(10_000_000), entries);
            filled = entries;
        }
        if case == Case::Batch {
            for caller in 1..CALLERS {
                let policy = log(10_000_000);
                let _ = bench.runtime.block_on(stage.limiter.check(&policy, caller.to_string())).unwrap();
            }
        }
        let rounds = bench.settings.goal_rounds;
        Spread::of((0..=rounds).map(|_| stage.cost(case, entries)).skip(1).collect())
    });
    server.flush();
    spreads.into()
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    report.section("Long logs in Redis");
    report.text(
        "Microseconds of the server for one decision, by the entries of the log, every one of them at an instant of its \
         own. Logs in a batch have 10 000 at most.",
    );
    let last = if bench.settings.is_thorough { 3 } else { 2 };
    let sizes: Vec<u64> = SIZES[..last].to_vec();
    let spreads: Vec<Vec<Spread>> = sizes.iter().map(|&size| measure(bench, &servers[0], size)).collect();
    let head = ["us".to_owned()].into_iter().chain(sizes.iter().map(|size| short(*size as f64)));
    let mut table = Table::new(head.chain(["largest / smallest".to_owned()]).collect::<Vec<_>>());
    for (i, case) in Case::ALL.into_iter().enumerate() {
        let row: Vec<Spread> = spreads.iter().map(|spreads| spreads[i]).collect();
        let medians = row.iter().map(|spread| spread.median);
        let ratio = medians.clone().fold(0.0, f64::max) / medians.fold(f64::INFINITY, f64::min);
        let cells = row.iter().map(Spread::to_string).chain([short(ratio)]);
        table.row([case.name().to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
        let measured = format!("{ratio:.2} ×");
        report.goal(Goal::new(Row::LongLog, case.name(), "flat within 2 ×", measured, ratio <= 2.0));
    }
    report.table(&table);
}
