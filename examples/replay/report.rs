//! The figures as text.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use ratelimit_core::policy::Window;
use ratelimit_core::{Algorithm, Policy, Timestamp};

use crate::limits::{Count, Limit};
use crate::replay::Replay;
use crate::tally::Tally;

/// Shares of callers in a table of suggestions, in tenths of a percent.
const SHARES: [u64; 3] = [500, 990, 999];

/// What each limit would have done, with the file of its picture.
pub(crate) fn write(replay: &Replay, pictures: &[Option<PathBuf>], out: &mut dyn Write) -> io::Result<()> {
    log(replay, out)?;
    for ((limit, tally), picture) in replay.limits.iter().zip(&replay.tallies).zip(pictures) {
        writeln!(out, "\n{}: {}", limit.policy.key(), described(limit))?;
        if tally.requests == 0 {
            writeln!(out, "  no request of the log is for this limit")?;
            continue;
        }
        figures(limit, tally, out)?;
        if let Some(picture) = picture {
            writeln!(out, "  picture       {}", picture.display())?;
        }
    }
    Ok(())
}

/// What was read.
fn log(replay: &Replay, out: &mut dyn Write) -> io::Result<()> {
    if let Some((first, last)) = replay.span {
        writeln!(out, "{} requests from {} to {} UTC", grouped(replay.requests), date(first), date(last))?;
    }
    if replay.unreadable > 0 {
        writeln!(out, "lines that are no requests: {}", grouped(replay.unreadable))?;
        for (place, expected, line) in &replay.shown {
            writeln!(out, "  {place}: {expected}; found `{line}`")?;
        }
        if replay.unreadable > replay.shown.len() as u64 {
            writeln!(out, "  ..")?;
        }
    }
    let (late, by) = replay.clock.late();
    if late > 0 {
        let (late, by) = (grouped(late), time(by));
        writeln!(
            out,
            "requests out of order: {late}, by up to {by}; each counts at the latest time before it"
        )?;
    }
    let (times, by) = replay.clock.set_back();
    if times > 0 {
        let (times, by) = (grouped(times), time(by));
        writeln!(
            out,
            "times that the clock of the log goes back: {times}, by up to {by}; it goes on from the latest time"
        )?;
    }
    Ok(())
}

fn described(limit: &Limit) -> String {
    let policy = &limit.policy;
    let mut parts = vec![format!("{} per {}", grouped(policy.max()), time(policy.window()))];
    if policy.algorithm() == Algorithm::TokenBucket {
        parts.push(format!("{} of {}", policy.algorithm(), grouped(policy.capacity())));
    } else if policy.algorithm() != Algorithm::SlidingWindowCounter {
        parts.push(policy.algorithm().to_string());
    }
    parts.extend(policy.block().map(|block| format!("block {}", time(block))));
    parts.push(format!("by {}", limit.by));
    match limit.count {
        Count::All => {}
        Count::Failures => parts.push("failures count".to_owned()),
        Count::Successes => parts.push("successes count".to_owned()),
    }
    parts.join(", ")
}

fn figures(limit: &Limit, tally: &Tally, out: &mut dyn Write) -> io::Result<()> {
    let census = tally.census();
    let tenths = tally.denied * 1_000 / tally.requests;
    writeln!(out, "  requests      {}", grouped(tally.requests))?;
    writeln!(out, "  denied        {}, {}.{} %", grouped(tally.denied), tenths / 10, tenths % 10)?;
    for (count, why) in [
        (tally.denied_by_others, "passed, and were denied by another limit"),
        (tally.without_caller, "not counted: the line does not tell the caller"),
        (tally.without_room, "not counted: more callers at a time than --max-callers"),
    ] {
        if count > 0 {
            writeln!(out, "                {} {why}", grouped(count))?;
        }
    }
    writeln!(
        out,
        "  callers       {}, {} of them denied",
        grouped(census.callers()),
        grouped(census.denied())
    )?;
    if census.one_of() > 1 {
        writeln!(
            out,
            "                estimated from one of {} callers: more than --max-callers",
            census.one_of()
        )?;
    }
    if tally.denied > 0 {
        writeln!(out, "  longest wait  {}", time(tally.longest_wait))?;
    }
    let [needed] = census.needed([990]);
    let number = number(&limit.policy);
    writeln!(
        out,
        "  99 % need     {number} = {}, the smallest that denies none of the 99 % who ask least",
        grouped(needed)
    )?;
    let mut title = "most denied";
    for (caller, denials) in tally.most_denied.top() {
        writeln!(out, "  {title:12}  {:>9}  {}", grouped(denials), caller.escape_debug())?;
        title = "";
    }
    if tally.most_denied.forgotten() > 0 {
        let forgotten = grouped(tally.most_denied.forgotten());
        writeln!(
            out,
            "                each at least; up to {forgotten} more: more denied callers than --max-callers"
        )?;
    }
    Ok(())
}

