//! Concurrency limit: at most `max` slots are held at a time.
//!
//! ```text
//! available    max - held
//! fits         cost <= available
//! reset_after  0: no process knows when a slot is freed
//! retry_after  unknown                                           (never when cost > max)
//! ```
//!
//! In a store of this process, and in a custom one, the state is one count: a charge takes slots, and a
//! refund frees them. A state of which something is held does not expire.
//!
//! In Redis the state has an entry for each process, which tells it two numbers that only grow: the slots
//! that it knows to be granted to it, and those of them that it has freed. Held are the granted ones that are
//! not freed. The entry has the lower 48 bits of each number.
//!
//! ```text
//! message      merges what is told into the own entry, by the later one of each number, and prolongs it to now + hold, also
//!              when it is denied. A cost of 0 only tells
//! entries      dropped at their end, and cut to now + hold if the clock went back. One of which nothing is held stays until
//!              then: a message that was overtaken finds how far the numbers have come
//! ```
//!
//! Since told numbers only grow and each message has both, a message may come late, twice, never or in
//! another order, and the next one mends what went wrong. `store/redis/slots` is the process's side.
//!
//! Twin: `lua/concurrency.lua`.

#[cfg(feature = "redis")]
mod entries;

#[cfg(feature = "redis")]
pub(crate) use self::entries::{Entries, OwnEntry};
use super::step::{Reader, Step, Writer};
use crate::outcome::Verdict;
#[cfg(feature = "redis")]
pub(crate) use crate::policy::HOLD_US;
use crate::policy::Policy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Instant of the first of the slots that are held: earlier ones were dropped by a reset.
    pub(super) since: u64,
    pub(super) held: u64,
}

impl State {
    /// Reads a state of a custom store; `None` if the bytes are malformed.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { since: reader.micros()?, held: reader.bounded_units()? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.micros(self.since);
        writer.units(self.held);
    }
}

impl Step for State {
    fn advance(&mut self, _policy: &Policy, _now: u64) -> bool {
        false
    }

    fn available(&self, policy: &Policy, _now: u64) -> Option<u64> {
        policy.max().checked_sub(self.held)
    }

    fn charge(&mut self, _policy: &Policy, now: u64, cost: u64) {
        if self.held == 0 {
            self.since = now;
        }
        self.held += cost;
    }

    fn resets_at(&self) -> u64 {
        0
    }

    fn retry_after(&self, _policy: &Policy, _now: u64, _cost: u64) -> Option<u64> {
        None
    }

    fn holds_slots(&self) -> bool {
        true
    }

    fn denial(&self, policy: &Policy, _now: u64, cost: u64) -> Verdict {
        if cost > policy.max() { Verdict::Never } else { Verdict::Busy }
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, at: u64, _until: u64, cost: u64) {
        if at >= self.since {
            self.held = self.held.saturating_sub(cost);
        }
    }
}
