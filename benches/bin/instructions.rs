//! Runs under valgrind, which counts its instructions: checks one caller a number of times.
//!
//! Arguments: what decides, by its name in `memory`, and how often.
#![allow(clippy::expect_used, reason = "a benchmark: a panic is the report")]

use std::hint::black_box;

use benches::caller::Caller;
use benches::memory::{self, Decide};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("a name");
    let times: u64 = arguments.next().expect("how often").parse().expect("a number");
    let decide = memory::make(&name);
    // Not counted: what happens only once, and the clock of a peer that measures the processor's until it is
    // sure, which never takes as long as the last time.
    assert!(decide(Caller::new(0, 7)));
    decide_counted_by_valgrind(&decide, times);
}

/// Valgrind counts what happens in here.
#[inline(never)]
fn decide_counted_by_valgrind(decide: &Decide, times: u64) {
    let caller = Caller::new(0, 7);
    for _ in 0..times {
        assert!(decide(black_box(caller)));
    }
}
