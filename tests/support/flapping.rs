//! A server that comes and goes.

use std::time::{Duration, Instant};

use ratelimit_core::RateLimiter;

use crate::noise::Noise;
use crate::outage::{LONGEST, PROBE, millis};
use crate::process::{files, resident_kib, threads};
use crate::redis::server;

/// What one state of the server lasts.
const PHASE: Duration = Duration::from_secs(1);

/// Sends about a thousand checks a second while the server is down for a second and up for a second, `cycles` times, and
/// makes sure that nothing grows: files, threads, memory. Alone in its process.
#[allow(clippy::disallowed_methods, reason = "measures")]
pub fn flap(cycles: u32) {
    let Some(mut server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = RateLimiter::redis(&server.url()).unwrap();
    let noise = Noise::watch();
    let (mut checks, mut decided, mut slowest) = (0u64, 0u64, Duration::ZERO);
    let mut check_for_a_phase = |decided: &mut u64| {
        let end = Instant::now() + PHASE;
        runtime.block_on(async {
            while Instant::now() < end {
                let began = Instant::now();
                let caller = (checks % 100).to_le_bytes();
                *decided += u64::from(limiter.check(&PROBE, caller).await.is_ok());
                slowest = slowest.max(began.elapsed());
                checks += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    };
    let mut begin = None;
    for cycle in 0..=cycles {
        check_for_a_phase(&mut decided);
        server.kill();
        check_for_a_phase(&mut decided);
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
        "{cycles} cycles: {checks} checks, {decided} decided, slowest {:.1} ms, files {} to {}, threads {} to {}, \
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
    assert!(decided > checks / 4 && decided < checks, "{decided} of {checks}");
    assert!(slowest <= LONGEST + noise.slack(), "{slowest:?}");
    // One connection may be under way.
    assert!(end.0 <= begin.0 + 2, "files: {} to {}", begin.0, end.0);
    assert!(end.1 <= begin.1 + 1, "threads: {} to {}", begin.1, end.1);
    assert!(end.2 <= begin.2 + 2048, "resident: {} to {} KiB", begin.2, end.2);
}
