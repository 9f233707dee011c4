//! Limiters of one process: the installed limiter, for handlers that find no other, and limiters that count
//! alone, in memory by the system's clock. Two that count alone for the same requests are usually a mistake:
//! one per worker.

use std::sync::{Arc, Weak};
use std::{fmt, ptr};

use once_cell::sync::OnceCell;

use super::backend::Backend;
use super::{Inner, RateLimiter};

// From `once_cell`, because `try_insert` returns both the value that is installed and the one that was
// rejected; the cell of the standard library has it only in nightly versions.
static INSTALLED: OnceCell<RateLimiter> = OnceCell::new();

impl RateLimiter {
    /// Installs this as the limiter of the process, for handlers that find no other. Returns the installed
    /// limiter.
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
        // The kinds suffice to distinguish the limiters, and `unwrap` prints this text.
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

/// A limiter that counts in memory by the system's clock. Does not keep the counts alive.
#[derive(Clone, Debug)]
pub struct CountsAlone(Weak<Inner>);

impl CountsAlone {
    /// `None` for a limiter with another store, or with another clock, which only tests have.
    pub fn of(limiter: &RateLimiter) -> Option<Self> {
        match &limiter.inner.store {
            Backend::Memory(store) if store.has_system_clock => Some(Self(Arc::downgrade(&limiter.inner))),
            _ => None,
        }
    }

    /// Whether this limiter lives, and the other one does not share its counts.
    pub fn lives_beside(&self, other: &Self) -> bool {
        self.0.strong_count() > 0 && !self.0.ptr_eq(&other.0)
    }
}

/// A number that distinguishes living limiters. Clones have the same number.
#[inline]
pub fn limiter_id(limiter: &RateLimiter) -> usize {
    ptr::from_ref(&*limiter.inner).addr()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{FakeClock, SystemClock};
    use crate::store::memory::MemoryStore;

    #[test]
    fn a_limiter_in_memory_by_the_system_clock_counts_alone() {
        let system = RateLimiter::new(MemoryStore::new().with_clock(SystemClock::new()));
        for limiter in [RateLimiter::in_memory(), system] {
            assert!(CountsAlone::of(&limiter).is_some());
        }
        let test = RateLimiter::new(MemoryStore::new().with_clock(FakeClock::default()));
        assert!(CountsAlone::of(&test).is_none());
    }

    #[test]
    fn a_limiter_lives_beside_those_that_do_not_share_its_counts() {
        let (first, second) = (RateLimiter::in_memory(), RateLimiter::in_memory());
        let [one, two, same] = [&first, &second, &first.with_deadline(Duration::from_secs(1))]
            .map(|limiter| (limiter_id(limiter), CountsAlone::of(limiter).unwrap()));
        assert!(one.1.lives_beside(&two.1) && !one.1.lives_beside(&same.1));
        assert_eq!((one.0 == two.0, one.0 == same.0), (false, true));
        drop(first);
        assert!(!one.1.lives_beside(&two.1));
    }
}
