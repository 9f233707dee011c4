//! Runs under valgrind, which counts its instructions: decides so many times about one caller.
//!
//! Arguments: what decides, by its name in `memory`, and how often.
#![allow(clippy::expect_used, reason = "a benchmark: a panic is the report")]

use std::hint::black_box;

use benches::caller::Caller;
use benches::memory;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("a name");
    let times: u64 = arguments.next().expect("how often").parse().expect("a number");
    let decide = memory::make(&name);
    for _ in 0..times {
        assert!(decide(black_box(Caller::new(0, 7))));
    }
}
