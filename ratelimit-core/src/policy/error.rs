//! Why a policy cannot be built.

/// A policy whose numbers or names are out of their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The key is empty, too long, or has a character that is not allowed.
    Key,
    /// The name is empty, too long, or has a character that is not allowed.
    Name,
    /// `max` is out of its bounds.
    Max,
    /// The window is out of its bounds.
    Window,
    /// The window has a fraction of a microsecond.
    WindowNotMicroseconds,
    /// The number of sub-windows is out of its bounds.
    SubWindows,
    /// The window cannot be divided into that many equal sub-windows.
    SubWindowsNotWhole,
    /// Sub-windows were given for another algorithm.
    SubWindowsWithoutCounter,
    /// The burst is out of its bounds.
    Burst,
    /// A burst was given for another algorithm.
    BurstWithoutTokenBucket,
    /// A full burst takes too long to refill.
    Refill,
}

impl PolicyError {
    /// What is wrong, and what is expected.
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
            Self::SubWindows => "sub_windows must be from 1 to 60",
            Self::SubWindowsNotWhole => "window must be a whole multiple of sub_windows, in microseconds",
            Self::SubWindowsWithoutCounter => "sub_windows is only for the sliding window counter",
            Self::Burst => "burst must be from 1 to 1000000000000",
            Self::BurstWithoutTokenBucket => "burst is only for the token bucket",
            Self::Refill => "burst * window / max, the time to refill a full burst, must be at most 366 days",
        }
    }
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

// By hand, because the texts have to be readable in a constant as well.
impl std::error::Error for PolicyError {}
