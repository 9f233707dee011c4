//! Bytes of the heap for each caller in memory, and allocations of a request.

use super::Bench;
use crate::children::{self, Count};
use crate::handlers::{BARE, EXTENSIBLE, GOVERNOR, IN_MEMORY, OURS};
use crate::memory;
use crate::report::{Goal, Report, Row};
use crate::spread::{Spread, short};
use crate::table::Table;

/// Measures and reports.
pub fn run(bench: &Bench<'_>, report: &mut Report) {
    let counts = children::heap(bench.programs.heap, bench.settings.crowd);
    allocations(&counts, report);
    callers(&counts, report);
}

fn allocations(counts: &[Count], report: &mut Report) {
    let of = |what: &str, name: &str| {
        counts
            .iter()
            .find(|count| count.what == what && count.name == name)
            .map_or(f64::NAN, |count| count.number)
    };
    report.section("Allocations of a request");
    report.text(
        "Of a one-route app, from the request to the dropped answer; the request itself is made before.",
    );
    let mut table = Table::new(["app", "allocations", "over bare", "bytes", "bytes over bare"]);
    for name in IN_MEMORY {
        let (number, bytes) = (of("allocations", name), of("bytes", name));
        let over = |what, number| short(number - of(what, BARE));
        table.row([
            name.to_owned(),
            short(number),
            over("allocations", number),
            short(bytes),
            over("bytes", bytes),
        ]);
    }
    report.table(&table);
    let over = |name| of("allocations", name) - of("allocations", BARE);
    let ours = over(OURS);
    report.goal(Goal::new(
        Row::Handler,
        "allocations over the bare handler",
        // Once in a while the digits of a new second are allocated.
        "≤ 2.01",
        short(ours),
        ours <= 2.014,
    ));
    report.conclude(&format!(
        "A limit with header fields adds {} allocations to a request; {GOVERNOR} adds {}, {EXTENSIBLE} {}.",
        short(ours),
        short(over(GOVERNOR)),
        short(over(EXTENSIBLE)),
    ));
}

fn callers(counts: &[Count], report: &mut Report) {
    let of = |name: &str| -> Vec<&Count> {
        counts.iter().filter(|count| count.name == name && count.what.starts_with("caller ")).collect()
    };
    let (ours, governor) = (of(memory::OURS), of(memory::GOVERNOR));
    report.section("Bytes of the heap for a caller");
    report.text(
        "Everything that the store holds, divided by its callers. Tables double when they are full: the quartiles are over the sizes.",
    );
    let mut table = Table::new(["callers", "ours", "governor"]);
    for (ours, governor) in ours.iter().zip(&governor) {
        let number = ours.what.trim_start_matches("caller ").to_owned();
        table.row([number, short(ours.number), short(governor.number)]);
    }
    report.table(&table);
    let bytes = |counts: &[&Count]| Spread::of(counts.iter().map(|count| count.number).collect());
    let (ours, governor) = (bytes(&ours), bytes(&governor));
    let empty = counts.iter().filter(|count| count.what == "empty");
    let empty: Vec<String> = empty.map(|count| format!("{} {} B", count.name, short(count.number))).collect();
    report.text(&format!(
        "Ours: {ours} B. governor, with a key of 20 bytes without a heap: {governor} B. Without callers: {}.",
        empty.join(", ")
    ));
    report.goal(Goal::at_most(Row::InMemory, "heap for a caller", 64.0, " B", ours));
    report.conclude(&format!("A million callers in memory take about {:.0} MB.", ours.median));
}
