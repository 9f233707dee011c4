//! The figures as text.

use std::fmt::{self, Write};
use std::mem;
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use ratelimit_core::{Algorithm, Policy, Timestamp};

use crate::census::Census;
use crate::replay::{Replay, Tally, shown};
use crate::{Failed, picture};

/// What each limit would have done. Its picture goes into a folder.
pub(crate) fn text(replay: &Replay, folder: &Path) -> Result<String, Failed> {
    let out = &mut String::new();
    if let Some((first, last)) = replay.span {
        let date = |at: Timestamp| date(at.as_micros() / 1_000_000, "%F %T");
        writeln!(out, "{} requests from {} to {} UTC", replay.requests, date(first), date(last))?;
    }
    if replay.unreadable > 0 {
        writeln!(out, "{} lines are no requests:\n  {}", replay.unreadable, replay.shown.join("\n  "))?;
    }
    if replay.late > 0 {
        writeln!(out, "{} requests are late: each counts at the latest time before it", replay.late)?;
    }
    for ((policy, fields), tally) in replay.limits.iter().zip(&replay.tallies) {
        let (name, max, window) = (policy.key(), policy.max(), time(policy.window()));
        writeln!(out, "\n{name}: {max} per {window}, {}, by {}", policy.algorithm(), fields.by())?;
        figures(tally, out)?;
        table(policy, &tally.censuses, out)?;
        writeln!(out, "  picture       {}", picture::write(folder, name, &tally.seconds)?.display())?;
    }
    Ok(mem::take(out))
}

fn figures(tally: &Tally, out: &mut String) -> fmt::Result {
    let tenths = (tally.denied * 1_000).checked_div(tally.requests).unwrap_or(0);
    writeln!(out, "  requests      {}", tally.requests)?;
    if tally.without_caller > 0 {
        writeln!(out, "                {} more, whose lines do not tell the caller", tally.without_caller)?;
    }
    writeln!(out, "  denied        {}, {}.{} %", tally.denied, tenths / 10, tenths % 10)?;
    let callers = tally.censuses.first().map_or(0, |census| census.callers.len());
    writeln!(out, "  callers       {callers}, {} of them denied", tally.denials.len())?;
    writeln!(out, "  longest wait  {}", time(tally.longest_wait))?;
    let mut denials: Vec<_> = tally.denials.iter().collect();
    denials.sort_by_key(|(caller, denials)| (u64::MAX - **denials, *caller));
    let mut title = "most denied";
    for (caller, denials) in denials.into_iter().take(10) {
        writeln!(out, "  {title:12}  {denials:>9}  {}", shown(caller))?;
        title = "";
    }
    Ok(())
}

/// The numbers that would have denied few callers, for several windows.
fn table(policy: &Policy, censuses: &[Census], out: &mut String) -> fmt::Result {
    // The number that denies less if it is larger, and leaves the rate as it is.
    let number = if policy.algorithm() == Algorithm::TokenBucket { "burst" } else { "max" };
    writeln!(out, "  a {number} that denies none of ..      50 %      99 %    99.9 %  of the callers")?;
    for census in censuses {
        let [half, most, all] = census.needed([500, 990, 999]);
        writeln!(out, "         per {:>12}   {half:>9} {most:>9} {all:>9}", time(census.policy.window()))?;
    }
    Ok(())
}

/// A length of time such as `1m 30s`: whole seconds, rounded up, but for less than one.
pub(crate) fn time(time: Duration) -> String {
    let seconds = Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0));
    let rounded = if time.as_secs() == 0 { time } else { seconds };
    SignedDuration::try_from(rounded).map_or_else(|_| "forever".to_owned(), |time| format!("{time:#}"))
}

/// An instant in UTC, of seconds since the Unix epoch.
pub(crate) fn date(second: u64, format: &str) -> String {
    let at = i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    at.map_or_else(String::new, |at| at.strftime(format).to_string())
}
