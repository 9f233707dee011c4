//! A load on a decider, and how long its decisions take.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::caller::{Caller, Callers};
use crate::cpu;
use crate::drive::Decider;
use crate::network::{sleep_until, wake_on_time};
use crate::random::Random;
use crate::server::Server;
use crate::spread::Spread;

/// When checks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// By a number of tasks, each of which makes its next check as soon as it has its answer.
    Tasks(u64),
    /// So many in a second, at random times that know nothing of each other.
    PerSecond(u64),
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks(1) => f.write_str("1 task"),
            Self::Tasks(tasks) => write!(f, "{tasks} tasks"),
            Self::PerSecond(rate) => write!(f, "{rate}/s"),
        }
    }
}

/// How long decisions took, and what they cost the servers.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Microseconds within which half of the decisions were made.
    pub p50: f64,
    /// Microseconds within which 99 of 100 were.
    pub p99: f64,
    /// Decisions in a second.
    pub per_second: f64,
    /// Nanoseconds of processor time of the servers for a decision.
    pub server_ns: f64,
}

/// Puts a load over 1000 callers on `decider` for `span`, and times each decision.
///
/// # Panics
///
/// When a check is denied: then something else was measured than intended.
pub fn time(
    runtime: &Runtime,
    decider: &impl Decider,
    servers: &[Server],
    arrivals: Arrivals,
    span: Duration,
) -> Times {
    let callers = Callers { population: 0, number: 1000 };
    let (server, start) = (cpu::of_servers(servers), Instant::now());
    let end = start + span;
    let mut random = Random::default();
    let mut tasks = Vec::new();
    match arrivals {
        Arrivals::Tasks(number) => {
            for _ in 0..number {
                let (decider, mut random) = (decider.clone(), Random::default());
                tasks.push(runtime.spawn(async move {
                    let mut times = Vec::new();
                    while Instant::now() < end {
                        times.push(decide(&decider, callers.any(&mut random)).await);
                    }
                    times
                }));
            }
        }
        Arrivals::PerSecond(rate) => {
            wake_on_time();
            let mut due = start;
            loop {
                due += Duration::from_secs_f64(random.wait() / rate as f64);
                if due >= end {
                    break;
                }
                sleep_until(due);
                let (decider, caller) = (decider.clone(), callers.any(&mut random));
                tasks.push(runtime.spawn(async move { vec![decide(&decider, caller).await] }));
            }
        }
    }
    let times = runtime.block_on(async {
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        times
    });
    Times {
        p50: Spread::quantile(&times, 0.5),
        p99: Spread::quantile(&times, 0.99),
        per_second: times.len() as f64 / start.elapsed().as_secs_f64(),
        server_ns: (cpu::of_servers(servers) - server) / times.len() as f64,
    }
}

/// Microseconds that a decision takes.
async fn decide(decider: &impl Decider, caller: Caller) -> f64 {
    let start = Instant::now();
    assert!(decider.decide(caller).await, "a check was denied");
    start.elapsed().as_nanos() as f64 / 1000.0
}
