//! Slots of concurrency limits: taken for work without HTTP, and freed in stores that do not do it themselves.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use super::backend::only;
use super::{Inner, RateLimiter};
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::reservation::OwnedReservation;
use crate::slots::Slots;

impl RateLimiter {
    /// Takes a slot of a [concurrency limit](Policy::concurrency) for the caller `partition`, for as long as the work takes: it is
    /// freed when the slots are dropped. The outcome if none is free.
    ///
    /// [`check`](Self::check) of such a limit says whether a slot is free, and takes none. To take slots and charge rates in one
    /// decision, use [`check_all`](Self::check_all) and [`GroupOutcome::take_slots`]. Under another policy this charges one unit,
    /// like `check`, and the slots are empty.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check).
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped holds no slot.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static EXPORTS: Policy = Policy::concurrency("exports", 1);
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// match limiter.acquire(&EXPORTS, "tenant-42").await? {
    ///     Ok(slot) => {
    ///         // The work. Meanwhile no other export of this tenant runs.
    ///         assert!(limiter.acquire(&EXPORTS, "tenant-42").await?.is_err_and(|denied| denied.is_busy()));
    ///         drop(slot);
    ///     }
    ///     Err(denied) => println!("{} exports run already", denied.limit()),
    /// }
    /// assert!(limiter.acquire(&EXPORTS, "tenant-42").await?.is_ok());
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn acquire(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
    ) -> Result<Result<Slots, Outcome>, StoreError> {
        let mut outcome = self.check_all(&[Check::new(policy, &partition)]).await?;
        let slots = outcome.take_slots();
        let outcome = only(outcome)?;
        Ok(if outcome.is_allowed() { Ok(slots) } else { Err(outcome) })
    }

    /// Adds to a decision of a store the slots that the store does not hold itself, and counts all slots while they are held.
    pub(super) fn with_slots(&self, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
        let outcome = if outcome.is_allowed() && outcome.slots().is_empty() && !outcome.is_degraded() {
            self.with_refunded_slots(group, outcome)
        } else {
            outcome
        };
        self.inner.report.hold(group, outcome)
    }

    fn with_refunded_slots(&self, group: &[Check<'_>], outcome: GroupOutcome) -> GroupOutcome {
        let Some(charges) = outcome.slot_charges(group) else { return outcome };
        let slots = Slots::new(RefundOnDrop {
            limiter: Arc::clone(&self.inner),
            deadline: self.deadline,
            charges: Some(charges.into_owned()),
            runtime: Runtime::current(),
        });
        outcome.with_slots(slots)
    }
}

/// Slots in a store that knows nothing of them. Dropping this refunds them.
#[derive(Debug)]
struct RefundOnDrop {
    limiter: Arc<Inner>,
    deadline: Duration,
    charges: Option<OwnedReservation>,
    runtime: Runtime,
}

impl Drop for RefundOnDrop {
    fn drop(&mut self) {
        let (limiter, deadline) = (Arc::clone(&self.limiter), self.deadline);
        let Some(charges) = self.charges.take() else { return };
        self.runtime.run(async move {
            let refunded = limiter.store.as_dyn().refund(&charges.as_reservation(), deadline).await;
            if let Err(error) = refunded {
                limiter.fallback.outage.log_failed_refund(&error);
            }
        });
    }
}

/// Runs what a dropped value still has to do.
#[derive(Debug)]
struct Runtime {
    /// The runtime in which the value was made.
    #[cfg(feature = "redis")]
    origin: Option<tokio::runtime::Handle>,
}

impl Runtime {
    fn current() -> Self {
        Self {
            #[cfg(feature = "redis")]
            origin: tokio::runtime::Handle::try_current().ok(),
        }
    }

    /// Runs the future here as far as it does not wait. The rest runs in the runtime of this thread, or in a thread.
    #[cfg_attr(not(feature = "redis"), allow(clippy::unused_self, reason = "there is no other runtime"))]
    fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future = Box::pin(future);
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        #[cfg(feature = "redis")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(future);
            return;
        }
        #[cfg(feature = "redis")]
        let origin = self.origin.clone();
        thread::spawn(move || {
            #[cfg(feature = "redis")]
            let _context = origin.as_ref().map(tokio::runtime::Handle::enter);
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                thread::park();
            }
        });
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
