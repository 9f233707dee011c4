//! Slots of concurrency limits: how many requests of a caller run in this process, and how the process
//! reports them to the server.
//!
//! A process keeps two numbers for each caller with running requests: how many slots were granted to it, as
//! far as it knows, and how many of them it has freed. Each message to the server has both. Both only grow,
//! so a message may come late, twice, never or in another order, and the next one corrects the server's
//! entry. A message is a check of a cost. With a cost of 0 it only reports, which renews the entry and
//! releases freed slots. `algorithm/concurrency.rs` is the server's side.
//!
//! * A slot begins where the reply is decoded, and travels with the reply. So it is freed if the request's
//!   future was dropped, or its deadline has passed.
//! * A process reports a caller within 3 s of its last message, after a slot was freed, and at once on a new
//!   connection. An entry on the server ends 10 s after its last message.
//! * If a reply is lost, the next one has the server's number of granted slots. The process frees those that
//!   no request uses.
//!
//! ```text
//! count     pure: the numbers of one caller, and every event
//! table     the callers with running requests, and the slots that requests hold
//! ```
//!
//! This file has the slots of one call: what the call requests and reports, and what its reply grants.

mod count;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

pub(super) use self::table::{Sender, SlotTable};
use super::key::StateKey;
use super::protocol::{Replies, Request};
use crate::algorithm::Operation;

/// The slots that one call requests. If this is dropped without a reply, they are no longer awaited.
pub(super) struct CallSlots {
    table: Arc<SlotTable>,
    callers: Vec<CallerSlots>,
}

/// A caller in the call.
struct CallerSlots {
    key: StateKey,
    requested: u64,
    /// Whether the server stores the report. It stores nothing for a peek.
    is_stored: bool,
    /// For each limit: the index of its request, its index in that request, and the slots that it requests.
    places: SmallVec<[(usize, usize, u64); 1]>,
}

impl CallSlots {
    /// Notes the slots that requests of the call are for, and adds the reports to these requests. `None` if
    /// the call has no concurrency limit.
    pub(super) fn new(table: &Arc<SlotTable>, requests: &mut [&mut Request]) -> Option<Box<Self>> {
        let mut callers: Vec<CallerSlots> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            for (place, limit) in request.limits.iter().enumerate() {
                if !limit.policy.algorithm.holds_slots() {
                    continue;
                }
                let requested = if request.operation.charges() { limit.cost } else { 0 };
                let is_stored = request.operation != Operation::Peek;
                if let Some(caller) = callers.iter_mut().find(|caller| caller.key == limit.key) {
                    caller.requested += requested;
                    caller.is_stored |= is_stored;
                    caller.places.push((index, place, requested));
                } else {
                    let places = SmallVec::from_iter([(index, place, requested)]);
                    callers.push(CallerSlots { key: limit.key.clone(), requested, is_stored, places });
                }
            }
        }
        for CallerSlots { key, requested, is_stored, places } in &callers {
            let (first, limit, _) = places[0];
            let reported = table.report(key, requests[first].limits[limit].policy, *requested, *is_stored);
            for &(request, limit, _) in places {
                requests[request].limits[limit].own = Some(Box::new(reported));
            }
        }
        (!callers.is_empty()).then(|| Box::new(Self { table: Arc::clone(table), callers }))
    }

    /// Notes the slots that the reply grants, and lets each request hold its slots with its part of the
    /// reply.
    pub(super) fn finish(mut self, replies: &mut Replies) {
        for CallerSlots { key, requested, places, .. } in std::mem::take(&mut self.callers) {
            let granted = |&(request, limit, cost): &(usize, usize, u64)| {
                (request, replies.charged(request, limit, cost))
            };
            let granted: SmallVec<[(usize, u64); 1]> =
                places.iter().map(granted).filter(|(_, slots)| *slots > 0).collect();
            let there = places.first().and_then(|&(request, limit, _)| replies.granted_there(request, limit));
            self.table.answer(&key, requested, granted.iter().map(|(_, slots)| slots).sum(), there);
            for (request, slots) in granted {
                replies.hold(request, self.table.hold(&key, slots));
            }
        }
    }
}

impl Drop for CallSlots {
    fn drop(&mut self) {
        for CallerSlots { key, requested, .. } in &self.callers {
            self.table.lose(key, *requested);
        }
    }
}
