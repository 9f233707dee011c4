//! Settling a limit when a streaming body ends, also if the client goes away.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratelimit_core::__private_0_1::{OfProcess, PrivateLimiter as _, help};
use ratelimit_core::policy::MAX_UNITS;
use tokio::runtime::Handle;

use super::group::DecidedGroup;

/// A number of units that grows while a response is sent. Clones share it.
///
/// An `Arc<AtomicU64>` of your own can replace it.
///
/// # Examples
///
/// ```
/// use ratelimit_actix::UsageCounter;
///
/// let counter = UsageCounter::default();
/// counter.clone().add(3);
/// assert_eq!(counter.get(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct UsageCounter(Arc<AtomicU64>);

/// The sum of a counter that was neither added to nor set.
const UNKNOWN: u64 = u64::MAX;

impl UsageCounter {
    /// A counter that is unknown until units are added, or it is set: a limit that is settled to it keeps
    /// what it was charged until then. For streams that report their usage at the end, for which a client may
    /// not wait.
    ///
    /// To have such a client pay for what was sent, [add](Self::add) a unit for each part, and
    /// [set](Self::set) the true usage at the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::UsageCounter;
    ///
    /// let used = UsageCounter::or_estimate();
    /// used.add(1);
    /// used.add(1);
    /// used.set(1200);
    /// assert_eq!(used.get(), 1200);
    /// ```
    pub fn or_estimate() -> Self {
        Self(Arc::new(AtomicU64::new(UNKNOWN)))
    }

    /// Sets the sum.
    pub fn set(&self, units: u64) {
        self.0.store(units.min(UNKNOWN - 1), Ordering::Relaxed);
    }

    /// Adds units. The sum stops at the largest number.
    pub fn add(&self, units: u64) {
        let add = |sum: u64| Some(known(sum).unwrap_or(0).saturating_add(units).min(UNKNOWN - 1));
        // It returns an error only where the function returns `None`.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The sum so far; 0 while it is unknown.
    pub fn get(&self) -> u64 {
        self.known().unwrap_or(0)
    }

    /// The sum so far, if it is known.
    fn known(&self) -> Option<u64> {
        known(self.0.load(Ordering::Relaxed))
    }
}

fn known(sum: u64) -> Option<u64> {
    (sum != UNKNOWN).then_some(sum)
}

impl From<Arc<AtomicU64>> for UsageCounter {
    fn from(counter: Arc<AtomicU64>) -> Self {
        Self(counter)
    }
}

impl From<&Self> for UsageCounter {
    fn from(counter: &Self) -> Self {
        counter.clone()
    }
}

/// Settles a limit when it is dropped, to what its counter says then. From
/// [`LimitCharge::settle_on_drop`](crate::LimitCharge::settle_on_drop).
///
/// Move it into the stream of a response: it is dropped with the body, at its end or when the client has gone
/// away.
#[must_use = "the limit is settled when this is dropped; move it into the stream of the response"]
pub struct SettleOnDrop {
    /// `None` for a limit that does not apply to the request.
    pub(super) settled: Option<OfProcess<DecidedGroup>>,
    pub(super) counter: UsageCounter,
}

impl Drop for SettleOnDrop {
    fn drop(&mut self) {
        // A child of a fork leaves it to the parent, whose response goes on.
        let Some(settled) = self.settled.as_mut().and_then(OfProcess::take) else { return };
        let Some(actual) = self.counter.known().map(|sum| sum.min(MAX_UNITS)) else { return };
        let (limiter, unsettled) = (settled.limiter.clone(), Unsettled);
        let task = Box::pin(async move {
            // The limiter logs failures.
            let _ = settled.settle(actual).await;
            mem::forget(unsettled);
        });
        if let Err(task) = limiter.spawn(task)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(task);
        }
    }
}

/// Logs a settlement that is dropped before it has ended.
struct Unsettled;

impl Drop for Unsettled {
    fn drop(&mut self) {
        tracing::error!(
            help = help("settled-without-a-runtime"),
            "a limit could not be settled when a response ended, because there was no tokio runtime, or it ended; \
             what was charged stays charged"
        );
    }
}

impl fmt::Debug for SettleOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleOnDrop").field("counter", &self.counter).finish_non_exhaustive()
    }
}
