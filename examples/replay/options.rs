//! The command line.

use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value, ValueExt as _};

use crate::Failed;

pub(crate) const USAGE: &str = "\
Replays access logs under rate limits: what would these limits have done?

Usage: replay LIMITS.toml LOG...             what each limit would have done, and a picture of each
       replay --suggest [LIMITS.toml] LOG... which `max` would have denied how many callers
       replay --made-up-day[=USERS]          prints a log to try, by default of 1500 users

LOG is a file, plain or gzip, or - for standard input. Its lines have the common or the combined log
format, or are JSON objects. Give several logs in the order of their times.

LIMITS.toml has a table for each limit, with the fields of a policy and four of its own:

  [limit.login]          # a name
  path = \"/login\"        # which requests: /users/{id} and /static/* are patterns; by default all
  methods = [\"POST\"]     # by default all but OPTIONS
  by = \"ip\"              # the caller: ip (default), header:NAME, field:NAME or everyone
  count = \"failures\"     # which answers count: all (default), failures or successes, by status
  max = 10               # by default 100
  window = \"10m\"         # by default 60s; also algorithm, burst, sub_windows, block

Options:
  --suggest           a table of `max` for 50, 99 and 99.9 % of the callers, for several windows
  --pictures FOLDER   where the pictures are written; by default the current folder
  --max-callers N     callers to remember for each limit; by default 1000000, about 150 bytes each
  -h, --help          this text
";

/// Users of the made-up day, unless the command says otherwise.
const USERS: u32 = 1500;

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    MadeUpDay { users: u32 },
    Replay(Options),
}

/// How to replay.
#[derive(Debug)]
pub(crate) struct Options {
    /// The file of limits; `None` to look at all requests.
    pub(crate) limits: Option<PathBuf>,
    /// Names of files, or `-`.
    pub(crate) logs: Vec<String>,
    pub(crate) suggest: bool,
    pub(crate) pictures: PathBuf,
    pub(crate) max_callers: usize,
}

pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Command, Failed> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut files: Vec<String> = Vec::new();
    let mut options = Options {
        limits: None,
        logs: Vec::new(),
        suggest: false,
        pictures: PathBuf::from("."),
        max_callers: 1_000_000,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("made-up-day") => {
                let users = parser.optional_value().map_or(Ok(USERS), |users| users.parse())?;
                return Ok(Command::MadeUpDay { users });
            }
            Long("suggest") => options.suggest = true,
            Long("pictures") => options.pictures = parser.value()?.into(),
            Long("max-callers") => options.max_callers = parser.value()?.parse::<usize>()?.max(1),
            Value(file) => files.push(file.string()?),
            unknown => return Err(format!("{}; --help lists the options", unknown.unexpected()).into()),
        }
    }
    let is_toml =
        |file: &String| PathBuf::from(file).extension().is_some_and(|extension| extension == "toml");
    if files.first().is_some_and(is_toml) {
        options.limits = Some(files.remove(0).into());
    } else if !options.suggest {
        let found = files.first().map_or("nothing".to_owned(), |file| format!("`{file}`"));
        return Err(format!(
            "expected a file of limits with the ending .toml first, found {found}; see --help"
        )
        .into());
    }
    if files.is_empty() {
        return Err("expected a log after the limits, or - for standard input; see --help".into());
    }
    if files.iter().filter(|file| *file == "-").count() > 1 {
        return Err("standard input (-) can be read only once".into());
    }
    Ok(Command::Replay(Options { logs: files, ..options }))
}
