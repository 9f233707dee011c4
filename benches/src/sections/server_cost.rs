//! What a check costs the server alone: commands are sent in one write, so that system calls do not count.

use super::{Bench, compare};
use crate::caller::Caller;
use crate::cpu;
use crate::report::Report;
use crate::rivals::{Rival, Way, Wire};
use crate::rounds::{Variant, take_turns};
use crate::server::Server;

/// Commands in one write.
const BATCH: u64 = 1000;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, servers: &[Server], report: &mut Report) {
    servers[0].flush();
    report.section("What a check costs the server");
    report.text(
        "Nanoseconds of Redis's processor time, 1000 commands in one write over 200 callers. Only of ways that are one \
         command; ours decides many checks with one, so its cost is in the table of the throughput.",
    );
    let ways = Way::ALL.into_iter().filter(|way| way.is_one_command());
    let variants = ways.map(|way| {
        let wire = bench.runtime.block_on(servers[0].connect());
        let rival = Rival::new(way, Wire::Single(wire.clone()), servers);
        Variant::new(way.name(), move || {
            let mut pipe = redis::pipe();
            for i in 0..BATCH {
                pipe.add_command(rival.command(Caller::new(0, i % 200))).ignore();
            }
            let before = cpu::of_servers(servers);
            let () = bench.runtime.block_on(pipe.query_async(&mut wire.clone())).unwrap();
            (cpu::of_servers(servers) - before) / BATCH as f64
        })
    });
    let measured = take_turns(bench.settings.micro_rounds, variants.collect());
    report.table(&compare(&measured, Way::Empty.name(), "ns"));
}
