//! The limiter of the process, for handlers that find no other.

use std::fmt;

use once_cell::sync::OnceCell;

use super::RateLimiter;

// Of `once_cell`, because `try_insert` returns both the value that is installed and the one that was rejected; the cell of
// the standard library has it only in nightly versions.
static INSTALLED: OnceCell<RateLimiter> = OnceCell::new();

impl RateLimiter {
    /// Installs this as the limiter of the process, for handlers that find no other. Returns the installed limiter.
    ///
    /// Call it once, when the program starts. An installed limiter is never replaced.
    ///
    /// # Errors
    ///
    /// [`InstallError`] if a limiter is installed already. The error gives this limiter back.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{InstallError, RateLimiter};
    ///
    /// # fn main() -> Result<(), InstallError> {
    /// let limiter = RateLimiter::in_memory().install()?;
    /// assert_eq!(limiter.store_kind(), "memory");
    /// assert!(RateLimiter::installed().is_some());
    ///
    /// let error = RateLimiter::in_memory().install().unwrap_err();
    /// let second: RateLimiter = error.into_limiter();
    /// # let _ = second;
    /// # Ok(())
    /// # }
    /// ```
    pub fn install(self) -> Result<&'static Self, InstallError> {
        INSTALLED.try_insert(self).map_err(|(installed, rejected)| InstallError { installed, rejected })
    }

    /// Limiter of the process, if one was [installed](Self::install).
    pub fn installed() -> Option<&'static Self> {
        INSTALLED.get()
    }
}

/// Error of [`RateLimiter::install`]: a limiter is installed already.
#[derive(thiserror::Error)]
#[error("a rate limiter is installed already for this process; install one, when the program starts")]
pub struct InstallError {
    installed: &'static RateLimiter,
    rejected: RateLimiter,
}

impl fmt::Debug for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The kinds suffice to tell the limiters apart, and `unwrap` prints this text.
        f.debug_struct("InstallError")
            .field("installed", &self.installed.store_kind())
            .field("rejected", &self.rejected.store_kind())
            .finish()
    }
}

impl InstallError {
    /// The limiter that is installed.
    pub const fn installed(&self) -> &'static RateLimiter {
        self.installed
    }

    /// Takes back the limiter that was not installed.
    pub fn into_limiter(self) -> RateLimiter {
        self.rejected
    }
}
