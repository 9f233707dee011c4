//! Refunds while leases are on: into a lease, to the server, or without effect.

use super::Leases;
use crate::check::Check;
use crate::policy::{Leasing, Policy};
use crate::reservation::Charge;
use crate::store::redis::lease::count::Terms;

impl Leases {
    /// Takes back the units of a charge. Returns false if the server has to refund them.
    pub(in crate::store::redis) fn take_back(&self, charge: &Charge<'_>) -> bool {
        let check = charge.check();
        if !self.allows_refund(&check) {
            return true;
        }
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

    /// Notes a request under a limit that may hold leases.
    pub(in crate::store::redis::lease) fn note_bucket(&self, policy: &Policy) {
        if !policy.is_refundable() {
            self.leased_buckets.note(policy.state_id());
        }
    }

    /// Whether a refund can give a charge back to the server: not that of a bucket with a lease, even if this process holds none
    /// of its units. Another process may, since the number of instances can differ while it is being changed. Nor that by
    /// another limit of this process over such a bucket, whose units would be admitted twice. Nor slots, which are freed instead.
    pub(in crate::store::redis) fn allows_refund(&self, check: &Check<'_>) -> bool {
        let policy = check.policy();
        policy.is_refundable()
            && (policy.algorithm().leasing() != Leasing::Evaporating
                || !self.leased_buckets.may_have(policy.state_id()))
    }
}
