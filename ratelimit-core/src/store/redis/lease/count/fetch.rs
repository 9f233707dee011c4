//! Fetching the next lease of a count: what to ask for, and what an answer brings.

use super::give_back::Effects;
use super::{Count, Terms};
use crate::algorithm::{Standing, State};
use crate::clock::Timestamp;
use crate::store::redis::lanes::ConnectionId;
use crate::store::redis::lease::heat::Heat;
use crate::store::redis::lease::size::LastAnswer;
use crate::store::redis::lease::units::{Lease, LeaseId};

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

/// What an answer of the server tells about a count.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Answer {
    /// The state after the last request of the call for this count.
    pub(in crate::store::redis) state: State,
    /// Instant of the decision, by the server's clock.
    pub(in crate::store::redis) at: u64,
    /// An instant before the call was written, by the local clock.
    pub(in crate::store::redis) asked_at: u64,
    /// When the answer came, by the local clock.
    pub(in crate::store::redis) now: u64,
}

impl Count {
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
    pub(in crate::store::redis) fn request_of(&mut self, units: u64) -> LeaseRequest {
        let (id, max, connection) = (self.next_id(), self.policy.max(), self.connection);
        self.in_flight = Some(id);
        LeaseRequest { id, units, max, connection }
    }

    /// Size of the next lease; 0 if there is none.
    pub(in crate::store::redis) fn next_size(&mut self, heat: &Heat, instances: u64, now: u64) -> u64 {
        let Some(last) = &mut self.last_answer else { return 0 };
        last.lease_size(&self.policy, heat, self.interval, instances, now)
    }

    /// Notes that a lease is considered in the background: no other one for a while, whether it is fetched or too small.
    pub(in crate::store::redis) fn delay_prefetch(&mut self, now: u64) {
        self.prefetch_after = now + self.interval / RETRY;
    }

    /// Notes the answer to a call without a request for a lease. `terms` name the connection that answered.
    pub(in crate::store::redis) fn tell(&mut self, terms: Terms<'_>, answer: Answer, effects: &mut Effects) {
        self.adopt(terms, answer.now, effects);
        self.note(answer, effects);
    }

    /// Notes an answer that asked for no lease, to this limit or to another one with the same count. Its `max` may differ, but the
    /// state is the same.
    pub(in crate::store::redis) fn overhear(
        &mut self,
        connection: ConnectionId,
        answer: Answer,
        effects: &mut Effects,
    ) {
        self.renew(connection, effects);
        self.note(answer, effects);
    }

    /// Keeps the last answer. Returns what its state holds at its instant.
    fn note(&mut self, Answer { state, at, asked_at, .. }: Answer, effects: &mut Effects) -> Standing {
        self.end_if_blocked(&state, at, effects);
        let (last, standing) = LastAnswer::new(&self.policy, state, at, asked_at);
        // Answers may be seen in another order.
        if self.last_answer.as_ref().is_none_or(|last| last.at <= at) {
            self.last_answer = Some(last);
        }
        standing
    }

    /// Drops all leases if a block has begun: it replaced what was charged.
    pub(in crate::store::redis) fn end_if_blocked(&mut self, state: &State, at: u64, effects: &mut Effects) {
        if state.blocked_until().is_some_and(|until| until > Timestamp::from_micros(at)) {
            self.forget(effects);
        }
    }

    /// Notes the answer to a request for a lease: whether it was granted, and the state after it.
    ///
    /// A granted lease is void if the connection has been replaced, or the count reset, since it was asked for.
    pub(in crate::store::redis) fn answer(
        &mut self,
        request: LeaseRequest,
        connection: ConnectionId,
        is_granted: bool,
        answer: Answer,
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
        let Answer { at, asked_at, now, .. } = answer;
        let standing = self.note(answer, effects);
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
            effects.give_back(&mut lease, now, self.connection);
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
}
