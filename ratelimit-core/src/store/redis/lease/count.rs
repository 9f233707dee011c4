//! The leases of one count, and every event that changes them: a request *takes* unused units, units are
//! *given back*, and the count *learns* from answers.
//!
//! Pure: methods take the local time in microseconds, and return which lease to request, whether a request is
//! admitted, and which units to give back. The table calls them under the lock of the count, which it does
//! not keep while a call is in flight. It passes the [connection](NodeConnection) that serves the count now.

use smallvec::SmallVec;

use super::nodes::NodeConnection;
use super::size::{Demand, LastAnswer};
use super::units::{Lease, end_of_window};
use crate::algorithm::State;
use crate::check::{Check, OwnedCheck};
use crate::clock::Timestamp;

/// Maximum number of leases of one count with unused units.
const MAX_LEASES: usize = 2;

/// One 32nd of the interval passes before the next lease is considered in the background again.
const RETRY_DIVISOR: u64 = 32;

/// The settings of a limit at a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    pub(super) check: Check<'a>,
    /// Length of the lease interval, in microseconds.
    pub(super) interval: u64,
    /// The connection that serves the count now.
    pub(super) connection: NodeConnection,
}

/// A request that unused units admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Instant of the use by the server's clock, or slightly later.
    pub(super) at: u64,
    /// Units left to the caller: the unused units, and those that the server had left at its last answer.
    pub(super) remaining: u64,
    pub(super) reset_after: u64,
    /// The wait for one more unit, if nothing remains.
    pub(super) next_unit_after: Option<u64>,
    /// Whether it is time for the next lease.
    pub(super) wants_lease: bool,
}

/// A request for a lease, which travels with its call.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseRequest {
    id: u64,
    pub(super) units: u64,
    /// The `max` under which the server decides it.
    max: u64,
    connection: NodeConnection,
}

/// What an answer of the server says about a count.
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
    /// Whether the answer came over that connection. Otherwise it does not show how many units are left.
    pub(super) is_present: bool,
    /// Whether the call may have left a debt.
    pub(super) is_overdrawn: bool,
    /// The request for a lease in the call, and whether it was granted.
    pub(super) lease: Option<(LeaseRequest, bool)>,
}

/// Units to be given back. They were charged at `at` and count until `until`, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GiveBack {
    pub(super) units: u64,
    pub(super) at: u64,
    pub(super) until: u64,
    pub(super) connection: NodeConnection,
}

/// The effects of an event outside of the count.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) give_backs: SmallVec<[GiveBack; 2]>,
    /// Units of leases that ended: how many were used, given back, and expired.
    pub(super) tally: [u64; 3],
}

/// The leases of one count.
#[derive(Debug)]
pub(super) struct LeasedCount {
    limit: OwnedCheck,
    interval: u64,
    connection: NodeConnection,
    leases: SmallVec<[Lease; MAX_LEASES]>,
    last_answer: Option<LastAnswer>,
    /// Number of the last request for a lease.
    last_id: u64,
    /// Number of the request for a lease that is in flight.
    in_flight: Option<u64>,
    /// Number of the request that was in flight when an answer showed a debt. Its lease is given back.
    goes_back: Option<u64>,
    /// Local instant before which no lease is considered in the background.
    prefetch_after: u64,
    /// Number of resets in progress. Meanwhile no units are leased or used.
    resets: u32,
}

