//! A small model of what Redis needs: processor time from the size of batches, memory from the number of callers, connections from
//! the number of processes. Its constants are checked against the benchmark report.

use std::fmt::Write as _;

/// Nanoseconds of Redis's processor for a call, whatever is in it: reading, starting the script, writing.
const CALL: u64 = 24_000;
/// Nanoseconds for each request in the call of a single server.
const REQUEST: u64 = 1_300;
/// Nanoseconds for each request in a cluster, where each caller has a script call of its own in the pipeline.
const CLUSTER_REQUEST: u64 = 4_000;
/// Most requests in a call, `MAX_BATCH_WEIGHT` of the core.
const BATCH: u64 = 128;
/// Fewest requests of two calls that alternate, `MIN_OVERLAP` of the core.
const SMALL: u64 = 4;
/// Microseconds of a round trip in one data centre, during which requests of a process collect.
const ROUND_TRIP: u64 = 500;
/// Calls a second for each hot caller and process with leases, at most.
const LEASED: u64 = 40;
/// The hot callers of the table.
const HOT: u64 = 100;
/// Percent of one core that a server should be busy at most, so that it answers at once.
const BUSY: u64 = 60;

/// Nanoseconds of Redis for a request, in calls of this many requests.
pub(crate) fn nanoseconds(batch: u64, is_cluster: bool) -> u64 {
    CALL / batch.clamp(1, BATCH) + if is_cluster { CLUSTER_REQUEST } else { REQUEST }
}

/// Requests in a call if this many of a process are unanswered: two calls alternate, each with half of them.
fn half(unanswered: u64) -> u64 {
    unanswered.div_ceil(2).max(unanswered.min(SMALL)).clamp(1, BATCH)
}

/// Requests in a call of one of `processes` that send `rate` requests a second together to `nodes` servers.
fn batch(rate: u64, processes: u64, nodes: u64) -> u64 {
    half(rate * ROUND_TRIP / 1_000_000 / processes / nodes)
}

/// Percent of a core that each of `nodes` is busy. One node is a single server.
fn busy(rate: u64, processes: u64, nodes: u64) -> u64 {
    let nanoseconds = nanoseconds(batch(rate, processes, nodes), nodes > 1);
    (rate * nanoseconds).div_ceil(nodes * 10_000_000)
}

/// Most masters of a cluster: one for each slot.
const MOST_NODES: u64 = 16_384;

/// The smallest cluster whose nodes are not too busy, of at least three.
fn nodes(rate: u64, processes: u64) -> u64 {
    (3..=MOST_NODES).find(|nodes| busy(rate, processes, *nodes) <= BUSY).unwrap_or(MOST_NODES)
}

/// Requests a second that reach Redis if [`HOT`] callers send all of them, with leases.
fn with_leases(rate: u64, processes: u64) -> u64 {
    rate.min(HOT * processes * LEASED)
}

/// The tables of the page.
pub(crate) fn tables() -> String {
    let mut text = "| requests a second | processes | single server, busy | cluster, masters | connections to each | single server with \
                    leases, busy | cluster with leases, masters |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for rate in [1_000, 10_000, 100_000, 1_000_000] {
        for processes in [1, 10, 100] {
            let single = match busy(rate, processes, 1) {
                busy if busy <= BUSY => format!("{busy} %"),
                busy => format!("{busy} %: too much"),
            };
            let calls = with_leases(rate, processes);
            let leased = busy(calls, processes, 1);
            let leased_masters = nodes(calls, processes);
            let too_much = if leased > BUSY { ": too much" } else { "" };
            let masters = nodes(rate, processes);
            let _ = writeln!(
                text,
                "| {} | {processes} | {single} | {masters} | {processes}; in the cluster {} | {leased} %{too_much} | {leased_masters} |",
                grouped(rate),
                2 * processes
            );
        }
    }
    text += "\n| callers that count at a time | fixed window, counter | counter with 10 sub-windows | log of 100 entries |\n|---|---|---|---|\n";
    for callers in [10_000, 100_000, 1_000_000, 10_000_000] {
        let memory = |bytes: u64| {
            let mebibytes = (callers * bytes).div_ceil(1 << 20);
            if mebibytes < 10_240 {
                format!("{} MiB", grouped(mebibytes))
            } else {
                format!("{} GiB", mebibytes.div_ceil(1_024))
            }
        };
        let [counter, finer, log] = BYTES.map(|(_, bytes)| memory(bytes));
        let _ = writeln!(text, "| {} | {counter} | {finer} | {log} |", grouped(callers));
    }
    text
}

