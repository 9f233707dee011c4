//! Slots that a request holds until its work ends.

mod acquire;
mod held;

use std::any::Any;
use std::sync::Arc;

pub(crate) use self::held::operation_of_one;
use crate::process::OfProcess;

/// Slots of concurrency limits that an admitted request holds. They are freed when this is dropped.
///
/// Keep this for as long as the work takes: a job keeps it in a variable, a response in its body. A clone
/// holds the same slots, which are freed when the last clone is dropped.
///
/// Slots keep the store open, so that it frees them also after the last limiter was dropped.
///
/// For a request without concurrency limits this is empty, and nothing is allocated.
///
/// **Warning:** [`std::mem::forget`] of this keeps the slots taken until the process ends.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Check, Policy, RateLimiter};
///
/// static STREAMS: Policy = Policy::concurrency("streams", 1);
/// static REQUESTS: Policy = Policy::new("requests", 60, Duration::from_secs(60));
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let limiter = RateLimiter::in_memory();
/// let group = [Check::new(&STREAMS, "tenant-42"), Check::new(&REQUESTS, "tenant-42")];
/// let slots = limiter.check_all(&group).await?.take_slots();
/// assert!(limiter.check_all(&group).await?.is_busy());
/// drop(slots);
/// assert!(limiter.check_all(&group).await?.is_allowed());
/// # Ok::<(), ratelimit_core::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "slots are freed when this is dropped"]
pub struct Slots(Option<Arc<dyn Any + Send + Sync>>);

impl Slots {
    /// Slots that are freed by `free`, which is called when they are dropped, except in a child of a fork:
    /// the work of the parent goes on.
    pub(crate) fn freed_by(free: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(OfProcess::new(OnDrop(free)))))
    }

    /// Keeps `owner` for as long as these slots are held.
    pub(crate) fn keeping(self, owner: impl Any + Send + Sync) -> Self {
        Self(self.0.map(|slots| Arc::new((slots, owner)) as _))
    }

    /// Whether no slot is held.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// These slots and others as one.
    pub fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(one), Some(other)) => Self(Some(Arc::new((one, other)))),
            (one, other) => Self(one.or(other)),
        }
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn slots_are_freed_once_when_the_last_clone_is_dropped() {
        let freed = Arc::new(AtomicUsize::new(0));
        let count = || freed.load(Ordering::Relaxed);
        let held = || {
            let freed = Arc::clone(&freed);
            Slots::freed_by(move || {
                freed.fetch_add(1, Ordering::Relaxed);
            })
        };
        assert!(Slots::default().is_empty() && Slots::default().and(Slots::default()).is_empty());
        let owner = Arc::new(());
        assert!(Slots::default().keeping(Arc::clone(&owner)).is_empty() && Arc::strong_count(&owner) == 1);
        let one = Slots::default().and(held());
        assert!(!one.is_empty());
        let both = one.clone().and(held());
        drop(both.clone());
        drop(one);
        assert_eq!(count(), 0);
        drop(both);
        assert_eq!(count(), 2);
    }
}
