//! The leases of one count, and every event that changes them.
//!
//! Pure: methods take the local time in microseconds and what an answer says, and return what to ask for, what is admitted
//! and what has to be given back. A caller of these methods has the count to itself, holds no lock while a call is in
//! flight, and passes the [connection](ConnectionId) that serves the count now.
//!
//! Here is what is held, and how a request is admitted by it. `reserve` has the requests that need more, `fetch` the next
//! lease, and `give_back` what goes back to the server.

mod fetch;
mod give_back;
mod reserve;

use smallvec::SmallVec;

pub(in crate::store::redis) use self::fetch::{Answer, LeaseRequest};
pub(in crate::store::redis) use self::give_back::{Effects, GiveBack};
pub(in crate::store::redis) use self::reserve::Part;
use super::size::LastAnswer;
use super::units::{Lease, LeaseId};
use crate::algorithm::Operation;
use crate::clock::Timestamp;
use crate::policy::Policy;
use crate::store::redis::lanes::ConnectionId;

/// At most so many leases of one count have units.
const MAX_LEASES: usize = 2;

/// A request that was admitted by held units.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Taken {
    /// Instant of the use, by the server's clock: no earlier than it was there.
    pub(in crate::store::redis) at: u64,
    /// Units left to the caller: those held here plus those that the server had at its last answer.
    pub(in crate::store::redis) remaining: u64,
    pub(in crate::store::redis) reset_after: u64,
    /// If nothing remains: the wait for one more unit.
    pub(in crate::store::redis) next_unit_after: Option<u64>,
    /// Whether it is time for the next lease.
    pub(in crate::store::redis) wants_lease: bool,
}

/// A limit as a request names it.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Terms<'a> {
    pub(in crate::store::redis) policy: &'a Policy,
    /// Length of the lease interval, in microseconds.
    pub(in crate::store::redis) interval: u64,
    /// The connection that serves the count now.
    pub(in crate::store::redis) connection: ConnectionId,
}

/// The leases of one count.
#[derive(Debug)]
pub(in crate::store::redis) struct Count {
    pub(in crate::store::redis) policy: Policy,
    interval: u64,
    connection: ConnectionId,
    leases: SmallVec<[Lease; MAX_LEASES]>,
    last_answer: Option<LastAnswer>,
    /// The number of the next lease or reservation.
    next_id: u64,
    /// Reservations from leases before this one are forgotten.
    first_valid: LeaseId,
    in_flight: Option<LeaseId>,
    /// No lease is considered in the background before this local instant.
    prefetch_after: u64,
    /// Number of resets that are being done; meanwhile nothing is leased or used.
    resets: u32,
}

