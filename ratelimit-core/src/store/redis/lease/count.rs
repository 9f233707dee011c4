//! The leases of one count, and every event that changes them.
//!
//! Pure: methods take the local time in microseconds and what an answer told, and return what to ask for, what is admitted
//! and what has to be given back. A caller of these methods has the count to itself, holds no lock while a call is in
//! flight, and passes the [connection](ConnectionId) that serves the count now.

use smallvec::SmallVec;

use super::heat::Heat;
use super::size::Told;
use super::units::{Lease, LeaseId};
use crate::algorithm::{Operation, State, UseBy};
use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::policy::{Algorithm, Policy};
use crate::store::redis::lanes::ConnectionId;

/// At most so many leases of one count have units.
const MAX_LEASES: usize = 2;

/// After a prefetch that would be too small, the next one is considered after this part of an interval.
const RETRY: u64 = 32;

/// A request for a lease, which travels with its call.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct LeaseRequest {
    id: LeaseId,
    pub(in crate::store::redis) units: u64,
    /// The `max` under which the server judges it.
    max: u64,
    connection: ConnectionId,
}

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

/// A request that was admitted by held units.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Taken {
    /// Instant of the use, by the server's clock: no earlier than it was there.
    pub(in crate::store::redis) at: u64,
    /// Units held here, and left at the last answer.
    pub(in crate::store::redis) remaining: u64,
    pub(in crate::store::redis) reset_after: u64,
    /// If nothing remains: the wait for one more unit.
    pub(in crate::store::redis) next_unit_after: Option<u64>,
    /// Whether it is time for the next lease.
    pub(in crate::store::redis) wants_lease: bool,
}

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
    told: Option<Told>,
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
            told: None,
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
        (self.told, self.in_flight, self.first_valid) = (None, None, self.next_id + 1);
    }

    /// Takes over the terms of a request. Units that were leased under another `max` are given back: the server judged them
    /// by that one.
    fn adopt(&mut self, terms: Terms<'_>, now: u64, effects: &mut Effects) {
        self.renew(terms.connection, effects);
        self.interval = terms.interval;
        if self.policy.max() != terms.policy.max() {
            let (connection, policy) = (self.connection, &self.policy);
            for lease in &mut self.leases {
                effects.give_back(policy, lease, now, connection);
                effects.ended(lease);
            }
            self.leases.clear();
            self.policy = terms.policy.clone();
            self.told = None;
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
                effects.give_back(policy, lease, now, connection);
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
            self.told.as_ref().map_or((0, 0), |told| (told.available, told.resets_at));
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

    /// The wait from `at` for one more unit, by the state that was told.
    #[cold]
    fn next_unit_after(&self, at: u64) -> Option<u64> {
        let mut state = self.told.as_ref()?.state().clone();
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
            lease.reserve(id, units, now);
            let back = GiveBack { units, at: lease.granted_at, until: lease.counts_until, connection };
            parts.push(Part { lease: lease.id, id, units, use_by: lease.use_by, back });
            missing -= units;
        }
        (parts, missing)
    }

    /// The report about reserved units: of a request that they admit as a whole, or of a limit that is not violated.
    pub(in crate::store::redis) fn reserved_outcome(&self, parts: &[Part], now: u64) -> Taken {
        let lease = parts.iter().filter_map(|part| self.leases.iter().find(|lease| lease.id == part.lease));
        let told = || self.told.as_ref().map_or(0, |told| told.server_time(now));
        let at = lease.map(|lease| lease.used_at(now)).max().unwrap_or_else(told);
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
        } else if part.lease >= self.first_valid && is_worth_giving_back(&self.policy, part.use_by, 0) {
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
    /// which. Never those of a bucket; see [`accepts_refunds`].
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
        let length = self.policy.sub_window_us();
        let is_same = |lease: &&mut Lease| match lease.use_by {
            UseBy::Before(end) => at < end && end - at <= length,
            UseBy::Refill(_) => false,
        };
        match self.leases.iter_mut().find(is_same) {
            Some(lease) => lease.put_in(units),
            None => return false,
        }
        true
    }

    /// What to ask the server for in the call that is being written, judged after all requests of the call: the next lease,
    /// if half of the last one is used.
    pub(in crate::store::redis) fn lease_request(
        &mut self,
        terms: Terms<'_>,
        heat: &Heat,
        instances: u64,
        now: u64,
        effects: &mut Effects,
    ) -> Option<LeaseRequest> {
        self.adopt(terms, now, effects);
        let held = self.trim(now, effects);
        let last_size = self.leases.last().map_or(0, |lease| lease.size);
        if held > last_size / 2 || self.in_flight.is_some() || !self.has_room() {
            return None;
        }
        let units = self.next_size(heat, instances, now);
        if units == 0 {
            return None;
        }
        let (id, max, connection) = (self.next_id(), self.policy.max(), self.connection);
        self.in_flight = Some(id);
        Some(LeaseRequest { id, units, max, connection })
    }

    /// A request for a lease of this size.
    #[cfg(test)]
    pub(super) fn request_of(&mut self, units: u64) -> LeaseRequest {
        let (id, max, connection) = (self.next_id(), self.policy.max(), self.connection);
        self.in_flight = Some(id);
        LeaseRequest { id, units, max, connection }
    }

    /// Size of the next lease; 0 if there is none.
    pub(in crate::store::redis) fn next_size(&mut self, heat: &Heat, instances: u64, now: u64) -> u64 {
        let Some(told) = &mut self.told else { return 0 };
        told.lease_size(&self.policy, heat, self.interval, instances, now)
    }

    /// Notes that a lease is considered in the background: no other one for a while, whether it is fetched or too small.
    pub(in crate::store::redis) fn delay_prefetch(&mut self, now: u64) {
        self.prefetch_after = now + self.interval / RETRY;
    }

    /// Notes the state after the last request of a call for this count.
    ///
    /// `terms` name the connection that answered; `asked_at` is a local instant before the call was written.
    pub(in crate::store::redis) fn tell(
        &mut self,
        terms: Terms<'_>,
        state: State,
        at: u64,
        asked_at: u64,
        now: u64,
        effects: &mut Effects,
    ) {
        self.adopt(terms, now, effects);
        self.end_if_blocked(&state, at, effects);
        // Answers may be seen in another order.
        if self.told.as_ref().is_none_or(|told| told.at <= at) {
            self.told = Some(Told::new(&self.policy, state, at, asked_at).0);
        }
    }

    /// Drops all leases if a block has begun: it replaced what was charged.
    fn end_if_blocked(&mut self, state: &State, at: u64, effects: &mut Effects) {
        if state.blocked_until().is_some_and(|until| until > Timestamp::from_micros(at)) {
            self.forget(effects);
        }
    }

    /// Notes the answer to a request for a lease: whether it was granted, and the state after it.
    ///
    /// A granted lease is void if the connection has been replaced, or the count reset, since it was asked for.
    #[allow(clippy::too_many_arguments, reason = "the instants of an answer")]
    pub(in crate::store::redis) fn answer(
        &mut self,
        request: LeaseRequest,
        connection: ConnectionId,
        is_granted: bool,
        state: State,
        at: u64,
        asked_at: u64,
        now: u64,
        effects: &mut Effects,
    ) {
        self.renew(connection, effects);
        let is_valid = request.connection == self.connection && self.in_flight == Some(request.id);
        if !is_valid {
            if is_granted {
                effects.tally[2] += request.units;
            }
            return;
        }
        self.in_flight = None;
        self.end_if_blocked(&state, at, effects);
        let (told, standing) = Told::new(&self.policy, state, at, asked_at);
        if self.told.as_ref().is_none_or(|told| told.at <= at) {
            self.told = Some(told);
        }
        let (true, Some(use_by)) = (is_granted, standing.use_by) else { return };
        let mut lease = Lease::new(request.id, request.units, at, asked_at, use_by, standing.resets_at);
        lease.last_used = now;
        if request.max == self.policy.max() {
            self.leases.retain(|known| {
                let is_empty = known.is_empty();
                if is_empty {
                    effects.ended(known);
                }
                !is_empty
            });
            self.leases.push(lease);
        } else {
            effects.give_back(&self.policy, &mut lease, now, self.connection);
            effects.ended(&lease);
        }
    }

    /// Notes that a request for a lease got no answer. Units that the server may have charged are lost until their window is
    /// over.
    pub(in crate::store::redis) fn abandon(&mut self, request: LeaseRequest) {
        if self.in_flight == Some(request.id) {
            self.in_flight = None;
        }
    }

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

    /// The outcome of a denied request for the whole of its `cost`, by the state that was told. `None` if it is not known,
    /// or if the cost fits by now.
    pub(in crate::store::redis) fn denial(&self, cost: u64) -> Option<Outcome> {
        let told = self.told.as_ref()?;
        let outcome =
            told.state().clone().decide(&self.policy, cost, Timestamp::from_micros(told.at), Operation::Peek);
        (!outcome.is_allowed()).then_some(outcome)
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
fn is_worth_giving_back(policy: &Policy, use_by: UseBy, upper_bound: u64) -> bool {
    accepts_refunds(policy)
        && match use_by {
            UseBy::Before(end) => policy.algorithm() != Algorithm::FixedWindow || upper_bound < end,
            UseBy::Refill(_) => false,
        }
}

impl Effects {
    /// Takes the held units out of a lease, to be given back if that is of use.
    fn give_back(&mut self, policy: &Policy, lease: &mut Lease, now: u64, connection: ConnectionId) {
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
    fn ended(&mut self, lease: &Lease) {
        for (sum, units) in self.tally.iter_mut().zip(lease.tally()) {
            *sum += units;
        }
    }
}
