//! Reservations that outlive the request.

use std::fmt;

use super::{Charge, Reservation};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::policy::Policy;

/// A [`Reservation`] that owns its policies and partitions, from [`Reservation::into_owned`].
///
/// The units stay charged while it is kept, and a refund returns those that still count. Dropping it keeps the charges.
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
}

impl OwnedReservation {
    pub(super) fn new(reservation: &Reservation<'_>) -> Self {
        let charges = reservation.charges().map(|charge| {
            let check = charge.check();
            OwnedCharge {
                policy: check.policy().clone(),
                partition: check.partition().into(),
                cost: check.cost(),
                at: charge.at(),
                until: charge.until(),
            }
        });
        Self { charges: charges.collect(), degraded: reservation.is_degraded() }
    }

    /// Borrows the reservation, for [`RateLimiter::refund`](crate::RateLimiter::refund).
    pub fn as_reservation(&self) -> Reservation<'_> {
        let charges = self.charges.iter().map(|charge| {
            let check = Check::new(&charge.policy, &charge.partition).with_cost(charge.cost);
            Charge::new(check, charge.at, charge.until)
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
