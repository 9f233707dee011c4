//! The numbers that are to be reached, and what was measured instead.

use std::fmt;

use crate::spread::Spread;

/// One promise about speed, size or correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Checks of a distant server.
    Network,
    /// Several processes at a distant server.
    Processes,
    /// Many callers through one server.
    SingleServer,
    /// Many callers through a cluster.
    Cluster,
    /// A check alone.
    LoneCheck,
    /// A real Actix server.
    Actix,
    /// Script calls about one key.
    CostOfOne,
    /// Groups of a slot and a rate.
    Slots,
    /// State in Redis.
    RedisMemory,
    /// Script calls at their longest.
    LongestCall,
    /// More requests than pass.
    Overload,
    /// The store in memory.
    InMemory,
    /// The attribute.
    Handler,
    /// The attribute, when it is compiled.
    Compile,
    /// Units held in the process.
    Lease,
    /// Outages.
    RedisDead,
    /// Admissions.
    Exactness,
}

impl Row {
    /// All, in the order of the report.
    pub const ALL: [Self; 17] = [
        Self::Network,
        Self::Processes,
        Self::SingleServer,
        Self::Cluster,
        Self::LoneCheck,
        Self::Actix,
        Self::CostOfOne,
        Self::Slots,
        Self::RedisMemory,
        Self::LongestCall,
        Self::Overload,
        Self::InMemory,
        Self::Handler,
        Self::Compile,
        Self::Lease,
        Self::RedisDead,
        Self::Exactness,
    ];

    /// What it is about.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Network => "over a network",
            Self::Processes => "several processes, decisions/s",
            Self::SingleServer => "one server, 1000 callers, decisions/s",
            Self::Cluster => "cluster of three, decisions/s",
            Self::LoneCheck => "one check alone",
            Self::Actix => "a real Actix server",
            Self::CostOfOne => "Redis CPU of one check a call",
            Self::Slots => "Redis CPU of a group of a slot and a bucket",
            Self::RedisMemory => "Redis memory for a caller",
            Self::LongestCall => "longest script call",
            Self::Overload => "10 × overload through one process",
            Self::InMemory => "in-memory check, hot caller",
            Self::Handler => "annotated handler, in memory",
            Self::Compile => "compiling a handler with a limit",
            Self::Lease => "leased, below the limit, warm",
            Self::RedisDead => "Redis dead",
            Self::Exactness => "exactness",
        }
    }

    /// What is to be reached.
    pub const fn goal(self) -> &'static str {
        match self {
            Self::Network => {
                "0.25, 0.5 and 2 ms, 1 to 128 tasks and 500 to 8000 a second: p50 ≤ 1.08, p99 ≤ 1.25 × lean; cluster: p50 ≤ 1.12"
            }
            Self::Processes => {
                "saturated: ≥ 1.0 × lean's decisions a second; of several runtimes: p99 ≤ half of the deadline"
            }
            Self::SingleServer => {
                "tasks 8 / 64 / 512: ≥ 0.9 / 0.9 / 1.7 × lean; one thread, 1 / 2 / 8 / 32 / 64 / 512: ≥ 0.92 / 0.92 / 1.1 / 1.3 / 1.5 / 1.7; at 512 ≥ 3.2 × the two-key script"
            }
            Self::Cluster => "1000 callers and 1 M callers, 512 tasks: ≥ 1.2 × lean",
            Self::LoneCheck => "one round trip; p50 ≤ 1.5 × lean",
            Self::Actix => {
                "2 / 8 / 32 / 256 connections: ≥ 1.0 / 1.0 / 1.06 / 1.05 × floor's requests/s, p99 ≤ 1.05 × floor; \
                 16, handlers of 200 µs / 1 ms: ≥ 0.97 / 0.99 × lean's"
            }
            Self::CostOfOne => "passed ≤ 1.7, denied ≤ 1.5, rolled ≤ 2.4 × lean",
            Self::Slots => "≤ 1.1 × two rates",
            Self::RedisMemory => "≤ 128 B for two windows; log ≤ 12 B an entry from 100 entries up",
            Self::LongestCall => "about 1 ms, whatever is stored or asked",
            Self::Overload => "≥ 79 % of Redis calls gone through the denial cache, admitted count unchanged",
            Self::InMemory => "≤ 542 instructions with its keyed digest, ≤ 64 B a caller",
            Self::Handler => {
                "≤ 0.4 µs over the bare handler with header fields, ≤ 2.01 allocations; ahead of actix-extensible-rate-limit and actix-limitation"
            }
            Self::Compile => "check ≤ 5 ms, build ≤ 9 ms, binary ≤ 5 kB, over the route attribute alone",
            Self::Lease => {
                "512 tasks, 1000 callers / one caller: ≥ 15 × lean / ≥ 12 × lean; p50 ≤ 2 × the in-memory check; \
                 calls a request at 5000/s ≤ 1.5, 4 %, at 1000/s ≤ 7, 25 % (fixed window, two windows)"
            }
            Self::RedisDead => {
                "p99 added < 1 ms once noticed, worst single request ≤ 120 ms; back within 2 s of its return"
            }
            Self::Exactness => {
                "0 over- and 0 under-admissions in 1 M decisions from 8 processes; with leases 0 over-admissions in 10 M, with \
                 kills and stops among them"
            }
        }
    }

    /// Where it is measured, if not here, and whether it was met there.
    pub const fn elsewhere(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::RedisDead => Some((
                "by `tests/outages/faults/load.rs`, `a_kill_and_a_hang_under_a_thousand_requests_a_second_keep_waits_bounded` \
                 and the recoveries around it",
                "by tests",
            )),
            Self::Exactness => Some((
                "by `CONTENTION=full cargo test --release -p tests --test core many_concurrent_processes` and \
                 `LEASES=full cargo test --release -p tests --test outages processes_with_leases`",
                "by tests",
            )),
            Self::Compile => {
                Some(("in the full form, and by `cargo bench -p benches -- --only compile`", "–"))
            }
            _ => None,
        }
    }
}

/// A part of a promise, and what was measured.
#[derive(Clone, Debug)]
pub struct Goal {
    pub(super) row: Row,
    pub(super) what: String,
    pub(super) aim: String,
    pub(super) measured: String,
    pub(super) is_met: bool,
}

impl Goal {
    /// The median is to be at least so much; the goal has the unit.
    pub fn at_least(row: Row, what: impl Into<String>, least: f64, unit: &str, measured: Spread) -> Self {
        let is_met = measured.median >= least;
        Self::new(row, what, format!("≥ {least}{unit}"), measured.to_string(), is_met)
    }

    /// The median is to be at most so much; the goal has the unit.
    pub fn at_most(row: Row, what: impl Into<String>, most: f64, unit: &str, measured: Spread) -> Self {
        let is_met = measured.median <= most;
        Self::new(row, what, format!("≤ {most}{unit}"), measured.to_string(), is_met)
    }

    /// Something else.
    pub fn new(
        row: Row,
        what: impl Into<String>,
        goal: impl Into<String>,
        measured: impl Into<String>,
        is_met: bool,
    ) -> Self {
        Self { row, what: what.into(), aim: goal.into(), measured: measured.into(), is_met }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.is_met { "met" } else { "MISSED" };
        write!(f, "\n{met}: {}: {}, {}; goal {}", self.row.what(), self.what, self.measured, self.aim)
    }
}
