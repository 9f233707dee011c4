//! Units that a count gives back to the server: which, and when.

use smallvec::SmallVec;

use super::Count;
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
        let interval = self.interval;
        for lease in &mut self.leases {
            // Others stay usable until they evaporate.
            if now.saturating_sub(lease.last_used) >= interval && !lease.use_by.evaporates() {
                effects.give_back(lease, now, connection);
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
            effects.give_back(&mut lease, now, connection);
            effects.ended(&lease);
        }
    }
}

impl Effects {
    /// Takes the held units out of a lease, to be given back if that is allowed and they still count.
    pub(super) fn give_back(&mut self, lease: &mut Lease, now: u64, connection: ConnectionId) {
        if lease.held == 0 {
            return;
        }
        if !lease.use_by.evaporates() && lease.upper_bound(now) < lease.counts_until {
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
