//! A load on a decider: a number of tasks, each of which sends its next check as soon as it has its answer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::caller::{Caller, Callers};
use crate::cpu;
use crate::random::Random;
use crate::server::Server;

/// Something that decides over a connection; clones share it.
pub trait Decider: Clone + Send + Sync + 'static {
    /// Whether one unit passes for this caller.
    fn decide(&self, caller: Caller) -> impl Future<Output = bool> + Send;
}

/// The number of tasks, their callers, and how long they run.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Tasks.
    pub tasks: u64,
    /// The callers of their checks.
    pub callers: Callers,
    /// How long.
    pub span: Duration,
}

/// What a load got.
#[derive(Clone, Copy, Debug)]
pub struct Yield {
    /// Decisions in a second.
    pub per_second: f64,
    /// Nanoseconds of processor time of the servers for a decision.
    pub server_ns: f64,
    /// Nanoseconds of processor time of this process for a decision.
    pub client_ns: f64,
}

/// Puts a load on `decider` and measures what it gets.
///
/// # Panics
///
/// When a check is denied: then something else was measured than intended.
pub fn drive(runtime: &Runtime, decider: &impl Decider, servers: &[Server], load: Load) -> Yield {
    let ends = Arc::new(AtomicBool::new(false));
    let (server, client, start) = (cpu::of_servers(servers), cpu::of_this_process(), Instant::now());
    let decisions = runtime.block_on(async {
        let tasks: Vec<_> = (0..load.tasks)
            .map(|_| {
                let (decider, ends) = (decider.clone(), Arc::clone(&ends));
                tokio::spawn(async move {
                    let (mut random, mut decisions) = (Random::default(), 0_u64);
                    while !ends.load(Ordering::Relaxed) {
                        assert!(decider.decide(load.callers.any(&mut random)).await, "a check was denied");
                        decisions += 1;
                    }
                    decisions
                })
            })
            .collect();
        tokio::time::sleep(load.span).await;
        ends.store(true, Ordering::Relaxed);
        let mut decisions = 0;
        for task in tasks {
            decisions += task.await.unwrap();
        }
        decisions as f64
    });
    Yield {
        per_second: decisions / start.elapsed().as_secs_f64(),
        server_ns: (cpu::of_servers(servers) - server) / decisions,
        client_ns: (cpu::of_this_process() - client) / decisions,
    }
}