/// Bytes of the server for each of many callers, with its tables: the row of the report, and what the model takes.
const BYTES: [(&str, u64); 3] =
    [("ours, two windows", 186), ("ours, 10 sub-windows", 234), ("ours, log", 937)];

/// A number with commas.
fn grouped(number: u64) -> String {
    match number / 1_000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::lines;
    use crate::read;

    /// A cell of the row that begins with `name`, in the first table after `before`.
    fn measured(report: &str, before: &str, name: &str, column: usize) -> f64 {
        let (_, rest) = report.split_once(before).unwrap_or_else(|| panic!("the report lacks {before}"));
        let row = rest
            .lines()
            .find(|line| line.starts_with(&format!("| {name} ")))
            .unwrap_or_else(|| panic!("no {name}"));
        let cell = row.split('|').nth(column + 1).unwrap_or_default().trim();
        // `1424`, `19.9 k`, `4512 (4071 to 4577)`.
        let number: f64 = cell
            .split([' ', '('])
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{cell}"));
        if cell.contains(" k") && !cell.contains('(') { number * 1_000.0 } else { number }
    }

    #[test]
    fn the_size_of_a_call_is_that_of_the_core() {
        let pacing = read("ratelimit-core/src/store/redis/queue/pacing.rs");
        for (name, value) in [("MAX_BATCH_WEIGHT", BATCH), ("MIN_OVERLAP", SMALL)] {
            assert!(pacing.contains(&format!("const {name}: usize = {value};")), "{name} is not {value}");
        }
    }

    /// The model and a measured point differ by less than a third.
    fn agrees(model: u64, measured: f64, what: &str) {
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = model as f64 / measured;
        assert!((0.75..1.34).contains(&ratio), "{what}: the model says {model}, measured were {measured}");
    }

    #[test]
    fn the_model_agrees_with_the_report() {
        let report = read("benches/report/README.md");
        let single = "512 tasks over 1000 callers, each asking again";
        agrees(
            nanoseconds(half(512), false),
            measured(&report, single, "ours, two windows", 3),
            "512 tasks, single",
        );
        let few = "Processor time of Redis for a decision, 16 tasks over 16 callers";
        agrees(nanoseconds(half(16), false), measured(&report, few, "1", 1), "16 tasks, single");
        for tasks in [1, 8, 64, 512] {
            let table = format!("{tasks} tasks over 1000 callers:");
            agrees(
                nanoseconds(half(tasks / 3), true),
                measured(&report, &table, "ours, two windows", 3),
                &table,
            );
        }
        for (row, bytes) in BYTES {
            // A log of one entry, and 99 more.
            let more = if row.ends_with("log") {
                measured(&report, "`MEMORY USAGE` of all keys", row, 2)
                    - measured(&report, "`MEMORY USAGE` of all keys", row, 1)
            } else {
                0.0
            };
            agrees(bytes, measured(&report, "`MEMORY USAGE` of all keys", row, 3) + more, row);
        }
    }

    /// The run that the picture of a lease shows: one hot caller and one process.
    #[test]
    fn a_hot_caller_with_a_lease_takes_no_more_calls_than_the_model_says() {
        let run = lines::<6>(&read("ratelimit-core/src/store/redis/lease/tests/picture.csv"));
        let hot = run.iter().filter(|row| (400..900).contains(&row[0]));
        let (slices, calls) = hot.fold((0, 0), |(slices, calls), row| (slices + 1, calls + row[4]));
        let each_second = calls * 40 / slices;
        assert!((LEASED / 4..=LEASED).contains(&each_second), "{each_second} calls a second");
    }

    #[test]
    fn larger_loads_need_more() {
        assert!(busy(100_000, 10, 1) > busy(10_000, 10, 1));
        assert!(busy(100_000, 100, 1) > busy(100_000, 1, 1), "many processes have small batches");
        assert_eq!(
            nanoseconds(1_000, false),
            nanoseconds(BATCH, false),
            "no call is counted on to be larger"
        );
        for processes in [1, 10, 100] {
            let calls = with_leases(1_000_000, processes);
            assert!(nodes(calls, processes) <= nodes(1_000_000, processes), "leases need no more masters");
        }
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(grouped(10_240), "10,240");
    }
}
