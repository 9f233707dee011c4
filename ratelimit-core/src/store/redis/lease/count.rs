//! The leases of one count, and every event that changes them: a request *takes* held units, units are *given
//! back*, and answers are *learned*.
//!
//! Pure: methods take the local time in microseconds and what an answer says, and return what to ask for,
//! what is admitted and what has to be given back. A caller of these methods has the count to itself, holds
//! no lock while a call is in flight, and passes the [connection](ConnectionId) that serves the count now.

use smallvec::SmallVec;

use super::nodes::NodeConnection;
use super::size::{Demand, LastAnswer};
use super::units::{Lease, end_of_window};
use crate::algorithm::State;
use crate::clock::Timestamp;
use crate::policy::Policy;

/// At most so many leases of one count have units.
const MAX_LEASES: usize = 2;

/// After a prefetch that would be too small, the next one is considered after this part of an interval.
const RETRY: u64 = 32;

/// A limit as a request names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) policy: &'a Policy,
    /// Length of the lease interval, in microseconds.
    pub(super) interval: u64,
    /// The connection that serves the count now.
    pub(super) connection: NodeConnection,
}

/// A request that was admitted by held units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Instant of the use, by the server's clock: no earlier than it was there.
    pub(super) at: u64,
    /// Units left to the caller: those held here plus those that the server had at its last answer.
    pub(super) remaining: u64,
    pub(super) reset_after: u64,
    /// If nothing remains: the wait for one more unit.
    pub(super) next_unit_after: Option<u64>,
    /// Whether it is time for the next lease.
    pub(super) wants_lease: bool,
}

/// A request for a lease, which travels with its call.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseRequest {
    id: u64,
    pub(super) units: u64,
    /// The `max` under which the server judges it.
    max: u64,
    connection: NodeConnection,
}

/// What an answer of the server tells about a count.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The state after the last request of the call for this count.
    pub(super) state: State,
    /// Instant of the decision, by the server's clock.
    pub(super) at: u64,
    /// An instant before the call was written, by the local clock.
    pub(super) sent_at: u64,
    /// When the answer came, by the local clock.
    pub(super) now: u64,
    /// The connection that serves the count now.
    pub(super) connection: NodeConnection,
    /// Whether the answer came over that connection, so that it tells what is left.
    pub(super) is_present: bool,
    /// Whether the call may have left a debt.
    pub(super) is_overdrawn: bool,
    /// What the call asked for, and whether it was granted.
    pub(super) lease: Option<(LeaseRequest, bool)>,
}

/// Units to be given back: those of a charge at `at`, which counts until `until`, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GiveBack {
    pub(super) units: u64,
    pub(super) at: u64,
    pub(super) until: u64,
    pub(super) connection: NodeConnection,
}

/// What an event does outside of the count.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) give_backs: SmallVec<[GiveBack; 2]>,
    /// Units of leases that ended: used, given back, expired.
    pub(super) tally: [u64; 3],
}

/// The leases of one count.
#[derive(Debug)]
pub(super) struct LeasedCount {
    policy: Policy,
    interval: u64,
    connection: NodeConnection,
    leases: SmallVec<[Lease; MAX_LEASES]>,
    last_answer: Option<LastAnswer>,
    /// The number of the last request for a lease.
    last_id: u64,
    in_flight: Option<u64>,
    /// The request that was in flight when an answer told of a debt: what it brings goes back.
    goes_back: Option<u64>,
    /// No lease is considered in the background before this local instant.
    prefetch_after: u64,
    /// Number of resets that are being done; meanwhile nothing is leased or used.
    resets: u32,
}

impl LeasedCount {
    pub(super) fn new(terms: Terms<'_>) -> Self {
        Self {
            policy: terms.policy.clone(),
            interval: terms.interval,
            connection: terms.connection,
            leases: SmallVec::new(),
            last_answer: None,
            last_id: 0,
            in_flight: None,
            goes_back: None,
            prefetch_after: 0,
            resets: 0,
        }
    }

    /// The node that granted the leases.
    pub(super) const fn node(&self) -> u16 {
        self.connection.node
    }

    /// Units that are held.
    pub(super) fn unused(&self) -> u64 {
        self.leases.iter().map(|lease| lease.unused).sum()
    }

    /// Units that may be used at the local instant `now`.
    #[cfg(test)]
    pub(super) fn usable(&self, connection: NodeConnection, now: u64) -> u64 {
        if self.connection != connection || self.resets > 0 {
            return 0;
        }
        self.leases.iter().filter(|lease| !lease.is_over(now)).map(|lease| lease.unused).sum()
    }

    // ---- What voids and ends leases

    /// Voids everything that came from another connection.
    fn renew(&mut self, connection: NodeConnection, effects: &mut Effects) {
        if self.connection != connection {
            self.forget(effects);
            self.connection = connection;
        }
    }

    /// Drops all leases, and gives nothing back: the server may not know them.
    fn forget(&mut self, effects: &mut Effects) {
        for mut lease in self.leases.drain(..) {
            lease.expire();
            effects.ended(&lease);
        }
        (self.last_answer, self.in_flight) = (None, None);
    }

