//! The algorithms by name.

/// How units are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A count that starts anew at every multiple of the window since the Unix epoch.
    FixedWindow,
    /// Counts of the present and earlier sub-windows, the oldest weighted by how much of it is still in the window and rounded
    /// down to whole units. Below 2 × max pass in one window.
    #[default]
    SlidingWindowCounter,
    /// Every admitted unit with its time: exact in every window. An entry that is exactly one window old still counts.
    SlidingWindowLog,
    /// A bucket of `burst` tokens that refills at `max` per window.
    TokenBucket,
}

impl Algorithm {
    /// The name, as the attribute spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::TokenBucket => "token_bucket",
        }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
