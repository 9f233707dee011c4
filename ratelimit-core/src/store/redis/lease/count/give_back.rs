//! Units that a count gives back to the server: which, and when.

use smallvec::SmallVec;

use super::Count;
use crate::algorithm::UseBy;
use crate::policy::{Algorithm, Policy};
use crate::store::redis::lanes::ConnectionId;
use crate::store::redis::lease::units::Lease;

/// Units to be given back: those of a charge at `at`, which counts until `until`, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct GiveBack {
    pub(in crate::store::redis) units: u64,
    pub(in crate::store::redis) at: u64,
    pub(in crate::store::redis) until: u64,
    pub(in crate::store::redis) connection: ConnectionId,
}

/// What an event does outside of the count.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Effects {
    pub(in crate::store::redis) give_backs: SmallVec<[GiveBack; 2]>,
    /// Units of leases that ended: used, given back, expired.
    pub(in crate::store::redis) tally: [u64; 3],
}

impl Count {
    /// Ends what may no longer be used, and gives back what was not used for an interval. Returns whether the count has
    /// neither leases nor a request for one, so that it can be dropped.
    pub(in crate::store::redis) fn sweep(
        &mut self,
        connection: ConnectionId,
        now: u64,
        effects: &mut Effects,
    ) -> bool {
        self.renew(connection, effects);
        self.trim(now, effects);
        let (policy, interval) = (&self.policy, self.interval);
        for lease in &mut self.leases {
            // Units of a bucket are never given back; they stay usable until they evaporate.
            if now.saturating_sub(lease.last_used) >= interval && !lease.use_by.evaporates() {
                effects.give_back(policy, lease, now, connection);
            }
        }
        self.leases.is_empty() && self.in_flight.is_none() && self.resets == 0
    }

    /// Gives back everything that is held: at the end of the process, and after a settlement.
    pub(in crate::store::redis) fn close(
        &mut self,
        connection: ConnectionId,
        now: u64,
        effects: &mut Effects,
    ) {
        self.renew(connection, effects);
        self.trim(now, effects);
        for mut lease in self.leases.drain(..) {
            effects.give_back(&self.policy, &mut lease, now, connection);
            effects.ended(&lease);
        }
    }
}

/// Whether a refund can give units of a count under `policy` back while leases are on.
///
/// Not those of a token bucket: a refund would move its theoretical arrival time below the ends of leases that other
/// processes hold, and their units would be admitted twice.
pub(in crate::store::redis) const fn accepts_refunds(policy: &Policy) -> bool {
    !matches!(policy.algorithm(), Algorithm::TokenBucket)
}

/// Whether unused units can be given back to the server at `upper_bound`, or 0 if that is not known: not those of a bucket,
/// and not those of a fixed window that is over.
pub(super) fn is_worth_giving_back(policy: &Policy, use_by: UseBy, upper_bound: u64) -> bool {
    accepts_refunds(policy)
        && match use_by {
            UseBy::Before(end) => policy.algorithm() != Algorithm::FixedWindow || upper_bound < end,
            UseBy::Refill(_) => false,
        }
}

impl Effects {
    /// Takes the held units out of a lease, to be given back if that is of use.
    pub(super) fn give_back(
        &mut self,
        policy: &Policy,
        lease: &mut Lease,
        now: u64,
        connection: ConnectionId,
    ) {
        if lease.held == 0 {
            return;
        }
        if is_worth_giving_back(policy, lease.use_by, lease.upper_bound(now)) {
            // No longer held before it is sent, so that it is in one place.
            let units = lease.give_back();
            self.give_backs.push(GiveBack {
                units,
                at: lease.granted_at,
                until: lease.counts_until,
                connection,
            });
        } else {
            lease.expire();
        }
    }

    /// Counts what became of the units of a lease.
    pub(super) fn ended(&mut self, lease: &Lease) {
        for (sum, units) in self.tally.iter_mut().zip(lease.tally()) {
            *sum += units;
        }
    }
}
