//! Costs that are known late: settling a charge to the true cost, charging as many units as fit, and charging
//! after the response.

use std::slice;

use futures_util::future::join_all;
use smallvec::SmallVec;

use super::{RateLimiter, only};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::{SettleError, StoreError};
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::{MAX_UNITS, Policy};
use crate::reservation::Reservation;
use crate::store::Task;

impl RateLimiter {
    /// Spawns a settlement that no request waits for, by [`Store::spawn`](crate::store::Store::spawn).
    pub(crate) fn spawn(&self, task: Task) -> Result<(), Task> {
        self.inner.store.as_dyn().spawn(task)
    }

    /// Charges as many of `units` as fit. Returns their number and the outcome, in one round trip.
    ///
    /// The outcome is the same as of a check of this number of units. If not even one unit fits, nothing is
    /// charged, and the outcome is the denial of one unit, with the wait for it. It begins a
    /// [block](Policy::block) as any denial does.
    ///
    /// # Errors
    ///
    /// As with [`check`](Self::check), and [`StoreError::ConcurrencyLimit`] for such a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Policy, RateLimiter};
    ///
    /// static ROWS: Policy = Policy::new("rows", 100, Duration::from_secs(60));
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let (rows, _) = limiter.check_up_to(&ROWS, "tenant-42", 70).await?;
    /// assert_eq!(rows, 70);
    /// let (rows, outcome) = limiter.check_up_to(&ROWS, "tenant-42", 70).await?;
    /// assert_eq!((rows, outcome.is_allowed(), outcome.remaining()), (30, true, 0));
    /// let (rows, outcome) = limiter.check_up_to(&ROWS, "tenant-42", 70).await?;
    /// assert_eq!((rows, outcome.is_allowed()), (0, false));
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn check_up_to(
        &self,
        policy: &Policy,
        partition: impl AsRef<[u8]>,
        units: u64,
    ) -> Result<(u64, Outcome), StoreError> {
        let (charged, outcome) = self.check_up_to_all(&[Check::new(policy, &partition)], units).await?;
        Ok((charged, only(outcome)?))
    }

