//! The script of slots, called with what processes may report.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::AsyncCommands;
use tests::redis::{Server, server};

use super::{TWO, entries};

/// A message to the script: its report, and the costs of its requests. A cost of `None` is a peek.
#[derive(Clone, Debug)]
struct Message {
    process: usize,
    granted: u64,
    freed: u64,
    costs: Vec<Option<u64>>,
    /// By how much the clock moves before the message, in microseconds.
    step: i64,
}

fn message() -> impl Strategy<Value = Message> {
    let cost = prop_oneof![1 => Just(None), 2 => Just(Some(0)), 4 => Just(Some(1)), 1 => Just(Some(3))];
    let step = prop_oneof![
        4 => 0i64..1_000_000,
        2 => 0i64..6_000_000,
        1 => Just(10_000_000),
        1 => Just(9_999_999),
        1 => -20_000_000i64..0,
    ];
    (0usize..4, 0u64..6, 0u64..6, prop::collection::vec(cost, 1..5), step).prop_map(
        |(process, granted, freed, costs, step)| Message {
            process,
            granted,
            freed: freed.min(granted),
            costs,
            step,
        },
    )
}

/// The name by which the script of slots alone is called.
async fn script_of_slots(server: &Server) -> String {
    let mut monitor = tests::redis::Console::at(&server.url());
    monitor.must("MONITOR");
    drop(server.limiter().acquire(&TWO, "a").await.unwrap().unwrap());
    loop {
        let line = monitor.read();
        if let Some((_, call)) = line.split_once("\"EVALSHA\" \"")
            && call.contains(":n:{")
        {
            return call.split('"').next().unwrap().to_owned();
        }
    }
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Reports may come in any order, late, twice or never. The script keeps the largest numbers of each process,
/// also of a denied message, and drops and cuts entries as the rule does.
#[test]
fn the_script_keeps_the_reports_of_each_process_as_the_rule_does() {
    const HOLD: i64 = 10_000_000;
    const WRAP: u64 = 1 << 48;
    let Some(server) = server() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sha = runtime.block_on(script_of_slots(&server));
    let connection = std::cell::RefCell::new(runtime.block_on(server.raw()));
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    // Reported numbers grow, and the script keeps 48 bits of them: from 0, and past these bits.
    let base = prop_oneof![Just(0u64), WRAP - 8..WRAP];
    let messages = (1u64..6, base, prop::collection::vec(message(), 1..25));
    let run = runner.run(&messages, |(max, base, messages)| {
        number.set(number.get() + 1);
        let key = format!("script {}", number.get());
        let mut now = i64::try_from(tests::START).unwrap();
        // For each process until when its entry counts, and both reported numbers.
        let mut reported: [Option<(i64, u64, u64)>; 4] = [None; 4];
        let mut before: Option<Vec<u8>> = None;
        for Message { process, granted, freed, costs, step } in messages {
            now += step;
            let mut expected = String::new();
            for cost in &costs {
                let mut live = reported;
                let own = live[process].take();
                for entry in &mut live {
                    *entry = entry
                        .filter(|entry| entry.0 > now)
                        .map(|(till, granted, freed)| (till.min(now + HOLD), granted, freed));
                }
                let mut granted = own.map_or(granted, |own| own.1.max(granted));
                let freed = own.map_or(freed, |own| own.2.max(freed));
                let held: u64 = live.iter().flatten().map(|entry| entry.1 - entry.2).sum();
                let fits = held + granted - freed + cost.unwrap_or(1) <= max;
                expected.push(if fits { '1' } else { '0' });
                if cost.is_some() {
                    granted += if fits { cost.unwrap() } else { 0 };
                    // An entry without held slots stays: it shows that an overtaken message is old.
                    live[process] =
                        (own.is_some() || granted > freed).then_some((now + HOLD, granted, freed));
                    reported = live;
                }
            }
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            let arguments = [
                doubles(&[now as f64, 1.0, 5.0, max as f64, HOLD as f64, 1.0, 1.0, -1.0]),
                costs
                    .iter()
                    .flat_map(|cost| {
                        doubles(&[
                            if cost.is_some() { 1.0 } else { -1.0 },
                            1.0,
                            1.0,
                            cost.unwrap_or(1) as f64,
                        ])
                    })
                    .collect(),
                doubles(&[0.0]),
                doubles(&[
                    1_000.0 + process as f64,
                    ((base + granted) % WRAP) as f64,
                    ((base + freed) % WRAP) as f64,
                ]),
            ];
            let mut call = redis::cmd("EVALSHA");
            call.arg(&sha).arg(1).arg(&key).arg(&arguments[..]);
            let mut connection = connection.borrow_mut();
            let reply: Vec<u8> = runtime.block_on(call.query_async(&mut *connection)).unwrap();
            let (found, verdicts) = reply[8..].split_at(reply.len() - 8 - costs.len());
            prop_assert_eq!(std::str::from_utf8(verdicts).unwrap(), expected);
            prop_assert_eq!(found, before.as_deref().unwrap_or(b"."), "the state that was found");
            before = runtime.block_on(connection.get(&key)).unwrap();
            let mut found = before.as_deref().map_or(Vec::new(), entries);
            let mut kept: Vec<(u64, u64)> = reported
                .iter()
                .flatten()
                .map(|(till, granted, freed)| (u64::try_from(*till).unwrap(), granted - freed))
                .collect();
            found.sort_unstable();
            kept.sort_unstable();
            prop_assert_eq!(found, kept);
        }
        Ok(())
    });
    run.unwrap();
}
