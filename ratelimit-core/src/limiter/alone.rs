//! Limiters that count alone: in memory, by the system's clock. Two of them for the same requests are usually one per worker.

use std::ptr;
use std::sync::{Arc, Weak};

use super::backend::Backend;
use super::{Inner, RateLimiter};

/// A limiter that counts in memory by the system's clock. Does not keep the counts alive.
#[derive(Clone, Debug)]
pub struct CountsAlone(Weak<Inner>);

impl CountsAlone {
    /// `None` for a limiter over another store, and for one with another clock, which is a test.
    pub fn of(limiter: &RateLimiter) -> Option<Self> {
        match &limiter.inner.store {
            Backend::Memory(store) if store.has_system_clock() => Some(Self(Arc::downgrade(&limiter.inner))),
            _ => None,
        }
    }

    /// Whether this limiter lives, and the other one does not share its counts.
    pub fn lives_beside(&self, other: &Self) -> bool {
        self.0.strong_count() > 0 && !self.0.ptr_eq(&other.0)
    }
}

/// A number that tells living limiters apart. Clones have the same.
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