impl LeasedCount {
    pub(super) fn new(terms: Terms<'_>) -> Self {
        Self {
            limit: OwnedCheck::new(&terms.check),
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

    /// Unused units, also of leases that are over by now.
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

    /// Drops all leases and gives nothing back, since the server may have lost their charges.
    fn forget(&mut self, effects: &mut Effects) {
        for mut lease in self.leases.drain(..) {
            lease.expire();
            effects.ended(&lease);
        }
        (self.last_answer, self.in_flight) = (None, None);
    }

    /// Takes over the terms of a request. Units that were leased under another `max`, or in another window
    /// with the same label, are given back, because the server granted them under these.
    fn adopt(&mut self, terms: Terms<'_>, now: u64, effects: &mut Effects) {
        self.renew(terms.connection, effects);
        self.interval = terms.interval;
        if (self.limit.policy.max(), self.limit.window) != (terms.check.policy().max(), terms.check.window) {
            self.give_back_all(terms.connection, now, effects);
            self.limit = OwnedCheck::new(&terms.check);
            self.last_answer = None;
        }
    }

    /// Ends leases whose units may no longer be used. Returns the number of unused units.
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

    /// Begins a reset of the count on the server: drops all leases, also in flight, and takes no others
    /// until [`end_reset`](Self::end_reset).
    pub(super) fn begin_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets += 1;
    }

    /// Ends a reset. Forgets again, because an answer during the reset may show the state before it.
    pub(super) fn end_reset(&mut self, effects: &mut Effects) {
        self.forget(effects);
        self.resets = self.resets.saturating_sub(1);
    }

    // ---- Take

    /// Whether there are at least `cost` unused units, and one even for a cost of 0.
    #[inline]
    pub(super) fn covers(&mut self, terms: Terms<'_>, cost: u64, now: u64, effects: &mut Effects) -> bool {
        self.adopt(terms, now, effects);
        self.trim(now, effects) >= cost.max(1) && self.resets == 0
    }

    /// Uses `cost` units, which the leases [have](Self::covers). Units that end earlier are used first.
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
        debug_assert_eq!(missing, 0, "fewer units are unused than are taken");
        // The latest bound of all leases, which is never before the server's time.
        let (unused, at) = self
            .leases
            .iter()
            .fold((0, 0), |(unused, at), lease| (unused + lease.unused, at.max(lease.used_at(now))));
        let last = self.last_answer.as_ref();
        let (available, resets_at) = last.map_or((0, 0), |last| (last.available, last.resets_at));
        let remaining = available.saturating_add(unused).min(self.limit.policy.max());
        let next_unit_after = if remaining == 0 { self.next_unit_after(at) } else { None };
        let (reset_after, wants_lease) = (resets_at.saturating_sub(at), self.wants_lease(unused, now));
        Taken { at, remaining, reset_after, next_unit_after, wants_lease }
    }

    /// The wait from `at` for one more unit, as far as the last answer shows.
    #[cold]
    fn next_unit_after(&self, at: u64) -> Option<u64> {
        let wait = self.last_answer.as_ref()?.peek(self.limit.check(), 1, at).retry_after()?;
        u64::try_from(wait.as_micros()).ok()
    }

    /// Whether the count [has room](Self::has_room), and the pause after the last attempt is over.
    #[inline]
    fn wants_lease(&self, unused: u64, now: u64) -> bool {
        self.has_room(unused) && now >= self.prefetch_after
    }

    /// Whether half of the last lease is used, and another lease may be requested.
    fn has_room(&self, unused: u64) -> bool {
        let last_size = self.leases.last().map_or(0, |lease| lease.size);
        unused <= last_size / 2
            && self.in_flight.is_none()
            && self.resets == 0
            && self.leases.iter().filter(|lease| lease.unused > 0).count() < MAX_LEASES
    }

    // ---- Give back

    /// Gives back all unused units: before a settlement, and at the end of the process.
    pub(super) fn give_back_all(&mut self, connection: NodeConnection, now: u64, effects: &mut Effects) {
        self.renew(connection, effects);
        self.trim(now, effects);
        for mut lease in self.leases.drain(..) {
            effects.give_back(&mut lease, now, connection);
            effects.ended(&lease);
        }
    }

    /// Gives back all unused units before the server decides a request of `cost` units, unless the server
    /// surely has enough. `requested` is how many units all processes may have requested since the
    /// server's last answer.
    pub(super) fn make_way(
        &mut self,
        terms: Terms<'_>,
        cost: u64,
        requested: u64,
        now: u64,
        effects: &mut Effects,
    ) {
        self.adopt(terms, now, effects);
        let left = self.last_answer.as_ref().map_or(0, |last| last.left(self.limit.check(), now));
        if left < cost.saturating_add(requested) {
            self.give_back_all(terms.connection, now, effects);
        }
    }

