//! The run that the picture of a crash shows: `UPDATE_DOCS=1 cargo test -p ratelimit-core --lib picture` writes `picture.csv` anew,
//! from which `cargo run -p guide` draws.

use std::fmt::Write as _;
use std::mem;
use std::path::Path;

use super::processes::{SECOND, World};
use crate::slots::Slots;

/// Slots of the caller.
const MAX: u64 = 6;

/// Time between two looks, and between two requests of a process.
const TICK: u64 = SECOND / 4;

/// How long a stream takes.
const STREAM: u64 = 2 * SECOND;

/// When the first of both processes crashes, and when the run ends.
const CRASH: u64 = 10 * SECOND;
const END: u64 = 30 * SECOND;

/// A stream that runs.
struct Stream {
    process: usize,
    ends: u64,
    _slot: Slots,
}

/// What runs in each process, and what the server counts.
#[derive(Debug)]
struct Moment {
    time: u64,
    first: usize,
    second: usize,
    counted: u64,
}

/// Both processes get a request at each tick, more than the slots are for.
fn run() -> Vec<Moment> {
    let mut world = World::new(MAX, 2);
    let begin = world.now;
    let mut streams: Vec<Stream> = Vec::new();
    let mut moments = Vec::new();
    for tick in 0..END / TICK {
        let time = tick * TICK;
        let is_alive = |process: usize| process != 0 || time < CRASH;
        world.wait(begin + time + TICK - world.now);
        streams.retain(|stream| stream.ends > time && is_alive(stream.process));
        world.call();
        for process in [0, 1] {
            world.ask(process, 1);
        }
        for message in mem::take(&mut world.messages) {
            // What a crashed process would say is not sent.
            if is_alive(message.process) {
                let reply = world.arrive(message);
                world.hear(reply);
            }
        }
        let running = mem::take(&mut world.held).into_iter();
        streams.extend(running.map(|(process, _, slot)| Stream {
            process,
            ends: time + STREAM,
            _slot: slot,
        }));
        let runs = |process| streams.iter().filter(|stream| stream.process == process).count();
        moments.push(Moment { time, first: runs(0), second: runs(1), counted: world.entries.held() });
    }
    moments
}

#[test]
fn the_picture_shows_this_run() {
    let moments = run();
    let at = |time: u64| moments.iter().find(|moment| moment.time == time).unwrap();
    assert!(moments.iter().all(|moment| moment.counted <= MAX), "{moments:?}");
    let before = at(CRASH - TICK);
    assert!(before.first > 0 && before.first + before.second == 6, "{before:?}");
    // The slots of the crashed process count for 10 s, and then others have them.
    assert!(at(CRASH + 9 * SECOND).second < 6 && at(CRASH + 9 * SECOND).counted == MAX);
    assert_eq!(at(CRASH + 10 * SECOND + SECOND).second, 6);

    let mut text = "millisecond,first,second,counted\n".to_owned();
    for Moment { time, first, second, counted } in &moments {
        _ = writeln!(text, "{},{first},{second},{counted}", time / 1_000);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/slots/tests/picture.csv");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "picture.csv is out of date: UPDATE_DOCS=1 writes it anew\n{text}");
}
