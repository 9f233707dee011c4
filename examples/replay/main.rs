//! What would these limits have done yesterday? Replays access logs under limits, by the decisions of the
//! stores.
//!
//! `cargo run --release --example replay --features replay -- --help`, and `cargo test --example replay
//! --features replay`.
//!
//! A line of a log becomes a request ([`line`]). The limits of a file ([`limits`]) that apply to it are one
//! group, about which `decide_with` of the core decides ([`replay`]). The rest counts what was decided, and
//! shows it ([`report`], [`picture`]).

mod census;
mod day;
mod limits;
mod line;
mod picture;
mod replay;
mod report;
#[cfg(test)]
mod tests;

use std::env;
use std::fs::{self, File};
use std::io::{self, BufReader, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};

use crate::replay::Replay;

const USAGE: &str = "\
Replays access logs under rate limits: what would these limits have done?

Usage: replay [--pictures FOLDER] LIMITS.toml LOG...
       replay --made-up-day              prints a log to try

LOG is a file, /dev/stdin as well. Its lines have the common or the combined log format, or are JSON
objects. Give several logs in the order of their times. The pictures go into the folder, by default the
current one. docs/numbers.md tells the fields of LIMITS.toml, and what the figures mean.
";

/// Any error; its text is for the user.
type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let printed = run(env::args().skip(1)).and_then(|text| Ok(io::stdout().write_all(text.as_bytes())?));
    if let Err(error) = printed {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What the program prints.
fn run(arguments: impl IntoIterator<Item = String>) -> Result<String, Failed> {
    let (mut files, mut folder) = (Vec::new(), PathBuf::from("."));
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(USAGE.to_owned()),
            Long("made-up-day") => return Ok(day::log()),
            Long("pictures") => folder = parser.value()?.into(),
            Value(file) => files.push(file.string()?),
            unknown => return Err(format!("{}; --help lists the options", unknown.unexpected()).into()),
        }
    }
    let (limits, logs) = files.split_first().ok_or("expected a file of limits and a log; see --help")?;
    let failed = |file: &String, error| format!("{file} cannot be read: {error}");
    let text = fs::read_to_string(limits).map_err(|error| failed(limits, error))?;
    let limits = limits::parse(&text).map_err(|error| format!("{limits}: {error}"))?;
    let mut replay = Replay::new(limits);
    for log in logs {
        let file = File::open(log).map_err(|error| failed(log, error))?;
        replay.read(log, BufReader::new(file)).map_err(|error| failed(log, error))?;
    }
    if replay.requests == 0 {
        return Err(format!("no line of the logs is a request\n  {}", replay.shown.join("\n  ")).into());
    }
    report::text(&replay, &folder)
}
