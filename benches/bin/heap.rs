//! Counts allocations of a request, and bytes of the heap for a caller. Prints `what|name|number` lines.
//!
//! Argument: callers of the largest population.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark: a panic is the report")]
#![allow(clippy::cast_precision_loss, reason = "counts become numbers of a report")]

use std::alloc::System;

use benches::caller::Caller;
use benches::{handlers, memory};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests among which allocations are divided.
const REQUESTS: u64 = 1000;

/// Bytes that are held.
fn held(stats: &Stats) -> i128 {
    // What grew or shrank in place is in both.
    stats.bytes_allocated as i128 - stats.bytes_deallocated as i128
}

fn main() {
    let crowd: u64 = std::env::args().nth(1).expect("a number of callers").parse().expect("a number");
    let system = actix_web::rt::System::new();
    for name in handlers::IN_MEMORY {
        let (each, bytes) = system.block_on(async {
            let app = handlers::make(name, "").await;
            // Everything that is made once, and every caller.
            app.serve(handlers::requests(REQUESTS)).await;
            let requests = handlers::requests(REQUESTS);
            let before = HEAP.stats();
            app.serve(requests).await;
            let after = HEAP.stats();
            let made = |stats: &Stats| stats.allocations + stats.reallocations;
            let bytes = after.bytes_allocated - before.bytes_allocated;
            ((made(&after) - made(&before)) as f64 / REQUESTS as f64, bytes as f64 / REQUESTS as f64)
        });
        println!("allocations|{name}|{each}");
        println!("bytes|{name}|{bytes}");
    }
    for name in [memory::OURS, memory::GOVERNOR] {
        let before = held(&HEAP.stats());
        let decide = memory::make(name);
        let empty = held(&HEAP.stats());
        println!("empty|{name}|{}", empty - before);
        // From one doubling of the tables to the next and beyond.
        let (mut known, mut next) = (0, crowd / 16);
        while next <= crowd {
            for number in known..next {
                assert!(decide(Caller::new(0, number)));
            }
            known = next;
            let each = (held(&HEAP.stats()) - before) as f64 / known as f64;
            println!("caller {known}|{name}|{each}");
            next = (next * 5 / 4).max(next + 1);
        }
    }
}
