//! What Redis keeps for a caller.

use ratelimit_actix::Algorithm;
use redis::cmd;

use super::{Bench, rival};
use crate::caller::Caller;
use crate::drive::Decider;
use crate::ours::{self, Ours};
use crate::report::{Goal, Report, Row};
use crate::rivals::Way;
use crate::server::Server;
use crate::spread::short;
use crate::table::Table;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    let server = &servers[0];
    report.section("Redis memory for a caller");
    report.text(
        "`MEMORY USAGE` of all keys of one caller, after one and after a hundred admitted requests; and the server's `used_memory` for each of many callers.",
    );
    let many = bench.settings.crowd / 200;
    let mut table = Table::new(["what", "after 1, B", "after 100, B", "each of many, B"]);
    let mut row = |name: &str, decider: &dyn Fn(Caller)| {
        let numbers = [after(server, 1, decider), after(server, 100, decider), each(server, many, decider)];
        table.row([name.to_owned()].into_iter().chain(numbers.map(short)).collect::<Vec<_>>());
        numbers
    };
    for way in Way::ALL.into_iter().filter(|way| *way != Way::Empty) {
        let rival = rival(bench, servers, way);
        row(way.name(), &|caller| assert!(bench.runtime.block_on(rival.decide(caller))));
    }
    let limiter = ours::connect(&server.url());
    let mut two_windows = [f64::NAN; 3];
    for (name, policy) in ours::algorithms() {
        let ours = Ours::new(&limiter, policy);
        let numbers =
            row(&format!("ours, {name}"), &|caller| assert!(bench.runtime.block_on(ours.decide(caller))));
        if name == "two windows" {
            two_windows = numbers;
        }
    }
    report.table(&table);
    let [_, after_hundred, of_many] = two_windows;
    let measured = format!("{after_hundred:.0} B");
    report.goal(Goal::new(Row::RedisMemory, "two windows", "≤ 128 B", measured, after_hundred <= 128.0));
    let entry = log(bench, servers, report);
    report.conclude(&format!(
        "A million callers of a sliding window counter take {of_many:.0} MB of Redis, however many requests they make; a log takes \
         {entry:.0} B more for each request in the window."
    ));
}

/// A log as it grows. Returns the bytes of an entry of the largest.
fn log(bench: &Bench<'_>, servers: &[Server], report: &mut Report) -> f64 {
    let limiter = ours::connect(&servers[0].url());
    let policy = ours::builder().algorithm(Algorithm::SlidingWindowLog).build();
    let ours = Ours::new(&limiter, policy);
    let theirs = rival(bench, servers, Way::Log);
    let mut last = f64::NAN;
    let mut table = Table::new(["entries", "ours, B", "B an entry", "sorted set, B", "B an entry"]);
    for entries in
        [10, 100, 1000, 10_000_u64].into_iter().filter(|entries| entries * 50 <= bench.settings.crowd)
    {
        let bytes =
            after(&servers[0], entries, &|caller| assert!(bench.runtime.block_on(ours.decide(caller))));
        let other =
            after(&servers[0], entries, &|caller| assert!(bench.runtime.block_on(theirs.decide(caller))));
        let each = bytes / entries as f64;
        last = each;
        let numbers = [bytes, each, other, other / entries as f64].map(short);
        table.row([entries.to_string()].into_iter().chain(numbers).collect::<Vec<_>>());
        if entries >= 100 {
            let what = format!("log of {entries} entries, each");
            report.goal(Goal::new(Row::RedisMemory, what, "≤ 12 B", format!("{each:.1} B"), each <= 12.0));
        }
    }
    report.text("A log as it grows, with every entry at an instant of its own:");
    report.table(&table);
    last
}

/// Bytes of all keys after a number of checks of one caller.
fn after(server: &Server, checks: u64, decide: &dyn Fn(Caller)) -> f64 {
    server.flush();
    for _ in 0..checks {
        decide(Caller::new(0, 7));
    }
    let keys: Vec<Vec<u8>> = server.ask(cmd("KEYS").arg("*"));
    let usage =
        |key: &Vec<u8>| -> u64 { server.ask(cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0)) };
    keys.iter().map(usage).sum::<u64>() as f64
}

/// Bytes that the server uses for each of many callers.
fn each(server: &Server, callers: u64, decide: &dyn Fn(Caller)) -> f64 {
    server.flush();
    let used = || server.info("memory", "used_memory").unwrap().parse::<f64>().unwrap();
    let before = used();
    for number in 0..callers {
        decide(Caller::new(0, number));
    }
    (used() - before) / callers as f64
}