    /// Gives back leases that were not used for an interval, and ends leases whose units may no longer be
    /// used. Returns whether the count has neither leases nor a request for a lease, so that it can be
    /// dropped.
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

    /// Puts units that a request used at `at`, by the server's clock, back into a lease. Returns false if the
    /// server has to refund them.
    ///
    /// Any lease of the same window or sub-window takes them, since a count does not distinguish its units.
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
        let end = end_of_window(&self.limit.check(), at);
        let lease = self.leases.iter_mut().find(|lease| lease.end == end).filter(|_| self.resets == 0);
        let Some(lease) = lease else { return false };
        lease.put_back(units);
        true
    }

    // ---- Request

    /// The request for the next lease in the call that is being written, if half of the last lease is used.
    /// The server decides it after all other requests of the call.
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

    /// A request for a lease of `units` units.
    pub(super) fn request_of(&mut self, units: u64) -> LeaseRequest {
        self.last_id += 1;
        self.in_flight = Some(self.last_id);
        LeaseRequest { id: self.last_id, units, max: self.limit.policy.max(), connection: self.connection }
    }

    /// Begins a pause in which no lease is considered in the background. Returns whether to fetch one now.
    pub(super) fn may_prefetch(&mut self, demand: &Demand, instances: u64, now: u64) -> bool {
        self.prefetch_after = now + self.interval / RETRY_DIVISOR;
        self.next_size(demand, instances, now) > 0
    }

    /// Size of the next lease; 0 if there is none.
    fn next_size(&self, demand: &Demand, instances: u64, now: u64) -> u64 {
        let last = self.last_answer.as_ref();
        last.map_or(0, |last| last.lease_size(self.limit.check(), demand, self.interval, instances, now))
    }

    // ---- Learn

    /// Learns from an answer. A block or a debt ends leases. The answer shows how many units are left, and
    /// whether the requested lease was granted. A lease is void if the connection was replaced, or the count
    /// was reset, after it was requested.
    pub(super) fn learn(&mut self, answer: Answer, effects: &mut Effects) {
        let Answer { at, sent_at, now, connection, .. } = answer;
        self.renew(connection, effects);
        if answer.is_overdrawn {
            self.give_back_all(connection, now, effects);
            // A lease of another call may have been decided before the debt, so it goes back. One of the same
            // call was decided after the debt.
            let own = answer.lease.map(|(request, _)| request.id);
            self.goes_back = self.in_flight.filter(|id| Some(*id) != own).or(self.goes_back);
        }
        // A block replaced the state on the server, so the charges of the leases are gone.
        if answer.state.blocked_until().is_some_and(|until| until > Timestamp::from_micros(at)) {
            self.forget(effects);
        }
        let last = LastAnswer::new(self.limit.check(), answer.state, at, sent_at);
        let resets_at = last.resets_at;
        // Answers may come in another order than they were decided.
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
        let mut lease =
            Lease::new(request.units, at, sent_at, end_of_window(&self.limit.check(), at), resets_at);
        lease.last_used = now;
        if request.max != self.limit.policy.max() || self.goes_back == Some(request.id) {
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

    /// Notes that a request for a lease gets no answer. If the server has charged its units, they are lost
    /// until their window is over.
    pub(super) fn abandon(&mut self, request: LeaseRequest) {
        if self.in_flight == Some(request.id) {
            self.in_flight = None;
        }
    }
}

impl Effects {
    /// Takes the unused units out of a lease. They are given back if they still count.
    fn give_back(&mut self, lease: &mut Lease, now: u64, connection: NodeConnection) {
        if lease.unused == 0 {
            return;
        }
        if lease.upper_bound(now) < lease.counts_until {
            // Out of the lease before they are sent, so that no unit is in two places.
            let (units, at, until) = (lease.give_back(), lease.granted_at, lease.counts_until);
            self.give_backs.push(GiveBack { units, at, until, connection });
        } else {
            lease.expire();
        }
    }

    /// Counts the units of a lease that ended.
    fn ended(&mut self, lease: &Lease) {
        for (sum, units) in self.tally.iter_mut().zip(lease.tally()) {
            *sum += units;
        }
    }
}
