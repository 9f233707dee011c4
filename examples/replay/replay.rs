//! The replay: lines of logs in, figures out.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use ratelimit_core::{Check, PolicyError, Timestamp};

use crate::Failed;
use crate::clock::LogClock;
use crate::input::Log;
use crate::judge::{DIGEST_KEY, Judge};
use crate::limits::Limit;
use crate::line::{Request, Unreadable};
use crate::tally::Tally;

/// After so many lines of which none can be read, the log has another format; after so many requests without a caller, the limit
/// asks for something that the log does not have.
const PATIENCE: u64 = 10_000;
/// Unreadable lines that are shown.
const SHOWN: usize = 3;

/// The limits, and all that is known about their requests so far.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) limits: Vec<Limit>,
    /// One for each limit.
    pub(crate) tallies: Vec<Tally>,
    judge: Judge,
    pub(crate) clock: LogClock,
    pub(crate) requests: u64,
    /// Lines that are no request.
    pub(crate) unreadable: u64,
    /// The first of them: its place, what was expected, and its begin.
    pub(crate) shown: Vec<(String, Unreadable, String)>,
    /// Of the first request and the last one.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

/// What a service with these limits would have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Under no limit.
    Unlimited,
    Admitted,
    /// Denied, with the wait.
    Denied(Option<Duration>),
    /// Not judged, for want of room for another caller.
    NoRoom,
}

impl Replay {
    pub(crate) fn new(limits: Vec<Limit>, max_callers: usize, suggest: bool) -> Result<Self, PolicyError> {
        let tallies = limits.iter().map(|limit| Tally::new(limit, max_callers, suggest));
        let tallies = tallies.collect::<Result<_, _>>()?;
        let judge = Judge::new(max_callers.saturating_mul(limits.len()));
        Ok(Self {
            limits,
            tallies,
            judge,
            clock: LogClock::default(),
            requests: 0,
            unreadable: 0,
            shown: Vec::new(),
            span: None,
        })
    }

    /// Replays a log up to its end, or to where it cannot be read: then the inner result is the error.
    pub(crate) fn read(&mut self, log: &mut Log) -> Result<io::Result<()>, Failed> {
        loop {
            match log.next() {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
            let line = log.line();
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match Request::parse(line) {
                Ok(request) => _ = self.request(&request)?,
                Err(expected) => {
                    self.skip(log, expected);
                    if self.requests == 0 && self.unreadable >= PATIENCE {
                        self.check()?;
                    }
                }
            }
        }
    }

    fn skip(&mut self, log: &Log, expected: Unreadable) {
        self.unreadable += 1;
        if self.shown.len() < SHOWN {
            // Without characters that would change the terminal.
            let begin: String =
                String::from_utf8_lossy(log.line()).chars().take(100).flat_map(char::escape_debug).collect();
            self.shown.push((log.place(), expected, begin));
        }
    }

    /// Decides about a request under all limits that are for it: one group, as the attributes of a handler.
    pub(crate) fn request(&mut self, request: &Request<'_>) -> Result<Answer, Failed> {
        let now = self.clock.read(request.at);
        self.requests += 1;
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        let mut callers: Vec<(usize, Cow<'_, str>)> = Vec::new();
        for (index, limit) in self.limits.iter().enumerate() {
            if limit.is_for(&request.method, &request.path) {
                match limit.by.caller(request) {
                    Some(caller) => callers.push((index, caller)),
                    None => miss(limit, &mut self.tallies[index], request)?,
                }
            }
        }
        if callers.is_empty() {
            return Ok(Answer::Unlimited);
        }
        let checks =
            callers.iter().map(|(index, caller)| Check::new(&self.limits[*index].policy, caller.as_bytes()));
        let group: Vec<Check<'_>> = checks.collect();
        let Some(outcome) = self.judge.check(&group, now) else {
            for (index, _) in callers {
                self.tallies[index].without_room += 1;
            }
            return Ok(Answer::NoRoom);
        };
        for (((index, caller), check), of_limit) in callers.iter().zip(&group).zip(outcome.outcomes()) {
            let limit = &self.limits[*index];
            let counts = limit.count.includes(request.status);
            if !counts {
                self.judge.refund(&group, &outcome, limit.policy.name());
            }
            let caller = (&**caller, check.digest(&DIGEST_KEY));
            self.tallies[*index].add(caller, of_limit, outcome.is_allowed(), counts, now);
        }
        Ok(if outcome.is_allowed() { Answer::Admitted } else { Answer::Denied(outcome.retry_after()) })
    }

    /// Whether there is something to show.
    pub(crate) fn check(&self) -> Result<(), Failed> {
        if self.requests == 0 {
            return Err(match self.shown.first() {
                Some((place, expected, line)) => {
                    format!("none of {} lines can be read: {place} is `{line}`; {expected}", self.unreadable)
                        .into()
                }
                None => "the log is empty: there is nothing to replay".into(),
            });
        }
        for (limit, tally) in self.limits.iter().zip(&self.tallies) {
            if tally.requests == 0 && tally.without_caller > 0 {
                let error = format!(
                    "limit `{}` counts by {}, but none of the {} requests under it has that",
                    limit.policy.key(),
                    limit.by,
                    tally.without_caller
                );
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// Counts a request whose line does not tell the caller.
fn miss(limit: &Limit, tally: &mut Tally, request: &Request<'_>) -> Result<(), Failed> {
    tally.without_caller += 1;
    if tally.requests == 0 && tally.without_caller == PATIENCE {
        let (key, by, known) = (limit.policy.key(), &limit.by, request.known());
        let error = format!(
            "limit `{key}` counts by {by}, but none of the first {PATIENCE} requests under it has that; this log has {known}"
        );
        return Err(error.into());
    }
    Ok(())
}