    /// Takes over the terms of a request. Units that were leased under another `max`, or in another window
    /// with the same label, are given back: the server judged them by that one.
    fn adopt(&mut self, terms: Terms<'_>, now: u64, effects: &mut Effects) {
        self.renew(terms.connection, effects);
        self.interval = terms.interval;
        if (self.policy.max(), self.policy.span()) != (terms.policy.max(), terms.policy.span()) {
            self.give_back_all(terms.connection, now, effects);
            self.policy = terms.policy.clone();
            self.last_answer = None;
        }
    }

    /// Ends what may no longer be used. Returns the units that are held.
    #[inline]
    fn trim(&mut self, now: u64, effects: &mut Effects) -> u64 {
        let (mut unused, connection) = (0, self.connection);
        self.leases.retain(|lease| {
            if lease.is_over(now) {
                effects.give_back(lease, now, connection);
                effects.ended(lease);
                return false;
            }
            unused += lease.unused;
            true
        });
        unused
    }

    /// Begins a reset of the count on the server: drops all leases, those in flight as well, and takes no
    /// others until [`end_reset`](Self::end_reset).
    pub(super) fn begin_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets += 1;
    }

    /// Ends a reset.
    pub(super) fn end_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets = self.resets.saturating_sub(1);
    }

    // ---- Take

    /// Whether so many units are held, and at least one.
    #[inline]
    pub(super) fn covers(&mut self, terms: Terms<'_>, cost: u64, now: u64, effects: &mut Effects) -> bool {
        self.adopt(terms, now, effects);
        self.trim(now, effects) >= cost.max(1) && self.resets == 0
    }

    /// Uses units that are [held](Self::covers): those first that end first. Reports the admission.
    #[inline]
    pub(super) fn take(&mut self, cost: u64, now: u64) -> Taken {
        let mut missing = cost;
        while missing > 0 {
            let unused = self.leases.iter_mut().filter(|lease| lease.unused > 0);
            let Some(lease) = unused.min_by_key(|lease| lease.end) else { break };
            let units = missing.min(lease.unused);
            lease.use_units(units, now);
            missing -= units;
        }
        debug_assert_eq!(missing, 0, "less is held than is taken");
        let (unused, at) = self
            .leases
            .iter()
            .fold((0, 0), |(unused, at), lease| (unused + lease.unused, at.max(lease.used_at(now))));
        let last = self.last_answer.as_ref();
        let (available, resets_at) = last.map_or((0, 0), |last| (last.available, last.resets_at));
        let remaining = available.saturating_add(unused).min(self.policy.max());
        let next_unit_after = if remaining == 0 { self.next_unit_after(at) } else { None };
        let (reset_after, wants_lease) = (resets_at.saturating_sub(at), self.wants_lease(unused, now));
        Taken { at, remaining, reset_after, next_unit_after, wants_lease }
    }

    /// The wait from `at` for one more unit, by the last answer.
    #[cold]
    fn next_unit_after(&self, at: u64) -> Option<u64> {
        let wait = self.last_answer.as_ref()?.peek(&self.policy, 1, at).retry_after()?;
        u64::try_from(wait.as_micros()).ok()
    }

    /// Whether half of the last lease is used, and no other one is on its way.
    #[inline]
    fn wants_lease(&self, unused: u64, now: u64) -> bool {
        self.has_room(unused) && now >= self.prefetch_after
    }

    fn has_room(&self, unused: u64) -> bool {
        let last_size = self.leases.last().map_or(0, |lease| lease.size);
        unused <= last_size / 2
            && self.in_flight.is_none()
            && self.resets == 0
            && self.leases.iter().filter(|lease| lease.unused > 0).count() < MAX_LEASES
    }

    // ---- Give back

    /// Gives back everything that is held: before a settlement, and at the end of the process.
    pub(super) fn give_back_all(&mut self, connection: NodeConnection, now: u64, effects: &mut Effects) {
        self.renew(connection, effects);
        self.trim(now, effects);
        for mut lease in self.leases.drain(..) {
            effects.give_back(&mut lease, now, connection);
            effects.ended(&lease);
        }
    }

    /// Gives back what is in the way of a request of `cost` units that the server decides: everything, unless
    /// it surely has as many. `requested` is what all processes may have asked for since its last answer.
    pub(super) fn make_way(
        &mut self,
        terms: Terms<'_>,
        cost: u64,
        requested: u64,
        now: u64,
        effects: &mut Effects,
    ) {
        self.adopt(terms, now, effects);
        let left = self.last_answer.as_ref().map_or(0, |last| last.left(&self.policy, now));
        if left < cost.saturating_add(requested) {
            self.give_back_all(terms.connection, now, effects);
        }
    }

    /// Gives back what was not used for an interval, and ends what may no longer be used. Returns whether the
    /// count has neither leases nor a request for one, so that it can be dropped.
    pub(super) fn sweep(&mut self, connection: NodeConnection, now: u64, effects: &mut Effects) -> bool {
        self.renew(connection, effects);
        self.trim(now, effects);
        for lease in &mut self.leases {
            if now.saturating_sub(lease.last_used) >= self.interval {
                effects.give_back(lease, now, connection);
            }
        }
        self.leases.is_empty() && self.in_flight.is_none() && self.resets == 0
    }

    /// Takes back units that a request used at `at`, by the server's clock, and that are not needed. Returns
    /// false if they have to be refunded by the server.
    ///
    /// They go into any lease of the same window or sub-window: a count does not know which of its units are
    /// which.
    pub(super) fn put_back(
        &mut self,
        terms: Terms<'_>,
        units: u64,
        at: u64,
        now: u64,
        effects: &mut Effects,
    ) -> bool {
        self.adopt(terms, now, effects);
        self.trim(now, effects);
        let end = end_of_window(&self.policy, at);
        match self.leases.iter_mut().find(|lease| lease.end == end) {
            Some(lease) if self.resets == 0 => lease.put_in(units),
            _ => return false,
        }
        true
    }

    // ---- Learn

    /// What to ask the server for in the call that is being written, judged after all requests of the call:
    /// the next lease, if half of the last one is used.
    pub(super) fn lease_request(
        &mut self,
        terms: Terms<'_>,
        demand: &Demand,
        instances: u64,
        now: u64,
        effects: &mut Effects,
    ) -> Option<LeaseRequest> {
        self.adopt(terms, now, effects);
        let unused = self.trim(now, effects);
        let units = if self.has_room(unused) { self.next_size(demand, instances, now) } else { 0 };
        (units > 0).then(|| self.request_of(units))
    }

    /// A request for a lease of this size.
    pub(super) fn request_of(&mut self, units: u64) -> LeaseRequest {
        self.last_id += 1;
        self.in_flight = Some(self.last_id);
        LeaseRequest { id: self.last_id, units, max: self.policy.max(), connection: self.connection }
    }

    /// Whether to fetch the next lease in the background. No other one is considered for a while, whether
    /// this one is fetched or too small.
    pub(super) fn may_prefetch(&mut self, demand: &Demand, instances: u64, now: u64) -> bool {
        self.prefetch_after = now + self.interval / RETRY;
        self.next_size(demand, instances, now) > 0
    }

    /// Size of the next lease; 0 if there is none.
    fn next_size(&self, demand: &Demand, instances: u64, now: u64) -> u64 {
        let last = self.last_answer.as_ref();
        last.map_or(0, |last| last.lease_size(&self.policy, demand, self.interval, instances, now))
    }

    /// Learns what an answer tells: a block or a debt, by which leases end, what is left, and the lease that
    /// was asked for. One that was granted is void if the connection has been replaced, or the count reset,
    /// since it was asked for.
    pub(super) fn learn(&mut self, answer: Answer, effects: &mut Effects) {
        let Answer { at, sent_at, now, connection, .. } = answer;
        self.renew(connection, effects);
        if answer.is_overdrawn {
            self.give_back_all(connection, now, effects);
            // A lease of the same call was judged behind the debt.
            let own = answer.lease.map(|(request, _)| request.id);
            self.goes_back = self.in_flight.filter(|id| Some(*id) != own).or(self.goes_back);
        }
        // A block has replaced what was charged.
        if answer.state.blocked_until().is_some_and(|until| until > Timestamp::from_micros(at)) {
            self.forget(effects);
        }
        let last = LastAnswer::new(&self.policy, answer.state, at, sent_at);
        let resets_at = last.resets_at;
        // Answers may be seen in another order.
        if answer.is_present && self.last_answer.as_ref().is_none_or(|last| last.at <= at) {
            self.last_answer = Some(last);
        }
        let Some((request, is_granted)) = answer.lease else { return };
        let is_valid = request.connection == self.connection && self.in_flight == Some(request.id);
        if is_valid {
            self.in_flight = None;
        }
        if !is_granted {
            return;
        } else if !is_valid {
            let [_, _, expired] = &mut effects.tally;
            *expired += request.units;
            return;
        }
        let mut lease = Lease::new(request.units, at, sent_at, end_of_window(&self.policy, at), resets_at);
        lease.last_used = now;
        if request.max != self.policy.max() || self.goes_back == Some(request.id) {
            effects.give_back(&mut lease, now, connection);
            effects.ended(&lease);
            return;
        }
        self.leases.retain(|known| {
            if known.unused == 0 {
                effects.ended(known);
            }
            known.unused > 0
        });
        self.leases.push(lease);
    }

    /// Learns that a request for a lease got no answer. Units that the server may have charged are lost until
    /// their window is over.
    pub(super) fn abandon(&mut self, request: LeaseRequest) {
        if self.in_flight == Some(request.id) {
            self.in_flight = None;
        }
    }
}

impl Effects {
    /// Takes the held units out of a lease, to be given back if they still count.
    fn give_back(&mut self, lease: &mut Lease, now: u64, connection: NodeConnection) {
        if lease.unused == 0 {
            return;
        }
        if lease.upper_bound(now) < lease.counts_until {
            // No longer held before it is sent, so that it is in one place.
            let (units, at, until) = (lease.give_back(), lease.granted_at, lease.counts_until);
            self.give_backs.push(GiveBack { units, at, until, connection });
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
