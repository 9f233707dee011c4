//! Reservations that outlive the request.

use std::fmt;

use super::{Charge, Reservation};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::policy::Policy;

/// A [`Reservation`] that owns its policies and partitions, from [`Reservation::into_owned`].
///
/// The units stay charged while it is kept, and a refund returns those that still count. Dropping it keeps the charges.
///
/// **Warning:** refund it once, and do not retry a refund that failed: the first one may still take effect.
#[derive(Clone, Debug)]
#[must_use = "dropping a reservation keeps the charges; pass it to `RateLimiter::refund` to return them"]
pub struct OwnedReservation {
    charges: Box<[OwnedCharge]>,
    degraded: bool,
}

#[derive(Clone)]
struct OwnedCharge {
    policy: Policy,
    partition: Box<[u8]>,
    cost: u64,
    at: Timestamp,
    until: Timestamp,
    overflowed: bool,
    turn: bool,
}

impl Reservation<'_> {
    /// Copies the policies and partitions, so that the reservation can outlive the request, for example in a spawned job.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Check, Policy, RateLimiter};
    ///
    /// static EXPORTS: Policy = Policy::new("exports", 10, Duration::from_secs(3600));
    ///
    /// # fn export() -> Result<(), ()> { Err(()) }
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// let reservation = {
    ///     let caller = String::from("tenant-42");
    ///     let group = [Check::new(&EXPORTS, &caller)];
    ///     limiter.check_all(&group).await?.reservation(&group).map(|reservation| reservation.into_owned())
    /// };
    /// // The request is over; a job does the work, and a failed export does not count.
    /// let refunds = limiter.clone();
    /// let job = tokio::spawn(async move {
    ///     match (export(), &reservation) {
    ///         (Err(()), Some(reservation)) => refunds.refund(reservation.as_reservation()).await,
    ///         _ => Ok(()),
    ///     }
    /// });
    /// job.await.unwrap()?;
    /// assert_eq!(limiter.peek(&EXPORTS, "tenant-42").await?.remaining(), 10);
    /// # Ok::<(), ratelimit_core::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub fn into_owned(self) -> OwnedReservation {
        OwnedReservation::new(&self)
    }
}

impl OwnedReservation {
    fn new(reservation: &Reservation<'_>) -> Self {
        let charges = reservation.charges().map(|charge| {
            let check = charge.check();
            OwnedCharge {
                policy: check.policy().clone(),
                partition: check.partition().into(),
                cost: check.cost(),
                at: charge.at(),
                until: charge.until(),
                overflowed: charge.is_overflowed(),
                turn: charge.is_turn(),
            }
        });
        Self { charges: charges.collect(), degraded: reservation.is_degraded() }
    }

    /// Borrows the reservation, for [`RateLimiter::refund`](crate::RateLimiter::refund).
    pub fn as_reservation(&self) -> Reservation<'_> {
        let charges = self.charges.iter().map(|charge| {
            let check = Check::new(&charge.policy, &charge.partition).with_cost(charge.cost);
            Charge::new(check, charge.at, charge.until)
                .overflowed_if(charge.overflowed)
                .as_turn_if(charge.turn)
        });
        Reservation::new(charges.collect(), self.degraded)
    }
}

impl fmt::Debug for OwnedCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the partition: it may be an address or a name, and the text may be logged.
        f.debug_struct("OwnedCharge")
            .field("policy", &self.policy.key())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
