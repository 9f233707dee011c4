//! The times of logs as microseconds since the Unix epoch.

use std::sync::LazyLock;

use ratelimit_core::Timestamp;
use time::format_description::well_known::{Iso8601, Rfc3339};
use time::format_description::{BorrowedFormatItem, parse_borrowed};
use time::{OffsetDateTime, PrimitiveDateTime};

use super::Unreadable;

pub(super) const EXPECTED: Unreadable =
    Unreadable("a time such as 10/Oct/2025:13:55:36 +0200, 2025-10-10T13:55:36Z or 1760104536.25");

const OUT_OF_RANGE: Unreadable = Unreadable("a time from 1970 to 2200");

/// 2201-01-01, in microseconds. A time from then on is a mistake of the log, and would move its clock for good.
const END: u64 = 7_289_654_400_000_000;

static CLF: LazyLock<Vec<BorrowedFormatItem<'static>>> = LazyLock::new(|| {
    let format = "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]";
    parse_borrowed::<2>(format).unwrap_or_default()
});

/// A time such as `10/Oct/2025:13:55:36 +0200`.
pub(super) fn of_clf(text: &str) -> Result<Timestamp, Unreadable> {
    since_epoch(OffsetDateTime::parse(text, &*CLF).map_err(|_| EXPECTED)?)
}

/// A time in any form that logs have. Without an offset it is taken as UTC.
pub(super) fn of_text(text: &str) -> Result<Timestamp, Unreadable> {
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        return since_epoch(at);
    }
    if let Ok(at) = PrimitiveDateTime::parse(&text.replacen(' ', "T", 1), &Iso8601::PARSING) {
        return since_epoch(at.assume_utc());
    }
    of_number(text).or_else(|error| if error == EXPECTED { of_clf(text) } else { Err(error) })
}

/// Seconds since the epoch with a fraction, or whole milliseconds, microseconds or nanoseconds, told apart by their size.
pub(super) fn of_number(text: &str) -> Result<Timestamp, Unreadable> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().map_err(|_| EXPECTED)?;
    let micros = match whole {
        0..100_000_000_000 => {
            // Six digits of the fraction are whole microseconds.
            let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
            whole * 1_000_000 + digits.parse::<u64>().map_err(|_| EXPECTED)?
        }
        100_000_000_000..100_000_000_000_000 => whole * 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => whole,
        _ => whole / 1_000,
    };
    in_range(micros)
}

fn since_epoch(at: OffsetDateTime) -> Result<Timestamp, Unreadable> {
    u64::try_from(at.unix_timestamp_nanos() / 1_000).map_err(|_| OUT_OF_RANGE).and_then(in_range)
}

fn in_range(micros: u64) -> Result<Timestamp, Unreadable> {
    if micros < END { Ok(Timestamp::from_micros(micros)) } else { Err(OUT_OF_RANGE) }
}
