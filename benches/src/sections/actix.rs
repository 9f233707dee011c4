//! A limit on a real Actix server: requests over sockets, with the server in a process of its own.

use std::time::Duration;

use super::Bench;
use crate::children::Web;
use crate::cpu;
use crate::http_load::Connections;
use crate::report::{Goal, Report, Row};
use crate::rounds::{Measured, Variant, find, take_turns};
use crate::server::Server;
use crate::spread::{Spread, short};
use crate::table::Table;

const BARE: &str = "bare";
const LEAN: &str = "lean";
const FLOOR: &str = "floor";
const OURS: &str = "ours";
/// What the program of the server calls its limits, and what the report calls them.
const LIMITS: [(&str, &str); 4] = [
    (BARE, "no limit"),
    (LEAN, "one lean EVALSHA a request, on a connection of each worker"),
    (FLOOR, "floor: our script and arguments by a plain client, with our header fields"),
    (OURS, "ours, the attribute"),
];

/// Numbers of connections, and the goals: requests/s × floor.
const CONNECTIONS: [(usize, f64); 4] = [(2, 1.0), (8, 1.0), (32, 1.06), (256, 1.05)];
/// The goal of their p99 × floor.
const P99: f64 = 1.05;
/// The number of connections whose load the conclusion is about.
const CONCLUSION: usize = 32;
/// For how long handlers compute, with [`BUSY_CONNECTIONS`], and the goals: requests/s × lean.
const COMPUTED: [(Duration, f64); 2] = [(Duration::from_micros(200), 0.97), (Duration::from_millis(1), 0.99)];
const BUSY_CONNECTIONS: usize = 16;
const CALLERS: u64 = 1000;

/// What a load got.
#[derive(Clone, Copy, Debug)]
struct Served {
    per_second: f64,
    /// Nanoseconds of processor time of the web server for a request.
    web_ns: f64,
    /// Nanoseconds of processor time of Redis for a request.
    redis_ns: f64,
    /// Script calls for a request.
    calls: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("A real Actix server");
    report.text(&format!(
        "`HttpServer` with two workers, keep-alive connections from another process, {CALLERS} callers in a header field."
    ));
    report.text(
        "*floor* is what ours is measured against: the lean script believes the client's clock and makes one call of Redis, \
         ours makes three (`TIME`, `GET`, `SETRANGE`), so no limiter with the server's clock reaches lean. Floor is what a client \
         could reach with our script.",
    );
    let idle = CONNECTIONS.map(|(connections, goal)| (connections, Duration::ZERO, FLOOR, goal));
    let busy = COMPUTED.map(|(computes, goal)| (BUSY_CONNECTIONS, computes, LEAN, goal));
    for (connections, computes, base, goal) in idle.into_iter().chain(busy) {
        let measured = race(bench, servers, connections, computes);
        let mut load = format!("{connections} connections");
        if !computes.is_zero() {
            load = format!("{load}, handlers that compute for {computes:?}");
        }
        report.text(&format!("{load}:"));
        report.table(&table(&measured));
        let (ratio, unit) = (faster(&measured, OURS, base), format!(" × {base}"));
        report.goal(Goal::at_least(Row::Actix, format!("{load}, requests/s"), goal, &unit, ratio));
        if base == FLOOR {
            let [ours, floor] = [OURS, FLOOR].map(|name| find(&measured, name).each(|served| served.p99_us));
            let ratio = Spread::ratio(&ours, &floor);
            report.goal(Goal::at_most(Row::Actix, format!("{load}, p99"), P99, &unit, ratio));
        }
        if connections == CONCLUSION {
            conclude(&measured, report);
        }
    }
}

/// All limits under the same load.
fn race(
    bench: &Bench<'_>,
    servers: &[Server],
    connections: usize,
    computes: Duration,
) -> Vec<Measured<Served>> {
    let variants = LIMITS.iter().map(|(limit, _)| {
        let web = Web::start(bench.programs.web, limit, servers[0].port(), computes);
        let mut connections = Connections::open(web.port(), connections, CALLERS);
        Variant::new(*limit, move || serve(bench, servers, &web, &mut connections))
    });
    take_turns(bench.settings.goal_rounds, variants.collect())
}

fn serve(bench: &Bench<'_>, servers: &[Server], web: &Web, connections: &mut Connections) -> Served {
    let calls = servers[0].script_calls();
    let (web_ns, redis_ns) = (cpu::of_process(web.pid()), cpu::of_servers(servers));
    let responses = connections.load(bench.settings.span);
    let (web_ns, redis_ns) = (cpu::of_process(web.pid()) - web_ns, cpu::of_servers(servers) - redis_ns);
    let calls = servers[0].script_calls() - calls;
    let number = responses.times.len() as f64;
    let micros = |part| Spread::quantile(&responses.times, part) / 1000.0;
    Served {
        per_second: number / responses.seconds,
        web_ns: web_ns / number,
        redis_ns: redis_ns / number,
        calls: calls as f64 / number,
        p50_us: micros(0.5),
        p99_us: micros(0.99),
    }
}

/// How often one is as fast as the other.
fn faster(measured: &[Measured<Served>], one: &str, other: &str) -> Spread {
    let rates = |name| find(measured, name).each(|served| served.per_second);
    Spread::ratio(&rates(one), &rates(other))
}

fn table(measured: &[Measured<Served>]) -> Table {
    let mut table = Table::new([
        "what",
        "requests/s",
        "× lean",
        "× floor",
        "ns over no limit",
        "Redis ns",
        "script calls",
        "p50 us",
        "p99 us",
    ]);
    let bare = find(measured, BARE).each(|served| served.web_ns);
    for (limit, name) in LIMITS {
        let one = find(measured, limit);
        let median = |number: fn(&Served) -> f64| short(one.spread(number).median);
        table.row([
            name.to_owned(),
            median(|served| served.per_second),
            faster(measured, limit, LEAN).to_string(),
            faster(measured, limit, FLOOR).to_string(),
            Spread::difference(&one.each(|served| served.web_ns), &bare).to_string(),
            median(|served| served.redis_ns),
            median(|served| served.calls),
            median(|served| served.p50_us),
            median(|served| served.p99_us),
        ]);
    }
    table
}

fn conclude(measured: &[Measured<Served>], report: &mut Report) {
    let left = |name| 100.0 * faster(measured, name, BARE).median;
    let p99 = |name| find(measured, name).spread(|served| served.p99_us).median;
    report.conclude(&format!(
        "At {CONCLUSION} connections a server that does nothing else keeps {:.0} % of its requests/s with a limit through Redis \
         ({:.0} % with a plain script, {:.0} % with ours by a plain client), and its p99 goes from {} to {} us.",
        left(OURS),
        left(LEAN),
        left(FLOOR),
        short(p99(BARE)),
        short(p99(OURS)),
    ));
}