    /// Charges every limit of a group the same number of units: as many of `units` as fit all of them. The
    /// costs of the checks do not matter. A count that occurs twice is charged twice as many.
    ///
    /// Shadow limits are charged if the number fits them, and do not lower it. A
    /// [reservation](GroupOutcome::reservation) needs the group with the number as cost.
    ///
    /// # Errors
    ///
    /// As with [`check_all`](Self::check_all), [`StoreError::ConcurrencyLimit`] for such a limit, and
    /// [`StoreError::SeveralCallers`] for a group of several callers in a Redis cluster.
    pub async fn check_up_to_all(
        &self,
        group: &[Check<'_>],
        units: u64,
    ) -> Result<(u64, GroupOutcome), StoreError> {
        if let Some(check) = group.iter().find(|check| check.policy().is_concurrency()) {
            return Err(StoreError::ConcurrencyLimit { limit: check.policy().name().to_owned() });
        }
        let group: SmallVec<[Check<'_>; 2]> = group.iter().map(|check| check.with_cost(units)).collect();
        let outcome = self.inner.outcome(&group, || Operation::UpTo, self.deadline, false).await?;
        let charged = match outcome.outcomes().first() {
            Some(first) if outcome.is_allowed() => first.cost(),
            Some(_) => 0,
            None => units,
        };
        Ok((charged, outcome))
    }

    /// Corrects the charge of one limit to its true cost, up or down.
    ///
    /// For costs that are known after the work, such as the tokens of an answer or the bytes of a file: the
    /// request is charged an estimate, and settled. If `actual` is less than what was charged, the rest is
    /// [refunded](Self::refund), as far as it still counts. If it is more, the rest is charged as well, even
    /// if the limit does not admit it. What is counted beyond the limit is a debt: nothing remains, and later
    /// requests are denied until time has paid it. Their [`retry_after`](Outcome::retry_after) is exact.
    ///
    /// * Windows and logs count the debt where it was made: a fixed window forgets it at its end.
    /// * A count never exceeds 10^12 units, and no debt of a token bucket takes longer than 366 days until
    ///   the bucket is full again. Units beyond that are not charged.
    /// * Nothing is settled during a [block](Policy::block). A block replaces a debt as it replaces all
    ///   counts.
    /// * In an outage the counts of this process are settled, if they were charged.
    /// * With a [lease](crate::PolicyBuilder::lease) a limit is settled exactly. Unused units in leases of
    ///   this process pay if there are enough, and are given back otherwise. Unused units in leases of other
    ///   processes can be used beside the debt, for at most 1 s.
    ///
    /// A reservation of several limits is settled limit by limit; see [`Reservation::take_limit`].
    ///
    /// # Errors
    ///
    /// [`SettleError`] if the reservation does not have exactly one charge, `actual` is above [`MAX_UNITS`],
    /// the limit is a concurrency limit, [turns](Self::wait) after the charge are not due, or the store does
    /// not answer in time. In the last case it is unknown whether the charge was settled, so do not retry.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Algorithm, Check, Policy, RateLimiter};
    ///
    /// static REQUESTS: Policy = Policy::new("requests", 60, Duration::from_secs(60));
    /// static TOKENS: Policy =
    ///     Policy::builder("tokens").algorithm(Algorithm::TokenBucket).max(6_000).window(Duration::from_secs(60)).build();
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let group = [Check::new(&REQUESTS, "tenant-42"), Check::new(&TOKENS, "tenant-42").with_cost(1_000)];
    /// let outcome = limiter.check_all(&group).await?;
    /// let mut reservation = outcome.reservation(&group).expect("the first request passes");
    ///
    /// // The answer took 7,000 tokens, 1,000 more than there are in a minute.
    /// if let Some(tokens) = reservation.take_limit("tokens") {
    ///     limiter.settle(tokens, 7_000).await?;
    /// }
    /// let denied = limiter.peek(&TOKENS, "tenant-42").await?;
    /// assert_eq!((denied.is_allowed(), denied.remaining()), (false, 0));
    /// assert!(denied.retry_after() > Some(Duration::from_secs(9)), "10 s for the debt, and 10 ms for a token");
    /// assert_eq!(limiter.peek(&REQUESTS, "tenant-42").await?.remaining(), 59, "keeps its charge");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn settle(&self, reservation: Reservation<'_>, actual: u64) -> Result<(), SettleError> {
        if actual > MAX_UNITS {
            return Err(SettleError::TooManyUnits { units: actual });
        }
        let (1, Some(charge)) = (reservation.charges().len(), reservation.charges().next()) else {
            return Err(SettleError::NotOneCharge { size: reservation.charges().len() });
        };
        let (check, is_degraded) = (charge.check(), reservation.is_degraded());
        if check.policy().is_concurrency() {
            return Err(SettleError::ConcurrencyLimit { limit: check.policy().name().to_owned() });
        }
        if charge.is_overflowed() || actual == check.cost() {
            return Ok(());
        } else if actual < check.cost() {
            let surplus = check.with_cost(check.cost() - actual);
            let surplus = Reservation::new(smallvec::smallvec![charge.with_check(surplus)], is_degraded);
            return self.refund(surplus).await.map_err(|error| match error {
                StoreError::TurnsNotDue => {
                    SettleError::TurnsNotDue { limit: check.policy().name().to_owned() }
                }
                error => error.into(),
            });
        }
        let rest = check.in_window(charge.at(), 0).with_cost(actual - check.cost());
        if is_degraded {
            self.inner.fallback.overdraw(&rest);
            return Ok(());
        }
        let result =
            self.inner.outcome(slice::from_ref(&rest), || Operation::Overdraw, self.deadline, false).await;
        if let Err(error) = &result {
            self.inner.fallback.outage.log_failed_settlement(error);
        }
        Ok(result.map(drop)?)
    }

    /// Charges each check by itself, on a worker: after the response to a request that was looked
    /// at. `None` if that failed, which is logged.
    pub(crate) async fn charge_each(&self, checks: &[Check<'_>]) -> Vec<Option<Outcome>> {
        let charge = async |check: &Check<'_>| only(self.check_all_on_worker(slice::from_ref(check)).await?);
        let charged = join_all(checks.iter().map(charge)).await;
        let outcome = |charged: Result<Outcome, StoreError>| {
            charged.inspect_err(|error| self.inner.fallback.outage.log_failed_settlement(error)).ok()
        };
        charged.into_iter().map(outcome).collect()
    }
}
