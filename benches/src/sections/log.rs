//! What a decision about a long log costs Redis, for every kind of check.

use std::time::Duration;

use ratelimit_actix::ratelimit_core::Timestamp;
use ratelimit_actix::ratelimit_core::clock::FakeClock;
use ratelimit_actix::{Algorithm, Check, MemoryStore, Policy, RateLimiter, RedisStore};
use redis::cmd;

use super::Bench;
use crate::clocks::START_US;
use crate::ours::{self, DEADLINE};
use crate::recorder::record;
use crate::report::{Goal, Report, Row};
use crate::rounds::Measured;
use crate::server::Server;
use crate::spread::{Spread, round, short};
use crate::table::Table;

/// Entries of the logs.
const SIZES: [u64; 3] = [100, 10_000, 1_000_000];

/// Entries that are added in one write.
const PIPELINE: usize = 1000;

/// Makes the server note the time of each call.
const SLOW_LOG: [&str; 4] = ["--slowlog-log-slower-than", "0", "--slowlog-max-len", "1024"];

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

/// Microseconds of the server.
#[derive(Clone, Copy, Debug)]
struct Cost {
    decision: f64,
    longest_call: f64,
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

    /// The first caller's log, and a copy of it. All entries but the first are added by the same call as the
    /// first, at other instants, since a check at a time would take a minute for the longest log.
    fn fill(&self, policy: &Policy, entries: u64) {
        self.server.flush();
        self.go(1, Duration::ZERO);
        let check =
            || assert!(self.bench.runtime.block_on(self.limiter.check(policy, "0")).unwrap().is_allowed());
        let calls = record(self.server.port(), check);
        let [call] = &calls[..] else { panic!("a check made {} calls", calls.len()) };
        let mut connection = self.bench.runtime.block_on(self.server.connect());
        for first in (2..=entries).step_by(PIPELINE) {
            let mut pipe = redis::pipe();
            for entry in (first..=entries).take(PIPELINE) {
                pipe.add_command(call.clone().at(START_US + entry * STEP).command()).ignore();
            }
            let () = self.bench.runtime.block_on(pipe.query_async(&mut connection)).unwrap();
        }
        self.go(entries, Duration::ZERO);
        let held = self.bench.runtime.block_on(self.limiter.peek(policy, "0")).unwrap();
        assert_eq!(policy.max() - held.remaining(), entries, "entries of the log");
        self.copy(&self.keys()[0], "original");
    }

    fn keys(&self) -> Vec<String> {
        self.server.ask(cmd("KEYS").arg("rl1:*"))
    }

    fn copy(&self, from: &str, to: &str) {
        let _: u64 = self.server.ask(cmd("COPY").arg(from).arg(to).arg("REPLACE"));
    }

    /// Microseconds of each script call since the [slow log](SLOW_LOG) was emptied.
    fn calls(&self) -> Vec<f64> {
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let entries: Vec<Entry> = self.server.ask(cmd("SLOWLOG").arg("GET").arg(-1));
        let calls = entries.into_iter().filter(|entry| entry.3[0].eq_ignore_ascii_case(b"evalsha"));
        calls.map(|entry| entry.2 as f64).collect()
    }

    /// Microseconds of the server for a decision, and of its longest call.
    fn cost(&self, case: Case, entries: u64) -> Cost {
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
        // Copying a long log has driven everything else out of the processor's caches, also what every call
        // needs.
        self.bench.runtime.block_on(async {
            for _ in 0..WARM_UP {
                let _ = self.limiter.peek_all(&[Check::new(policy, "0").with_cost(cost)]).await.unwrap();
            }
        });
        let () = self.server.ask(cmd("SLOWLOG").arg("RESET"));
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
        let calls = self.calls();
        let decisions = if case == Case::Batch { CALLERS as f64 } else { 1.0 };
        Cost {
            decision: calls.iter().sum::<f64>() / decisions,
            longest_call: calls.into_iter().fold(0.0, f64::max),
        }
    }
}

fn log(max: u64) -> Policy {
    Policy::builder("log").algorithm(Algorithm::SlidingWindowLog).max(max).window(WINDOW).build()
}

/// The costs of each case, about a log of `size` entries.
fn measure(bench: &Bench<'_>, server: &Server, size: u64) -> [Measured<Cost>; Case::ALL.len()] {
    let clock = FakeClock::at(Timestamp::from_micros(START_US));
    let store = RedisStore::builder(&server.url()).deadline(DEADLINE).clock(clock.clone());
    let limiter = ours::ready(RateLimiter::new(store.denial_cache_ttl(Duration::ZERO).build().unwrap()));
    let stage = Stage { bench, server, clock, limiter };
    let mut filled = 0;
    Case::ALL.map(|case| {
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
        let rounds = (0..=rounds).map(|_| stage.cost(case, entries)).skip(1).collect();
        Measured { name: case.name().to_owned(), rounds }
    })
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    report.section("Long logs in Redis");
    report.text(
        "Microseconds of the server for one decision, by entries. Logs in a batch have 10 000 at most.",
    );
    let server = Server::start(&SLOW_LOG);
    let sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size <= bench.settings.crowd).collect();
    let costs: Vec<_> = sizes.iter().map(|&size| measure(bench, &server, size)).collect();
    let head = ["us".to_owned()].into_iter().chain(sizes.iter().map(|size| round(*size as f64)));
    let head = head.chain(["largest / smallest".to_owned(), "longest call".to_owned()]);
    let mut table = Table::new(head.collect::<Vec<_>>());
    let (mut steepest, mut longest) = (0.0, (Case::Admitted, Spread::of(vec![0.0])));
    for (i, case) in Case::ALL.into_iter().enumerate() {
        let by_size: Vec<Spread> = costs.iter().map(|costs| costs[i].spread(|cost| cost.decision)).collect();
        let medians = by_size.iter().map(|spread| spread.median);
        let ratio = medians.clone().fold(0.0, f64::max) / medians.fold(f64::INFINITY, f64::min);
        steepest = ratio.max(steepest);
        let longest_calls = costs.iter().map(|costs| costs[i].spread(|cost| cost.longest_call));
        let call =
            longest_calls.max_by(|one, other| one.median.total_cmp(&other.median)).expect("there are sizes");
        if call.median > longest.1.median {
            longest = (case, call);
        }
        let cells = by_size.iter().map(Spread::to_string).chain([short(ratio), call.to_string()]);
        table.row([case.name().to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
    }
    report.table(&table);
    let (case, call) = longest;
    let largest = round(sizes[sizes.len() - 1] as f64);
    let what = format!("logs of {} to {largest} entries ({})", sizes[0], case.name());
    report.goal(Goal::at_most(Row::LongestCall, what, 1000.0, " us", call));
    report.conclude(&format!(
        "A decision about a log of {largest} entries takes Redis at most {} × the time of one about {}, and the longest call \
         held it for {} us in the median round.",
        short(steepest),
        sizes[0],
        short(call.median),
    ));
}
