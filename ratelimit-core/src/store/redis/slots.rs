//! Slots of concurrency limits: what runs in this process, and what the server is told of it.
//!
//! A process keeps two numbers for each caller of which something runs, and each message to the server tells
//! both: the slots that it knows to be granted to it, and those of them that it has freed. Both only grow, so
//! a message may come late, twice, never or in another order, and the next one mends what went wrong. A
//! message is a check of a cost: with a cost of 0 it only tells, which is both renewal and release.
//! `algorithm/concurrency.rs` is the server's side.
//!
//! * A slot begins where the reply is decoded, and travels with it. So it is freed if the request's future
//!   was dropped, or its deadline has passed.
//! * A caller is told of at the latest 3 s after its last message, at once on a new connection, and after a
//!   slot was freed. An entry on the server ends 10 s after its last message.
//! * Grants whose reply was lost are noticed by the server's own number in the next reply, and are freed
//!   ("heal").
//!
//! ```text
//! count     pure: the numbers of one caller, and every event
//! table     the callers of which something runs, and the slots that requests hold
//! ```
//!
//! Here are the slots in one call: what is asked for as it is written, and what its reply grants.

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

/// The slots that one call asks for. If its reply never comes, that is noted when this is dropped.
pub(super) struct CallSlots {
    table: Arc<SlotTable>,
    callers: Vec<CallerSlots>,
}

/// A caller in the call.
struct CallerSlots {
    key: StateKey,
    requested: u64,
    /// Whether the server stores what the call tells; of a peek it stores nothing.
    is_stored: bool,
    /// For each limit the index of its request, its own in the request, and what it asks for.
    places: SmallVec<[(usize, usize, u64); 1]>,
}

impl CallSlots {
    /// Notes what requests ask for, as the call is written, and adds to them what it tells. `None` if no
    /// limit is one of slots.
    pub(super) fn new(table: &Arc<SlotTable>, requests: &mut [&mut Request]) -> Option<Box<Self>> {
        let mut callers: Vec<CallerSlots> = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            for (place, limit) in request.limits.iter().enumerate() {
                if !limit.policy.algorithm().holds_slots() {
                    continue;
                }
                let requested = if request.operation.charges() { limit.cost() } else { 0 };
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

    /// Notes what the reply grants. Each request holds its slots by its reply from now on.
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