impl Count {
    pub(in crate::store::redis) fn new(terms: Terms<'_>) -> Self {
        Self {
            policy: terms.policy.clone(),
            interval: terms.interval,
            connection: terms.connection,
            leases: SmallVec::new(),
            last_answer: None,
            next_id: 0,
            first_valid: 0,
            in_flight: None,
            prefetch_after: 0,
            resets: 0,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Length of the lease interval, in microseconds.
    pub(in crate::store::redis) const fn interval(&self) -> u64 {
        self.interval
    }

    /// The lane of the connection from which the leases are.
    pub(in crate::store::redis) const fn lane(&self) -> u16 {
        self.connection.lane
    }

    /// Units that are held.
    pub(in crate::store::redis) fn held(&self) -> u64 {
        self.leases.iter().map(|lease| lease.held).sum()
    }

    /// Units that may be used at the local instant `now`.
    #[cfg(test)]
    pub(in crate::store::redis) fn usable(&self, connection: ConnectionId, now: u64) -> u64 {
        if self.connection != connection || self.resets > 0 {
            return 0;
        }
        let usable = |lease: &Lease| {
            let mut lease = lease.clone();
            lease.evaporate(&self.policy, now);
            if lease.is_over(&self.policy, now) { 0 } else { lease.held }
        };
        self.leases.iter().map(usable).sum()
    }

    /// Units that are reserved.
    #[cfg(test)]
    pub(in crate::store::redis) fn reserved(&self) -> u64 {
        self.leases.iter().map(Lease::reserved).sum()
    }

    /// Voids everything that came from another connection.
    fn renew(&mut self, connection: ConnectionId, effects: &mut Effects) {
        if self.connection != connection {
            self.forget(effects);
            self.connection = connection;
        }
    }

    /// Drops all leases, and gives nothing back: the server may not know them.
    fn forget(&mut self, effects: &mut Effects) {
        for lease in &mut self.leases {
            lease.expire();
            effects.ended(lease);
        }
        self.leases.clear();
        (self.last_answer, self.in_flight, self.first_valid) = (None, None, self.next_id + 1);
    }

    /// Takes over the terms of a request. Units that were leased under another `max` are given back: the server judged them
    /// by that one.
    fn adopt(&mut self, terms: Terms<'_>, now: u64, effects: &mut Effects) {
        self.renew(terms.connection, effects);
        self.interval = terms.interval;
        if self.policy.max() != terms.policy.max() {
            let connection = self.connection;
            for lease in &mut self.leases {
                effects.give_back(lease, now, connection);
                effects.ended(lease);
            }
            self.leases.clear();
            self.policy = terms.policy.clone();
            self.last_answer = None;
        }
    }

    /// Ends what may no longer be used. Returns the units that are held.
    #[inline]
    fn trim(&mut self, now: u64, effects: &mut Effects) -> u64 {
        let (policy, connection) = (&self.policy, self.connection);
        let mut held = 0;
        self.leases.retain(|lease| {
            lease.evaporate(policy, now);
            if lease.is_over(policy, now) {
                effects.give_back(lease, now, connection);
                effects.ended(lease);
                return false;
            }
            held += lease.held;
            true
        });
        held
    }

    /// The lease of which the next unit should be used: the one whose units expire first.
    fn next_lease(&self) -> Option<usize> {
        let with_units = self.leases.iter().enumerate().filter(|(_, lease)| lease.held > 0);
        with_units
            .min_by_key(|(_, lease)| lease.use_by.last_instant(&self.policy, lease.held))
            .map(|(i, _)| i)
    }

    /// Admits a request of `cost` units, if as many are held.
    #[inline]
    pub(in crate::store::redis) fn take(
        &mut self,
        terms: Terms<'_>,
        cost: u64,
        now: u64,
        effects: &mut Effects,
    ) -> Option<Taken> {
        self.adopt(terms, now, effects);
        let held = self.trim(now, effects);
        if self.resets > 0 || cost == 0 || held < cost {
            return None;
        }
        let (mut missing, mut at) = (cost, 0);
        while missing > 0 {
            let place = if let [_] = self.leases[..] { 0 } else { self.next_lease()? };
            let lease = &mut self.leases[place];
            let units = missing.min(lease.held);
            lease.use_units(&self.policy, units, now);
            at = at.max(lease.used_at(now));
            missing -= units;
        }
        Some(self.taken(at, held - cost, now))
    }

    /// The report of an admission that left `held` units.
    fn taken(&self, at: u64, held: u64, now: u64) -> Taken {
        let (available, resets_at) =
            self.last_answer.as_ref().map_or((0, 0), |last| (last.available, last.resets_at));
        let remaining = available.saturating_add(held).min(self.policy.capacity());
        let next_unit_after = if remaining == 0 { self.next_unit_after(at) } else { None };
        let (reset_after, wants_lease) = (resets_at.saturating_sub(at), self.wants_lease(held, now));
        Taken { at, remaining, reset_after, next_unit_after, wants_lease }
    }

    /// What [`take`](Self::take) would report if the request cost nothing, if at least `cost` units are held, and one.
    pub(in crate::store::redis) fn peek(
        &mut self,
        terms: Terms<'_>,
        cost: u64,
        now: u64,
        effects: &mut Effects,
    ) -> Option<Taken> {
        self.adopt(terms, now, effects);
        let held = self.trim(now, effects);
        if self.resets > 0 || held < cost.max(1) {
            return None;
        }
        let at = self.leases.iter().map(|lease| lease.used_at(now)).max()?;
        Some(self.taken(at, held, now))
    }

    /// The wait from `at` for one more unit, by the last answer.
    #[cold]
    fn next_unit_after(&self, at: u64) -> Option<u64> {
        let mut state = self.last_answer.as_ref()?.state().clone();
        let outcome = state.decide(&self.policy, 1, Timestamp::from_micros(at), Operation::Peek);
        u64::try_from(outcome.retry_after()?.as_micros()).ok()
    }

    /// Whether half of the last lease is used, and no other one is on its way.
    #[inline]
    fn wants_lease(&self, held: u64, now: u64) -> bool {
        let last_size = self.leases.last().map_or(0, |lease| lease.size);
        held <= last_size / 2 && self.in_flight.is_none() && now >= self.prefetch_after && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.resets == 0 && self.leases.iter().filter(|lease| lease.held > 0).count() < MAX_LEASES
    }

    /// Begins a reset of the count on the server: drops all leases, those in flight as well, and takes no others until
    /// [`end_reset`](Self::end_reset).
    pub(in crate::store::redis) fn begin_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets += 1;
    }

    /// Ends a reset.
    pub(in crate::store::redis) fn end_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets = self.resets.saturating_sub(1);
    }
}
