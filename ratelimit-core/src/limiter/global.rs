//! The limiter of the process, for handlers that find no other.

use std::sync::OnceLock;

use super::RateLimiter;

static DEFAULT: OnceLock<RateLimiter> = OnceLock::new();

impl RateLimiter {
    /// Makes this the limiter of the process, for handlers that find no other.
    ///
    /// # Errors
    ///
    /// When there is one already; it is given back.
    pub fn install(self) -> Result<(), Self> {
        DEFAULT.set(self)
    }

    /// The limiter of the process, if one was [installed](Self::install).
    pub fn installed() -> Option<&'static Self> {
        DEFAULT.get()
    }
}
