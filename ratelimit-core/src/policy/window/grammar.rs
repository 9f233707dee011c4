//! The grammar of `window`: whole numbers with units, from large to small, such as "60s" or "1h30m".
//!
//! `ratelimit-core/src/policy/window/grammar.rs` and `ratelimit-macros/src/parse/values/window/grammar.rs`
//! are the same file, because the attribute's crate does not depend on the core. A test of the workspace
//! compares them.

/// Units from large to small, with their length in microseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

/// Shortest window: 1 ms.
pub(crate) const MIN_MICROS: u64 = 1_000;

/// Longest window, and longest time to refill a token bucket: 366 days.
pub(crate) const MAX_MICROS: u64 = 366 * 86_400_000_000;

/// Other spellings of the units.
const SPELLINGS: [(&str, &[&str]); 5] = [
    ("d", &["day", "days"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("m", &["min", "mins", "minute", "minutes"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("ms", &["msec", "msecs", "milli", "millis", "millisecond", "milliseconds"]),
];

/// One number and its unit, as written.
struct Term<'a> {
    digits: &'a str,
    unit: &'a str,
}

/// Why a text is no window.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) text: String,
    /// The window that was probably meant.
    pub(crate) meant: Option<String>,
}

/// What a window looks like.
pub(crate) const EXPECTED: &str = "expected whole numbers with units `d`, `h`, `m`, `s` or `ms`";

/// The length of a window in microseconds.
///
/// # Errors
///
/// The fault in `text`, with the corrected spelling if there is one.
pub(crate) fn parse(text: &str) -> Result<u64, Fault> {
    parse_strict(text).map_err(|fault| Fault { text: fault, meant: repair(text) })
}

fn parse_strict(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("`window` must not be empty".to_owned());
    }
    if text.contains(char::is_whitespace) {
        return Err(format!("`window` must not contain blanks, found {text:?}"));
    }
    let mut total = 0_u64;
    let mut previous = None;
    for Term { digits, unit } in split(text) {
        if digits.is_empty() {
            return Err(format!("`window` must begin with a number, found {text:?}"));
        }
        if unit.is_empty() {
            return Err(format!("`window` needs a unit, found {text:?}"));
        }
        if unit.starts_with(['.', ',']) {
            return Err(format!("`window` takes whole numbers, found {text:?}"));
        }
        let Some(rank) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(format!("unknown unit `{}` in {text:?}", unit.escape_debug()));
        };
        match previous {
            Some(previous) if previous == rank => {
                return Err(format!("unit `{unit}` occurs twice in {text:?}"));
            }
            Some(previous) if previous > rank => {
                return Err(format!("`window` goes from large units to small, found {text:?}"));
            }
            _ => previous = Some(rank),
        }
        let length = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(UNITS[rank].1));
        total = length
            .and_then(|length| total.checked_add(length))
            .filter(|total| *total <= MAX_MICROS)
            .ok_or_else(|| format!("`window` must be at most 366d, found {text:?}"))?;
    }
    if total < MIN_MICROS {
        return Err(format!("`window` must be at least 1ms, found {text:?}"));
    }
    Ok(total)
}

/// Splits `text` before each run of digits into terms.
fn split(text: &str) -> impl Iterator<Item = Term<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(digits_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        rest = tail;
        Some(Term { digits, unit })
    })
}

/// The window that was probably meant.
fn repair(text: &str) -> Option<String> {
    let mut text: String =
        text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect::<String>().to_lowercase();
    if text.starts_with(char::is_alphabetic) {
        // "minute" is one.
        text.insert(0, '1');
    }
    let mut lengths = Vec::new();
    let mut whole = None;
    for Term { digits, unit } in split(&text) {
        if matches!(unit, "." | ",") && whole.is_none() {
            whole = Some(digits);
            continue;
        }
        let (rank, weeks) = rank_of(unit, &lengths)?;
        let (_, micros) = UNITS[rank];
        let length = match whole.take() {
            Some(whole) => scaled(whole, digits, micros)?,
            None => digits.parse::<u64>().ok()?.checked_mul(weeks)?.checked_mul(micros)?,
        };
        lengths.push((rank, length));
    }
    let total = lengths.iter().try_fold(0_u64, |total, (_, length)| total.checked_add(*length))?;
    let repaired = match lengths[..] {
        // "60sec" becomes "60s", not "1m".
        [(rank, length)] if length % UNITS[rank].1 == 0 => {
            format!("{}{}", length / UNITS[rank].1, UNITS[rank].0)
        }
        _ => format(total),
    };
    parse_strict(&repaired).is_ok().then_some(repaired)
}

/// The rank of the unit that a spelling means, and its multiple: a week is seven days. An empty spelling
/// means the unit that follows the previous one.
fn rank_of(unit: &str, before: &[(usize, u64)]) -> Option<(usize, u64)> {
    const SECONDS: usize = 3;
    if unit.is_empty() {
        let next = before.last().map_or(SECONDS, |(rank, _)| rank + 1);
        return (next < UNITS.len()).then_some((next, 1));
    }
    if matches!(unit, "w" | "week" | "weeks") {
        return Some((0, 7));
    }
    let (meant, _) = SPELLINGS.iter().find(|(name, spellings)| *name == unit || spellings.contains(&unit))?;
    UNITS.iter().position(|(name, _)| name == meant).map(|rank| (rank, 1))
}

/// `whole.fraction` units of `micros`, if the product is a whole number of microseconds.
fn scaled(whole: &str, fraction: &str, micros: u64) -> Option<u64> {
    let denominator = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let numerator = format!("{whole}{fraction}").parse::<u64>().ok()?.checked_mul(micros)?;
    (numerator % denominator == 0).then_some(numerator / denominator)
}

/// The usual spelling of a length.
pub(crate) fn format(mut micros: u64) -> String {
    let parts = UNITS.into_iter().map(|(name, length)| {
        let number = micros / length;
        micros %= length;
        if number == 0 { String::new() } else { format!("{number}{name}") }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_cannot_be_printed_is_escaped() {
        assert_eq!(parse("1\u{0}").unwrap_err().text, "unknown unit `\\0` in \"1\\0\"");
    }

    #[test]
    fn every_repair_is_a_window() {
        for text in
            ["1d1w", "1.5", "1.2.3s", "0.0001ms", "1,5m", "1h.5m", "9.99999999999999999999s", ".5s", "1..5s"]
        {
            if let Some(repaired) = repair(text) {
                assert!(parse_strict(&repaired).is_ok(), "{text} became {repaired}");
            }
        }
    }
}
