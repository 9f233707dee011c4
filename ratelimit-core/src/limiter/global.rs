//! The limiter of the process, for handlers that find no other.

use std::sync::OnceLock;

use super::RateLimiter;

static DEFAULT: OnceLock<RateLimiter> = OnceLock::new();

impl RateLimiter {
    /// Installs this as the limiter of the process, for handlers that find no other.
    ///
    /// # Errors
    ///
    /// This limiter, if one is installed already.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::RateLimiter;
    ///
    /// assert!(RateLimiter::in_memory().install().is_ok());
    /// assert!(RateLimiter::in_memory().install().is_err(), "only the first is installed");
    /// assert!(RateLimiter::installed().is_some());
    /// ```
    pub fn install(self) -> Result<(), Self> {
        DEFAULT.set(self)
    }

    /// Limiter of the process, if one was [installed](Self::install).
    pub fn installed() -> Option<&'static Self> {
        DEFAULT.get()
    }
}
