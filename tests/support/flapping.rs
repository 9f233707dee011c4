//! A server that comes and goes.

use std::time::{Duration, Instant};

use ratelimit_core::RateLimiter;

use crate::noise::Noise;
use crate::outage::{LONGEST, PROBE, millis};
use crate::process::{files, resident_kib, threads};
use crate::redis::server;

/// What one state of the server lasts at least.
const PHASE: Duration = Duration::from_secs(1);

/// Checks that are decided each time while the server is up.
const DECIDED: u64 = 100;

/// How long these may take: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends about a thousand checks a second while the server is down for a second and up for a second or more,
/// `cycles` times, and makes sure that nothing grows: files, threads, memory. Alone in its process.
#[allow(clippy::disallowed_methods, reason = "measures")]
pub fn flap(cycles: u32) {
    let Some(mut server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    let noise = Noise::watch();
    let (mut checks, mut slowest) = (0u64, Duration::ZERO);
    let mut check_for_a_phase = |wanted: u64| {
        let (start, mut decided) = (Instant::now(), 0u64);
        runtime.block_on(async {
            while start.elapsed() < PHASE || decided < wanted {
                assert!(start.elapsed() < PATIENCE, "{decided} decided");
                let began = Instant::now();
                let caller = (checks % 100).to_le_bytes();
                decided += u64::from(limiter.check(&PROBE, caller).await.is_ok());
                slowest = slowest.max(began.elapsed());
                checks += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        decided
    };
    let mut begin = None;
    for cycle in 0..=cycles {
        check_for_a_phase(DECIDED);
        server.kill();
        assert_eq!(check_for_a_phase(0), 0, "decided without a server");
        server.restart();
        // The first cycle warms up.
        let held = (files(), threads(), resident_kib());
        begin = begin.or(Some(held));
        if cycle % 10 == 0 {
            println!("cycle {cycle}: {} files, {} threads, {} KiB", held.0, held.1, held.2);
        }
    }
    let (begin, end) = (begin.unwrap(), (files(), threads(), resident_kib()));
    println!(
        "{cycles} cycles: {checks} checks, slowest {:.1} ms, files {} to {}, threads {} to {}, \
         resident {} to {} KiB (noise {:.1} ms)",
        millis(slowest),
        begin.0,
        end.0,
        begin.1,
        end.1,
        begin.2,
        end.2,
        millis(noise.worst())
    );
    assert!(slowest <= LONGEST + noise.slack(), "{slowest:?}");
    // One connection may be under way.
    assert!(end.0 <= begin.0 + 2, "files: {} to {}", begin.0, end.0);
    assert!(end.1 <= begin.1 + 1, "threads: {} to {}", begin.1, end.1);
    assert!(end.2 <= begin.2 + 2048, "resident: {} to {} KiB", begin.2, end.2);
}
