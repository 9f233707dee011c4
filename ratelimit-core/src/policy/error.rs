//! Errors of policies: a number, a key or a name out of its bounds, and a text that names no value of a
//! setting.

use super::suggest::{list, nearest};

/// A number, key or name of a policy is out of its bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The key is empty, too long, or has a character that is not allowed.
    Key,
    /// The name is empty, too long, or has a character that is not allowed.
    Name,
    /// `max` is not from 1 to [`MAX_UNITS`](super::MAX_UNITS).
    Max,
    /// The window is not from [`MIN_WINDOW`](super::MIN_WINDOW) to [`MAX_WINDOW`](super::MAX_WINDOW).
    Window,
    /// The window has a fraction of a microsecond.
    WindowNotMicroseconds,
    /// The day on which a calendar window begins is no day of a week, a month or a year.
    Anchor,
    /// A calendar window has another algorithm than the fixed window.
    CalendarAlgorithm,
    /// A block was set for a calendar window.
    CalendarBlock,
    /// Overrides have a window for a limit with a calendar window.
    CalendarOverridden,
    /// Overrides made by code have a number that is not for them, or a calendar window.
    NotOverridable,
    /// The number of sub-windows is not from 1 to [`MAX_SUB_WINDOWS`](super::MAX_SUB_WINDOWS).
    SubWindows,
    /// The window is not a whole multiple of the sub-windows, in microseconds.
    SubWindowsNotWhole,
    /// Sub-windows were set for an algorithm without them.
    SubWindowsWithoutCounter,
    /// The burst is not from 1 to [`MAX_UNITS`](super::MAX_UNITS).
    Burst,
    /// A burst was set for an algorithm without one.
    BurstWithoutTokenBucket,
    /// A full burst takes longer to refill than [`MAX_WINDOW`](super::MAX_WINDOW).
    Refill,
    /// The block is shorter than the window or than the time to refill a full burst, longer than
    /// [`MAX_WINDOW`](super::MAX_WINDOW), or has a fraction of a microsecond.
    Block,
    /// The lease is zero, longer than [`MAX_LEASE`](super::MAX_LEASE), or has a fraction of a microsecond.
    Lease,
    /// A lease was set for an algorithm that is neither a fixed window nor a sliding window counter.
    LeaseWithoutWindow,
    /// A window, a block or a lease was set for a concurrency limit.
    OnlyForRates,
}

impl PolicyError {
    /// Text of the error: what must be true.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Key => {
                "key must be 1 to 128 printable ASCII characters without blanks, braces, quotes and backslashes"
            }
            Self::Name => {
                "name must be 1 to 128 printable ASCII characters without blanks, braces, quotes and backslashes"
            }
            Self::Max => "max must be from 1 to 1000000000000",
            Self::Window => "window must be from 1 ms to 366 days",
            Self::WindowNotMicroseconds => "window must be a whole number of microseconds",
            Self::Anchor => "a month must begin on a day from 1 to 31, and a year on a day that it has",
            Self::CalendarAlgorithm => "a calendar window is only for the fixed window",
            Self::CalendarBlock => {
                "block is not for a calendar window, whose counts end with it; set it for a second limit with a window of one length"
            }
            Self::CalendarOverridden => {
                "window cannot replace a calendar window; change the attribute or the policy instead"
            }
            Self::NotOverridable => {
                "overrides can replace max, the length of a window, burst, block, mode and on_error only"
            }
            Self::SubWindows => "sub_windows must be from 1 to 60",
            Self::SubWindowsNotWhole => "window must be a whole multiple of sub_windows, in microseconds",
            Self::SubWindowsWithoutCounter => "sub_windows is only for the sliding window counter",
            Self::Burst => "burst must be from 1 to 1000000000000",
            Self::BurstWithoutTokenBucket => "burst is only for the token bucket",
            Self::Lease => "lease must be above 0 and at most 10 s, in whole microseconds",
            Self::LeaseWithoutWindow => {
                "lease is only for fixed windows and sliding window counters; use a sliding window counter with sub_windows = 60"
            }
            Self::OnlyForRates => {
                "window, block and lease are not for a concurrency limit, which counts what runs at a time"
            }
            Self::Refill => "burst * window / max, the time to refill a full burst, must be at most 366 days",
            Self::Block => {
                "block must be at least the window and the time to refill a full burst, and at most 366 days, in whole microseconds"
            }
        }
    }
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

// Written by hand, because `build` reads the texts in constants as well.
/// As `Display`: this is what a `main` prints that returns the error.
impl std::fmt::Debug for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PolicyError {}

/// A text names no value of a setting: no [`Algorithm`](super::Algorithm), [`Mode`](super::Mode) or
/// [`OnError`](super::OnError).
///
/// The error says which names there are, and which one was probably meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {found:?} for `{setting}`: expected one of {}{}", list(.expected.iter().copied(), '"'), hint(*.meant))]
pub struct UnknownValueError {
    setting: &'static str,
    found: String,
    expected: Vec<&'static str>,
    meant: Option<&'static str>,
}

impl UnknownValueError {
    pub(crate) fn new(setting: &'static str, found: &str, expected: Vec<&'static str>) -> Self {
        let meant = nearest(found, expected.iter().copied());
        Self { setting, found: found.to_owned(), expected, meant }
    }

    /// Setting that has no such value: `algorithm`, `mode` or `on_error`.
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Names that exist.
    pub fn expected(&self) -> &[&'static str] {
        &self.expected
    }

    /// Name that was probably meant.
    pub const fn suggestion(&self) -> Option<&'static str> {
        self.meant
    }
}

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"))
}
