//! What would these limits have done yesterday? Replays access logs under limits, by the decisions of the stores.
//!
//! `cargo run --release --example replay --features replay -- --help`, and `cargo test --example replay --features replay`.
//!
//! A line of a log becomes a request ([`line`]), which gets its instant from the clock of the log ([`clock`]). The limits of a file
//! ([`limits`]) that apply to it are one group, about which `decide_with` of the core decides ([`judge`]). The rest counts what was
//! decided, in bounded memory ([`tally`]), and shows it ([`report`], [`picture`]).

mod caller;
mod census;
mod clock;
mod day;
mod input;
mod judge;
mod limits;
mod line;
mod most_denied;
mod options;
mod pattern;
mod picture;
mod replay;
mod report;
mod tally;
mod timeline;

#[cfg(test)]
mod tests;

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

use crate::input::{Log, Progress};
use crate::limits::Limit;
use crate::options::{Command, Options, USAGE};
use crate::replay::Replay;

/// Any error; its text is for the user.
type Failed = Box<dyn Error>;

fn main() -> ExitCode {
    let stdout = &mut BufWriter::new(io::stdout().lock());
    let result = run(env::args().skip(1), Box::new(io::stdin()), stdout);
    match result.and_then(|()| Ok(stdout.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader such as `head` has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // What was counted before the error.
            let _ = stdout.flush();
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The program, on any input and output.
fn run(
    arguments: impl IntoIterator<Item = String>,
    stdin: Box<dyn Read>,
    stdout: &mut dyn Write,
) -> Result<(), Failed> {
    match options::read(arguments)? {
        Command::Help => Ok(stdout.write_all(USAGE.as_bytes())?),
        Command::MadeUpDay { users } => Ok(day::write(users, stdout)?),
        Command::Replay(options) => replay_logs(&options, stdin, stdout),
    }
}

fn replay_logs(options: &Options, stdin: Box<dyn Read>, stdout: &mut dyn Write) -> Result<(), Failed> {
    let mut replay = Replay::new(limits(options)?, options.max_callers, options.suggest)?;
    let (mut stdin, mut broken) = (Some(stdin), None);
    for name in &options.logs {
        let progress = Progress::start(name);
        let mut log = Log::open(name, &mut stdin, &progress)?;
        // What follows a broken part is lost, what came before counts.
        if let Err(error) = replay.read(&mut log)? {
            broken = Some(format!("{name} cannot be read after its line {}: {error}", log.number()));
            break;
        }
    }
    if replay.requests == 0
        && let Some(error) = broken
    {
        return Err(error.into());
    }
    replay.check()?;
    if options.suggest {
        report::suggestions(&replay, stdout)?;
    } else {
        let pictures = picture::write(&replay, &options.pictures)?;
        report::write(&replay, &pictures, stdout)?;
    }
    broken.map_or(Ok(()), |error| Err(error.into()))
}

/// The limits of the file, or one about all requests of an address.
fn limits(options: &Options) -> Result<Vec<Limit>, Failed> {
    let Some(file) = &options.limits else { return Ok(vec![Limit::of_everything()?]) };
    let text =
        fs::read_to_string(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let name =
        file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into());
    Ok(limits::parse(&text, &name)?)
}
