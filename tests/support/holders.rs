//! Several processes that hold slots of the same callers: what the processes and the tests that start them
//! agree on, and how many ran at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use ratelimit_core::{Algorithm, OnError, Policy};

use crate::program::Program;

/// At most `max` at a time.
pub fn policy(max: u64) -> Policy {
    Policy::builder("holders").algorithm(Algorithm::Concurrency).max(max).on_error(OnError::Deny).build()
}

/// The name of a caller.
pub fn caller(number: u64) -> String {
    format!("caller {number}")
}

/// The clock of the machine, in microseconds.
#[allow(clippy::disallowed_methods, reason = "instants of several processes, to compare")]
pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A request begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub at: u64,
    pub caller: u64,
    pub begins: bool,
}

impl Mark {
    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..15].copy_from_slice(&self.caller.to_le_bytes()[..7]);
        bytes[15] = self.begins.into();
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { at: number(&bytes[..8]), caller: number(&bytes[8..15]), begins: bytes[15] == 1 }
    }
}

/// A process that holds slots; see `bin/holder.rs`.
#[derive(Debug)]
pub struct Holder {
    program: Program,
    file: PathBuf,
}

/// What each process does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub callers: u64,
    pub max: u64,
    pub tasks: u64,
    /// Longest stream, in milliseconds.
    pub longest: u64,
}

impl Holder {
    /// Starts a process, which notes what runs in a file of this name.
    pub fn start(program: &str, url: &str, folder: &Path, name: &str, work: Work) -> Self {
        let file = folder.join(name);
        let Work { callers, max, tasks, longest } = work;
        let mut arguments = vec![url.to_owned(), file.to_str().unwrap().to_owned()];
        arguments.extend([callers, max, tasks, longest].map(|number| number.to_string()));
        Self { program: Program::start(program, &arguments), file }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: &str) {
        self.program.signal(signal);
    }

    /// What has run in the process so far: nothing if it has not begun.
    pub fn marks(&self) -> Vec<Mark> {
        read(&self.file).unwrap_or_default()
    }

    /// Ends the process at once, as a crash does. Returns what ran in it: its last requests ended now.
    pub fn kill(self) -> Vec<Mark> {
        let Self { program, file } = self;
        program.kill();
        let mut marks = read(&file).unwrap();
        let mut running: BTreeMap<u64, i64> = BTreeMap::new();
        for mark in &marks {
            *running.entry(mark.caller).or_default() += if mark.begins { 1 } else { -1 };
        }
        let at = now();
        for (caller, running) in running {
            let end = Mark { at, caller, begins: false };
            marks.extend(std::iter::repeat_n(end, usize::try_from(running).unwrap()));
        }
        marks
    }
}

fn read(file: &Path) -> io::Result<Vec<Mark>> {
    Ok(fs::read(file)?.chunks_exact(16).map(Mark::decode).collect())
}

/// The requests that have begun.
pub fn begun(marks: &[Mark]) -> usize {
    marks.iter().filter(|mark| mark.begins).count()
}

/// The most requests of one caller that ran at a time, within a span of time.
pub fn most_at_a_time(marks: &[Mark], within: Range<u64>) -> i64 {
    // What began before runs at the start.
    let marks = marks.iter().filter(|mark| mark.at < within.end);
    let mut marks: Vec<Mark> = marks.map(|mark| Mark { at: mark.at.max(within.start), ..*mark }).collect();
    // Of one instant, the ends come first.
    marks.sort_unstable_by_key(|mark| (mark.caller, mark.at, mark.begins));
    let (mut most, mut running, mut caller) = (0, 0, None);
    for mark in marks {
        if caller != Some(mark.caller) {
            (running, caller) = (0, Some(mark.caller));
        }
        running += if mark.begins { 1 } else { -1 };
        most = most.max(running);
    }
    most
}
