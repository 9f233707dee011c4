//! Leases: units that this process charges ahead, so that it decides about a hot caller without a round trip.
//!
//! A request for a lease is a check of `n` units. The server decides it after the other requests of the same
//! call. If it passes, its units are charged, and this process admits requests with them. A request takes all
//! its units from leases, or the server decides it. No more requests pass than without leases: the pure rule
//! admits each use, replayed at its own instant. `docs/leases.md` has the guarantee and its bounds under
//! faults.
//!
//! * A unit may be used until the end of the window or sub-window in which it was charged. This process knows
//!   an upper bound of the server's time: its time in the answer, plus the local time since before the call
//!   was *written*, plus a margin. The local clock counts while the machine is suspended.
//! * A lease has half of the units that were requested in the last one to two intervals, and at most a
//!   quarter of the units that were left, divided by the number of processes.
//! * Before the server decides a request, the unused units of its counts are given back, unless the server
//!   surely has enough.
//! * A lease belongs to one connection. A new connection, a redirect, or a clock that was set voids it.
//! * The server decides every denial.
//!
//! ```text
//! nodes     the nodes that grant leases, and their present connections
//! units     one lease: its units unused, used, given back, expired; the upper bound of the server's time
//! size      how many units a caller used lately, and the size of the next lease
//! count     the leases of one count, and all events: take, give back, learn
//! ```
//!
//! `units`, `size` and `count` are pure: they have no clock, lock or connection. Around them:
//!
//! ```text
//! give_backs   units on their way back to the server
//! shard        the counts under one lock
//! table        all counts for which this process has leases, or may have some soon
//! requests     how requests use leases
//! ```
//!
//! This file has the leases of one call: the requests for leases in it, and what they learn from its answer.

mod count;
mod give_backs;
mod nodes;
mod requests;
mod shard;
mod size;
mod table;
mod units;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::count::{Answer, GiveBack, LeaseRequest};
use self::nodes::NodeConnection;
use self::size::LastAnswer;
pub(super) use self::table::{LeaseTarget, Leases};
use super::key::StateKey;
use super::protocol::{self, LimitArg, Replies};
use super::server_clock::ClockSample;
use crate::policy::nearest;

/// The leases of one call. When this is dropped, requests for leases without an answer are abandoned.
pub(super) struct CallLeases {
    leases: Arc<Leases>,
    /// `None` if it is not known which connection the call takes. Then the call requests no leases.
    connection: Option<NodeConnection>,
    /// An instant before the call was written, by the local clock.
    sent_at: u64,
    counts: Vec<CallCount>,
    /// Whether the call is sent over another connection than planned.
    is_rerouted: bool,
}

/// A count in the call.
struct CallCount {
    target: LeaseTarget,
    key: StateKey,
    /// Index of a request of the call with this count, and of the limit in that request. `None` if the call
    /// has only a request for a lease.
    place: Option<(usize, usize)>,
    lease: Option<LeaseRequest>,
}

impl CallLeases {
    pub(super) fn new(leases: &Arc<Leases>, node: Option<usize>) -> Self {
        Self {
            leases: Arc::clone(leases),
            connection: node.and_then(|node| leases.nodes.present(node)),
            sent_at: leases.now(),
            counts: Vec::new(),
            is_rerouted: false,
        }
    }

    /// Notes the limits of a request whose leases learn from the answer. `place` is the index of the request
    /// in the call, or `None` if the request is not in the call and only fetches leases. Adds to `requests` a
    /// request for a lease for each count that has none in this call.
    pub(super) fn add(
        &mut self,
        targets: Box<[LeaseTarget]>,
        limits: &[LimitArg],
        place: Option<usize>,
        requests: &mut Vec<LimitArg>,
    ) {
        for mut target in targets {
            let Some(limit) = limits.get(target.limit) else { continue };
            let known = self.counts.iter().position(|known| known.target.digest == target.digest);
            if let Some(known) = known.map(|known| &mut self.counts[known])
                && (known.target.fetches() || !target.fetches())
            {
                known.target.is_overdrawn |= target.is_overdrawn;
                continue;
            }
            let connection = self.connection.filter(|_| target.fetches());
            let request = connection
                .and_then(|connection| self.leases.lease_request(&target, connection, self.sent_at));
            if place.is_none() && request.is_none() {
                // The call has nothing of this count.
                continue;
            }
            if let Some(known) = known {
                // So far without a request for a lease. Counts are in the order of these requests.
                target.is_overdrawn |= self.counts.remove(known).target.is_overdrawn;
            }
            let lease = |request: LeaseRequest| {
                LimitArg::of_attachment(limit.key.clone(), limit.policy, request.units)
            };
            requests.extend(request.map(lease));
            let place = place.map(|place| (place, target.limit));
            self.counts.push(CallCount { target, key: limit.key.clone(), place, lease: request });
        }
    }

    /// Notes that the call goes over another connection, because the planned one rejected it.
    pub(super) fn reroute(&mut self) {
        self.is_rerouted = true;
    }

    /// Lets the leases of the call learn from the answer. `first_lease` is the index of the first request for
    /// a lease in the call.
    pub(super) fn finish(&mut self, replies: &Replies, first_lease: usize) {
        let Some(at) = replies.at() else { return };
        let (at, sent_at, now) = (at.as_micros(), self.sent_at, self.leases.now());
        let sample = ClockSample { at, sent_at, answered_at: now };
        // An answer over another connection than planned may end leases, but grants none.
        let connection = self.connection.unwrap_or_default();
        let is_present =
            self.connection.is_some() && !self.is_rerouted && self.leases.nodes.observe(connection, sample);
        let mut next_lease = first_lease;
        for CallCount { target, key, place, lease } in &mut self.counts {
            let (check, requested) = (target.check.check(), *lease);
            let (place, verdict) = match requested {
                None => (*place, None),
                Some(request) => {
                    next_lease += 1;
                    let verdict = replies.verdict(next_lease - 1, &check.with_cost(request.units));
                    (Some((next_lease - 1, 0)), verdict)
                }
            };
            let state = place.and_then(|(request, limit)| replies.final_state(request, limit, &check));
            if requested.is_some() && verdict.is_none() {
                self.leases.give_backs.observer.odd_answer(protocol::EXPECTED);
            }
            let is_present = is_present && requested.is_some() == verdict.is_some();
            let Some(state) = state else { continue };
            let at = check.window.map_or(at, |window| nearest(at, window.from, window.before));
            let mut granted = requested.zip(verdict);
            if let Some((request, is_granted)) = granted.filter(|_| self.is_rerouted) {
                granted = None;
                if is_granted {
                    let until = LastAnswer::new(check, state.clone(), at, sent_at).resets_at;
                    let back = GiveBack { units: request.units, at, until, connection };
                    // The node that charged these units is not the one that grants leases of this count.
                    self.leases.give_backs.push(&target.count_id(key), [back]);
                }
            } else if granted.is_some() {
                *lease = None;
            }
            let (is_overdrawn, lease) = (target.is_overdrawn, granted);
            let answer = Answer { state, at, sent_at, now, connection, is_present, is_overdrawn, lease };
            self.leases.learn(target, key, answer);
        }
    }
}

impl Drop for CallLeases {
    fn drop(&mut self) {
        for count in &self.counts {
            if let Some(request) = count.lease {
                self.leases.abandon(count.target.digest, request);
            }
        }
    }
}
