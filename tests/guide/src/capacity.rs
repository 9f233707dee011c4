//! A small model of what one Redis needs: processor time from the size of batches. Tests compare it, the
//! bytes of a caller on the pages and the speeds in the README with the benchmark report, whichever machine
//! the report is from.

use std::fmt::Write as _;

/// Nanoseconds of Redis's processor for a call, whatever is in it, and for each request in it.
const CALL: u64 = 24_000;
const REQUEST: u64 = 1_300;
/// Most requests in a call, and most calls of a process at once: `MAX_CALL_WEIGHT` and `MAX_CALLS` of the
/// core.
const BATCH: u64 = 128;
const CALLS: u64 = 8;
/// Microseconds of a round trip in one data centre, during which requests of a process collect.
const ROUND_TRIP: u64 = 500;

/// Nanoseconds of Redis for a request, if this many of a process with one worker are unanswered: each in a
/// call of its own, as long as there are no more calls than go at once.
fn nanoseconds(unanswered: u64) -> u64 {
    let batch = unanswered.div_ceil(CALLS).clamp(1, BATCH);
    CALL / batch + REQUEST
}

/// Percent of a core for `rate` requests a second from `processes` together.
fn busy(rate: u64, processes: u64) -> u64 {
    (rate * nanoseconds(rate * ROUND_TRIP / 1_000_000 / processes)).div_ceil(10_000_000)
}

/// The table of the page.
pub(crate) fn table() -> String {
    let mut text =
        "| requests a second | from 1 process | from 10 | from 100 |\n|---|---|---|---|\n".to_owned();
    for rate in [1_000, 10_000, 30_000, 100_000] {
        _ = write!(text, "| {},000 |", rate / 1_000);
        for processes in [1, 10, 100] {
            _ = write!(text, " {} % |", busy(rate, processes));
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    /// Nanoseconds of Redis's processor for an `INCR` among many, on the machine of the page. On another
    /// machine all numbers are in proportion.
    const INCR: u32 = 612;

    /// A cell of the row that begins with `name`, in the first table after `before`.
    fn measured(report: &str, before: &str, name: &str, column: usize) -> f64 {
        let (_, rest) = report.split_once(before).unwrap_or_else(|| panic!("the report lacks {before}"));
        let row = rest.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let cell = row.and_then(|row| row.split('|').nth(column + 1)).unwrap_or_default().trim();
        // `1424`, `19.9 k`, `4512 (4071 to 4577)`.
        let number: f64 = cell
            .split([' ', '('])
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {cell}"));
        if cell.contains(" k") && !cell.contains('(') { number * 1_000.0 } else { number }
    }

    #[test]
    fn the_size_of_a_call_is_that_of_the_core() {
        let text = read("ratelimit-core/src/store/redis/queue/waiting.rs");
        for (name, value) in [("MAX_CALL_WEIGHT", BATCH), ("MAX_CALLS", CALLS)] {
            assert!(text.contains(&format!("const {name}: usize = {value};")), "{name} is not {value}");
        }
    }

    /// What the page says and a measured point differ by less than a third.
    fn agrees(said: u64, measured: f64, what: &str) {
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = said as f64 / measured;
        assert!((0.75..1.34).contains(&ratio), "{what}: the page says {said}, measured were {measured}");
    }

    #[test]
    fn the_page_agrees_with_the_report() {
        let report = read("benches/report/README.md");
        let many = "512 tasks over 1000 callers, each asking again";
        let [incr, ours] = ["plain INCR", "ours, two windows"].map(|row| measured(&report, many, row, 3));
        agrees(nanoseconds(512), ours / incr * f64::from(INCR), many);
        let page = read("docs/redis.md");
        let said = format!("an `INCR` among many takes {}.{} µs", INCR / 1_000, INCR % 1_000 / 100);
        assert!(page.contains(&said), "the page lacks {said}");
        for (said, row) in [(190, "ours, two windows"), (230, "ours, 10 sub-windows")] {
            assert!(page.contains(&format!("{said} bytes")), "the page has {said} bytes for {row}");
            agrees(said, measured(&report, "`MEMORY USAGE` of all keys", row, 3), row);
        }
        for file in ["redis.rs", "redis/builder.rs"] {
            let text = read(&format!("ratelimit-core/src/store/{file}"));
            assert!(text.contains("about 190 bytes of the"), "{file} has 190 bytes for a caller");
        }
    }

    #[test]
    fn the_speeds_of_the_readme_are_those_of_the_report() {
        let (readme, report) = (read("README.md"), read("benches/report/README.md"));
        for (said, what) in [(60, "A limit adds one round trip and about "), (1, "A limit in memory adds ")] {
            assert!(readme.contains(&format!("about {said} µs")), "the README has {said} µs: {what}");
            let (_, rest) = report.split_once(what).unwrap_or_else(|| panic!("the report lacks {what}"));
            agrees(said, rest.split(' ').next().unwrap_or_default().parse().unwrap(), what);
        }
    }
}
