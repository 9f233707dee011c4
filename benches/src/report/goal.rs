//! The numbers that are to be reached, and what was measured instead.

use std::fmt;

use crate::spread::Spread;

/// One promise about speed, size or correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Many callers through Redis.
    Throughput,
    /// One caller through Redis.
    HotCaller,
    /// A check alone.
    Latency,
    /// State in Redis.
    RedisMemory,
    /// Long logs.
    LongLog,
    /// More requests than pass.
    Overload,
    /// The store in memory.
    InMemory,
    /// The attribute.
    Handler,
    /// Outages.
    RedisDead,
    /// Admissions.
    Exactness,
}

impl Row {
    /// All, in the order of the report.
    pub const ALL: [Self; 10] = [
        Self::Throughput,
        Self::HotCaller,
        Self::Latency,
        Self::RedisMemory,
        Self::LongLog,
        Self::Overload,
        Self::InMemory,
        Self::Handler,
        Self::RedisDead,
        Self::Exactness,
    ];

    /// What it is about.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Throughput => "decisions a second through Redis, 512 tasks, 1000 callers",
            Self::HotCaller => "decisions a second through Redis, 512 tasks, one caller",
            Self::Latency => "one check with nothing else in flight",
            Self::RedisMemory => "Redis memory for a caller",
            Self::LongLog => "time of Redis for a decision about a long log",
            Self::Overload => "10 × overload through one process",
            Self::InMemory => "in-memory check, hot caller",
            Self::Handler => "annotated handler, in memory",
            Self::RedisDead => "Redis dead",
            Self::Exactness => "exactness",
        }
    }

    /// What is to be reached.
    pub const fn goal(self) -> &'static str {
        match self {
            Self::Throughput => "≥ 4 × one EVALSHA a check, ≥ 6 × the usual two-key script, ≥ 2 × plain INCR",
            Self::HotCaller => "≥ 10 × one EVALSHA a check",
            Self::Latency => "one round trip, p50 ≤ 1.15 × a bare INCR's",
            Self::RedisMemory => "≤ 128 B for two windows, ≤ 12 B an entry of a log from 100 entries up",
            Self::LongLog => "that of a short one within 2 ×, whatever is asked",
            Self::Overload => "≥ 79 % of Redis calls gone, admitted count unchanged",
            Self::InMemory => "≤ 2 × the floor, ≤ half of governor's instructions, ≤ 64 B a caller",
            Self::Handler => "≤ 400 ns and ≤ 3 allocations over the bare handler; ahead of three peers",
            Self::RedisDead => {
                "p99 added < 1 ms once noticed, worst single request ≤ 120 ms, back within 2 s"
            }
            Self::Exactness => "0 over- and 0 under-admissions in 1 M decisions from 8 processes",
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
                "by `CONTENTION=full cargo test --release -p tests --test core many_concurrent_processes`",
                "by tests",
            )),
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
    /// The median is to be at least so much.
    pub fn at_least(row: Row, what: impl Into<String>, least: f64, unit: &str, measured: Spread) -> Self {
        let is_met = measured.median >= least;
        Self::new(row, what, format!("≥ {least}{unit}"), format!("{measured}{unit}"), is_met)
    }

    /// The median is to be at most so much.
    pub fn at_most(row: Row, what: impl Into<String>, most: f64, unit: &str, measured: Spread) -> Self {
        let is_met = measured.median <= most;
        Self::new(row, what, format!("≤ {most}{unit}"), format!("{measured}{unit}"), is_met)
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
