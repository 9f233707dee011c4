//! Windows: as text, by the grammar of the attribute, for configuration that is read at run time; and as
//! spans of time, where a calendar has them.

mod grammar;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::micros;

/// Shortest window: 1 ms.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);

/// Longest window, and longest time in which a full token bucket refills: 366 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Length of a window as text, such as `"60s"` or `"1h30m"`.
///
/// The text has whole numbers with the units `d`, `h`, `m`, `s` and `ms`, from large to small and each at
/// most once, without blanks: the grammar of `#[rate_limit(window = "..")]`. A window is from [`MIN_WINDOW`]
/// to [`MAX_WINDOW`], in whole milliseconds. `Display` shows it with the same units, so that a text of it can
/// be read back.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::Policy;
/// use ratelimit_core::policy::Window;
///
/// let window: Window = "1h30m".parse()?;
/// assert_eq!(window.duration(), Duration::from_secs(5400));
/// assert_eq!(window.to_string(), "1h30m");
/// let policy = Policy::builder("search").window(window.duration()).try_build()?;
///
/// let error = "90sec".parse::<Window>().unwrap_err();
/// assert_eq!(error.suggestion(), Some("90s"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(Duration);

impl Window {
    /// Length of the window.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        match grammar::parse(text) {
            Ok(micros) => Ok(Self(Duration::from_micros(micros))),
            Err(grammar::Fault { text, meant }) => Err(WindowError { fault: text, meant }),
        }
    }
}

impl TryFrom<Duration> for Window {
    type Error = WindowError;

    /// The window of this length.
    ///
    /// # Errors
    ///
    /// A [`WindowError`] if the length is not from [`MIN_WINDOW`] to [`MAX_WINDOW`] in whole milliseconds.
    fn try_from(length: Duration) -> Result<Self, WindowError> {
        let is_window = (MIN_WINDOW..=MAX_WINDOW).contains(&length);
        if is_window && length.as_nanos().is_multiple_of(MIN_WINDOW.as_nanos()) {
            return Ok(Self(length));
        }
        let fault = format!("`window` must be from 1ms to 366d in whole milliseconds, found {length:?}");
        Err(WindowError { fault, meant: None })
    }
}

impl From<Window> for Duration {
    fn from(window: Window) -> Self {
        window.0
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&grammar::format(micros(self.0)))
    }
}

/// A text or a duration is no [`Window`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}{}", hint(.meant.as_deref()))]
pub struct WindowError {
    fault: String,
    meant: Option<String>,
}

impl WindowError {
    /// Text that was probably meant, such as `60s` for `60sec`.
    pub fn suggestion(&self) -> Option<&str> {
        self.meant.as_deref()
    }

    /// The same error about another field that has the grammar of windows.
    pub(crate) fn about(self, field: &str) -> Self {
        Self { fault: self.fault.replacen("`window`", &format!("`{field}`"), 1), ..self }
    }
}

fn hint(meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("; did you mean {meant:?}?"),
        None => format!("; {}, such as \"60s\"", grammar::EXPECTED),
    }
}

// The grammar has its own bounds, because it is the file of a crate that does not know these.
const _: () = assert!(
    grammar::MIN_MICROS as u128 == MIN_WINDOW.as_micros()
        && grammar::MAX_MICROS as u128 == MAX_WINDOW.as_micros()
);

/// A window with a count of its own: from its first instant to the first one after it, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowSpan {
    pub(crate) from: u64,
    pub(crate) before: u64,
    /// What distinguishes its count from those of other windows.
    pub(crate) label: u64,
}

/// The instant of a window that is the nearest to `at`.
#[inline]
pub(crate) fn nearest(at: u64, from: u64, before: u64) -> u64 {
    at.clamp(from, before - 1)
}

impl WindowSpan {
    pub(crate) const fn length(self) -> u64 {
        self.before - self.from
    }

    /// The same window on a clock that is so many microseconds ahead. What was before its first instant is
    /// cut off.
    pub(crate) fn on_clock_ahead(self, ahead_us: i64) -> Self {
        let [from, before] = [self.from, self.before].map(|at| at.saturating_add_signed(ahead_us));
        Self { from, before: before.max(from + 1), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_shown_as_it_is_read() {
        for text in ["1ms", "60s", "1h30m", "1d2h3m4s5ms", "366d"] {
            let shown = text.parse::<Window>().unwrap().to_string();
            assert_eq!(shown.parse::<Window>(), text.parse(), "{text}");
        }
        let shown = |text: &str| text.parse::<Window>().unwrap().to_string();
        assert_eq!((shown("60s"), shown("90m"), shown("1d")), ("1m".into(), "1h30m".into(), "1d".into()));
    }

    #[test]
    fn a_duration_is_a_window_within_the_bounds_in_whole_milliseconds() {
        for length in [MIN_WINDOW, Duration::from_secs(60), MAX_WINDOW] {
            assert_eq!(Window::try_from(length).map(Duration::from), Ok(length));
        }
        let milli = Duration::from_millis(1);
        for length in [Duration::ZERO, Duration::from_micros(1_500), MAX_WINDOW + milli, Duration::MAX] {
            let error = Window::try_from(length).unwrap_err();
            assert!(error.to_string().contains("from 1ms to 366d"), "{error}");
        }
    }

    #[test]
    fn an_error_has_the_suggestion_or_the_grammar() {
        let error = |text: &str| text.parse::<Window>().unwrap_err().to_string();
        assert_eq!(error("60"), "`window` needs a unit, found \"60\"; did you mean \"60s\"?");
        assert_eq!(
            error(""),
            "`window` must not be empty; expected whole numbers with units `d`, `h`, `m`, `s` or `ms`, such as \"60s\""
        );
    }
}