/// The number that denies less if it is larger, and leaves the rate as it is.
fn number(policy: &Policy) -> &'static str {
    if policy.algorithm() == Algorithm::TokenBucket { "burst" } else { "max" }
}

/// The numbers that would have denied few callers, for several windows.
pub(crate) fn suggestions(replay: &Replay, out: &mut dyn Write) -> io::Result<()> {
    log(replay, out)?;
    writeln!(out, "\nThe smallest number that denies none of so many callers, those who ask least:\n")?;
    writeln!(
        out,
        "{:20} {:>10} {:>8}   {:6} {:>9} {:>9} {:>9}",
        "limit", "callers", "window", "", "50 %", "99 %", "99.9 %"
    )?;
    for (limit, tally) in replay.limits.iter().zip(&replay.tallies) {
        if tally.requests == 0 {
            writeln!(out, "{:20} no request of the log is for this limit", limit.policy.key())?;
            continue;
        }
        let mut censuses: Vec<_> = tally.censuses.iter().enumerate().collect();
        censuses.sort_by_key(|(_, census)| census.window());
        let mut name = limit.policy.key();
        for (index, census) in censuses {
            let callers = if name.is_empty() { String::new() } else { grouped(census.callers()) };
            // The window of the file.
            let own = if index == 0 { "*" } else { " " };
            let [half, most, all] = census.needed(SHARES).map(grouped);
            let (window, number) = (time(census.window()), number(&limit.policy));
            writeln!(
                out,
                "{name:20} {callers:>10} {window:>8} {own} {number:6} {half:>9} {most:>9} {all:>9}"
            )?;
            name = "";
        }
        if tally.census().one_of() > 1 {
            writeln!(out, "{:20} estimated from one of {} callers", "", tally.census().one_of())?;
        }
    }
    writeln!(out, "\n* the window of the limit")?;
    Ok(())
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in whole seconds, rounded up, or in milliseconds below a second.
pub(crate) fn time(time: Duration) -> String {
    let rounded = if time.subsec_micros() == 0 || time < Duration::from_secs(1) {
        time
    } else {
        Duration::from_secs(time.as_secs() + 1)
    };
    Window::try_from(rounded).map_or_else(|_| format!("{} s", rounded.as_secs_f64()), |time| time.to_string())
}

/// A date with its time, in UTC.
fn date(at: Timestamp) -> String {
    let at = i64::try_from(at.as_micros() / 1_000_000).ok().map(time::OffsetDateTime::from_unix_timestamp);
    at.and_then(Result::ok).map_or_else(|| "?".to_owned(), |at| format!("{} {}", at.date(), hour(at.time())))
}

/// A time of the day without its fraction.
pub(crate) fn hour(time: time::Time) -> String {
    let (hour, minute, second) = time.as_hms();
    format!("{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_easy_to_read() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let millis = [1_500, 59_000, 61_000, 250].map(|millis| time(Duration::from_millis(millis)));
        assert_eq!(millis, ["2s", "59s", "1m1s", "250ms"]);
        assert_eq!(date(Timestamp::from_micros(1_763_596_800_999_999)), "2025-11-20 00:00:00");
    }
}
