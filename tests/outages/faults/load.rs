//! A thousand requests a second while the server dies and hangs.

use std::time::{Duration, Instant};

use ratelimit_core::{Algorithm, Policy, RateLimiter};
use tests::outage::{LONGEST, Outage, millis};
use tests::redis::server;

use super::SECOND;

/// One thousand requests a second, from a hundred tasks.
struct Load {
    tasks: Vec<tokio::task::JoinHandle<Vec<(Duration, bool)>>>,
    end: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Load {
    fn start(limiter: &RateLimiter) -> Self {
        static ANY: Policy = Policy::builder("any")
            .max(1_000_000_000)
            .window(Duration::from_secs(3600))
            .algorithm(Algorithm::FixedWindow)
            .build();
        let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let task = |i: u64| {
            let (limiter, end) = (limiter.clone(), std::sync::Arc::clone(&end));
            tokio::spawn(async move {
                let mut answers = Vec::new();
                let mut ticks = tokio::time::interval(Duration::from_millis(100));
                tokio::time::sleep(Duration::from_millis(i)).await;
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    ticks.tick().await;
                    let sent = Instant::now();
                    let outcome = limiter.check(&ANY, i.to_le_bytes()).await.unwrap();
                    assert!(outcome.is_allowed());
                    answers.push((sent.elapsed(), outcome.is_degraded()));
                }
                answers
            })
        };
        Self { tasks: (0..100).map(task).collect(), end }
    }

    /// All answers: how long each took, and whether it was degraded.
    async fn stop(self) -> Vec<(Duration, bool)> {
        self.end.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut all = Vec::new();
        for task in self.tasks {
            all.extend(task.await.unwrap());
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_and_a_hang_under_a_thousand_requests_a_second_keep_waits_bounded() {
    let Some(mut server) = server() else { return };
    let outage = Outage::of("load", &server.url());
    outage.until_up().await;
    let load = Load::start(&outage.limiter);
    let mut backs = Vec::new();
    tokio::time::sleep(SECOND).await;
    server.kill();
    tokio::time::sleep(SECOND).await;
    server.restart();
    let back = Instant::now();
    outage.until_up().await;
    backs.push(back.elapsed());
    tokio::time::sleep(SECOND).await;
    server.signal("STOP");
    tokio::time::sleep(SECOND).await;
    server.signal("CONT");
    let back = Instant::now();
    outage.until_up().await;
    backs.push(back.elapsed());
    tokio::time::sleep(SECOND / 2).await;
    let answers = load.stop().await;
    let slowest = answers.iter().map(|(took, _)| *took).max().unwrap();
    let degraded = answers.iter().filter(|(_, degraded)| *degraded).count();
    println!(
        "load: {} answers, {degraded} degraded, slowest {:.1} ms, back after kill {:.0} ms, after hang {:.0} ms \
         (noise {:.1} ms)",
        answers.len(),
        millis(slowest),
        millis(backs[0]),
        millis(backs[1]),
        millis(outage.noise.worst())
    );
    assert!(slowest <= LONGEST + outage.noise.slack(), "{slowest:?}");
    assert!(degraded > 500 && degraded < answers.len(), "{degraded} of {}", answers.len());
    assert!(backs[0] <= SECOND + outage.noise.slack(), "{backs:?}");
    assert!(backs[1] <= 2 * SECOND + outage.noise.slack(), "{backs:?}");
}
