//! The span of a calendar window in time.

/// A window from its first instant to the first one after it, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowSpan {
    pub(crate) from: u64,
    pub(crate) before: u64,
}

impl WindowSpan {
    #[cfg(feature = "calendar")]
    #[inline]
    pub(crate) const fn contains(self, now: u64) -> bool {
        self.from <= now && now < self.before
    }

    pub(crate) const fn length(self) -> u64 {
        self.before - self.from
    }
}
