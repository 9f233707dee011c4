//! Refunds while leases are on: into a lease, to the server, or without effect.

use super::Leases;
use crate::reservation::Charge;
use crate::store::redis::lease::count::Terms;

impl Leases {
    /// Takes back the units of a charge. Returns false if the server has to refund them.
    pub(in crate::store::redis) fn take_back(&self, charge: &Charge<'_>) -> bool {
        let check = charge.check();
        let interval = self.interval(check.policy());
        if interval == 0 {
            return false;
        }
        let now = self.now();
        let is_back = self.change(self.digest(&check), |count, _, connection, effects| {
            let terms = Terms { policy: check.policy(), interval, connection };
            count.take_back(terms, check.cost(), charge.at().as_micros(), now, effects)
        });
        is_back.unwrap_or(false)
    }
}
