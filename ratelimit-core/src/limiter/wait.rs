//! Waiting for a turn: a token bucket is charged ahead, and the request starts when it is due.

use std::mem;
use std::slice;
use std::time::Duration;

use super::RateLimiter;
use super::backend::{Backend, measured, only};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::micros;
use crate::error::{StoreError, WaitError};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::process::OfProcess;
use crate::reservation::{Charge, Reservation};

impl RateLimiter {
    /// Waits for the next turn of a token bucket, at most `at_most`, and returns when it is due: first come,
    /// first served, over all processes that share the store.
    ///
    /// For calls to other services, which shall keep within a limit instead of failing. One call of the store
    /// takes the turn: if [`check_n`](Self::check_n) would pass after at most `at_most`, the units are
    /// charged at once. Otherwise the outcome is its denial with the exact
    /// [`retry_after`](Outcome::retry_after), and nothing is charged or awaited. So at most `at_most * max /
    /// window` units wait at any time, in all processes together.
    ///
    /// * **Order.** Turns are due in the order in which the store decided, whatever the costs. A check never
    ///   overtakes: it is denied while turns are taken.
    /// * **Time.** The turn is [due](Outcome::due_after) by the store's clock. The process sleeps a
    ///   thousandth longer, from the arrival of the reply: it never starts early. A process that wakes late
    ///   starts late. If the machine is suspended meanwhile, the wait ends at most a second after it goes on
    ///   or after the turn is due, whichever is later.
    /// * **Outage.** With [`OnError::Local`](crate::OnError::Local) the request waits for a turn of this
    ///   process, [`Deny`](crate::OnError::Deny) is an error, and [`Allow`](crate::OnError::Allow) does not
    ///   wait.
    /// * **Shadow.** Under a shadow limit no request waits: the outcome is the same as of a check.
    /// * **Refunds.** A turn that was taken never moves. So while turns are not due, only the last charge of
    ///   the bucket is [refunded](Self::refund). A refund of another charge is an error, in any process. A
    ///   [reset](Self::reset) forgets the turns, and so does a change of `max` or burst, which begins a new
    ///   count.
    ///
    /// # Errors
    ///
    /// [`WaitError`] if the limit is not a token bucket or has a block, if the cost is above its burst, or if
    /// `at_most` is more than [`MAX_WAIT`](crate::policy::MAX_WAIT); and if the store cannot decide and the
    /// limit fails closed. A denial is an outcome, not an error.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped before its turn, also while its call to a server is in flight, gives the turn
    /// back if it is the last one of the bucket. Otherwise the turn stays unused, since later turns would
    /// move and two of them could start at once. A process that crashes, and a reply that is lost, also leave
    /// a turn unused.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Algorithm, Policy, RateLimiter};
    ///
    /// /// 50 calls a second to each host, evenly: one each 20 ms.
    /// static DELIVERIES: Policy = Policy::builder("deliveries")
    ///     .algorithm(Algorithm::TokenBucket)
    ///     .max(50)
    ///     .window(Duration::from_secs(1))
    ///     .burst(1)
    ///     .build();
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// for _ in 0..3 {
    ///     let turn = limiter.wait(&DELIVERIES, "a.example", 1, Duration::from_secs(30)).await?;
    ///     assert!(turn.is_allowed());
    ///     // Call the host.
    /// }
    /// let busy = limiter.wait(&DELIVERIES, "a.example", 1, Duration::from_millis(1)).await?;
    /// assert!(!busy.is_allowed(), "its turn would be in {:?}", busy.retry_after());
    /// # Ok::<(), ratelimit_core::WaitError>(())
    /// # }).unwrap();
    /// ```
    pub async fn wait(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
        cost: u64,
        at_most: Duration,
    ) -> Result<Outcome, WaitError> {
        check_wait(policy, cost, at_most)?;
        let check = self.check_of(policy, &partition, cost);
        if !check.has_turns() {
            return Ok(self.check_n(policy, partition, cost).await?);
        }
        let outcome = self.take_turn(&check, at_most).await?;
        if outcome.is_allowed() {
            self.inner.observer.waits(policy, outcome.due_after());
        }
        let wait = outcome.due_after();
        if !wait.is_zero() {
            let turn = OfProcess::new(Turn { limiter: self, check, outcome: &outcome });
            // The clocks of the store and of this process may differ by a thousandth in speed.
            self.inner.clock.sleep(wait + wait / 1_000).await;
            // Keeps the turn, which is due.
            mem::forget(turn);
        }
        Ok(outcome)
    }

    /// Decides when the request is due.
    async fn take_turn(&self, check: &Check<'_>, at_most: Duration) -> Result<Outcome, StoreError> {
        let operation = || Operation::Wait { at_most_us: micros(at_most) };
        match &self.inner.store {
            Backend::Memory(store) => {
                let group = slice::from_ref(check);
                let decide = || {
                    // Most requests need not wait. If this one must, the check has charged nothing.
                    let outcome = store.judge_one(check, Operation::Check);
                    if outcome.fits() {
                        return outcome;
                    }
                    store.judge_group(group, operation()).into_only().unwrap_or(outcome)
                };
                Ok(measured(group, &self.inner.observer, decide, slice::from_ref))
            }
            _ => only(self.inner.outcome(slice::from_ref(check), operation, self.deadline, false).await?),
        }
    }
}

/// Verifies that a request of this cost can wait so long under the policy.
fn check_wait(policy: &Policy, cost: u64, at_most: Duration) -> Result<(), WaitError> {
    let limit = || policy.name().to_owned();
    let (algorithm, burst) = (policy.algorithm(), policy.capacity());
    if !algorithm.has_burst() {
        Err(WaitError::Algorithm { limit: limit(), algorithm })
    } else if policy.block().is_some() {
        Err(WaitError::Blocks { limit: limit() })
    } else if cost > burst {
        Err(WaitError::CostAboveBurst { limit: limit(), cost, burst })
    } else if !policy.allows_wait(at_most) {
        Err(WaitError::TooLong { limit: limit(), at_most, longest: policy.longest_wait() })
    } else {
        Ok(())
    }
}

/// A turn that is not due yet. It is given up if it is dropped.
struct Turn<'a> {
    limiter: &'a RateLimiter,
    check: Check<'a>,
    outcome: &'a Outcome,
}

impl Drop for Turn<'_> {
    /// Begins to give the turn back. The store keeps it if that would move a later turn.
    fn drop(&mut self) {
        let Self { limiter, check, outcome } = &*self;
        if outcome.is_overflowed() {
            return;
        }
        let charge = Reservation::single(Charge::turn(*check, outcome));
        if outcome.is_degraded() {
            // The only error says that the charge stays, which is no failure.
            let _ = limiter.inner.fallback.refund(&charge);
            return;
        }
        limiter.inner.begin_refund(&charge, limiter.deadline);
    }
}
