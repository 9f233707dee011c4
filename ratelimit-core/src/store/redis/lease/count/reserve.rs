//! Units of a count that a request reserves while the server decides about the rest, and units that come back.

use smallvec::SmallVec;

use super::give_back::{Effects, GiveBack};
use super::{Count, Taken, Terms};
use crate::algorithm::{Operation, UseBy};
use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::store::redis::lease::units::{Lease, LeaseId};

/// Units of one lease that a request has reserved.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Part {
    lease: LeaseId,
    id: u64,
    pub(in crate::store::redis) units: u64,
    use_by: UseBy,
    back: GiveBack,
}

impl Part {
    /// For units of a window the instant before which they may be used, by the server's clock.
    pub(in crate::store::redis) fn usable_until(&self) -> u64 {
        match self.use_by {
            UseBy::Before(end) => end,
            UseBy::Refill(_) => u64::MAX,
        }
    }
}

impl Count {
    /// Reserves up to `cost` units for a request whose other units or limits the server decides. Returns the parts, and how
    /// many units are missing.
    ///
    /// The units are out of reach of other requests until the parts are [confirmed](Self::confirm) or
    /// [put back](Self::put_back).
    pub(in crate::store::redis) fn reserve(
        &mut self,
        terms: Terms<'_>,
        cost: u64,
        now: u64,
        effects: &mut Effects,
    ) -> (SmallVec<[Part; 1]>, u64) {
        let (mut parts, mut missing) = (SmallVec::new(), cost);
        self.adopt(terms, now, effects);
        self.trim(now, effects);
        // A cost above the limit never passes, whatever is held.
        if self.resets > 0 || cost > self.policy.capacity() {
            return (parts, missing);
        }
        while missing > 0
            && let Some(place) = self.next_lease()
        {
            let (id, connection) = (self.next_id(), self.connection);
            let lease = &mut self.leases[place];
            let units = missing.min(lease.held);
            lease.reserve(&self.policy, id, units, now);
            let back = GiveBack { units, at: lease.granted_at, until: lease.counts_until, connection };
            parts.push(Part { lease: lease.id, id, units, use_by: lease.use_by, back });
            missing -= units;
        }
        (parts, missing)
    }

    /// The report about reserved units: of a request that they admit as a whole, or of a limit that is not violated.
    pub(in crate::store::redis) fn reserved_outcome(&self, parts: &[Part], now: u64) -> Taken {
        let lease = parts.iter().filter_map(|part| self.leases.iter().find(|lease| lease.id == part.lease));
        let server_time = || self.last_answer.as_ref().map_or(0, |last| last.server_time(now));
        let at = lease.map(|lease| lease.used_at(now)).max().unwrap_or_else(server_time);
        self.taken(at, self.held(), now)
    }

    /// The request with this part was admitted: its units were used when they were reserved.
    pub(in crate::store::redis) fn confirm(&mut self, part: &Part, effects: &mut Effects) {
        match self.leases.iter_mut().find(|lease| lease.id == part.lease) {
            Some(lease) => lease.confirm(part.id),
            None => effects.tally[0] += part.units,
        }
    }

    /// The request with this part was not admitted: its units go back to their lease, as far as they have not expired. If
    /// the lease has gone, they are given back to the server; those of a bucket are lost, and refill.
    pub(in crate::store::redis) fn put_back(&mut self, part: &Part, now: u64, effects: &mut Effects) {
        if let Some(lease) = self.leases.iter_mut().find(|lease| lease.id == part.lease) {
            lease.put_back(&self.policy, part.id, now);
            self.trim(now, effects);
        } else if part.lease >= self.first_valid && !part.use_by.evaporates() {
            effects.give_backs.push(part.back);
            effects.tally[1] += part.units;
        } else {
            effects.tally[2] += part.units;
        }
    }

    /// Takes back units that a request used at `at`, by the server's clock, and that are not needed. Returns false if they
    /// have to be refunded by the server.
    ///
    /// Units of windows go into any lease of the same window or sub-window: a count does not know which of its units are
    /// which.
    pub(in crate::store::redis) fn take_back(
        &mut self,
        terms: Terms<'_>,
        units: u64,
        at: u64,
        now: u64,
        effects: &mut Effects,
    ) -> bool {
        self.adopt(terms, now, effects);
        self.trim(now, effects);
        if self.resets > 0 {
            return false;
        }
        let policy = &self.policy;
        let start = |end: u64| match policy.calendar_window(end.saturating_sub(1)) {
            Some(window) => window.from,
            None => end.saturating_sub(policy.sub_window_us()),
        };
        let is_same = |lease: &&mut Lease| match lease.use_by {
            UseBy::Before(end) => at < end && start(end) <= at,
            UseBy::Refill(_) => false,
        };
        match self.leases.iter_mut().find(is_same) {
            Some(lease) => lease.put_in(units),
            None => return false,
        }
        true
    }

    /// The outcome of a denied request for the whole of its `cost`, by the last answer. `None` if it is not known,
    /// or if the cost fits by now.
    pub(in crate::store::redis) fn denial(&self, cost: u64) -> Option<Outcome> {
        let last = self.last_answer.as_ref()?;
        let outcome =
            last.state().clone().decide(&self.policy, cost, Timestamp::from_micros(last.at), Operation::Peek);
        (!outcome.is_allowed()).then_some(outcome)
    }
}
