//! Concurrency limit: at most `max` slots are held at a time.
//!
//! ```text
//! available    max - held
//! fits         cost <= available
//! reset_after  0: no process knows when a slot is freed
//! retry_after  unknown                                           (never when cost > max)
//! ```
//!
//! In memory and in custom stores the state is one count: a charge takes slots, and a refund frees them. A
//! state with held slots does not expire.
//!
//! In Redis the state has an entry for each process. The process reports two numbers: the slots that were
//! granted to it, as far as it knows, and those of them that it has freed. Slots that are granted and not
//! freed are held. The entry has the lower 48 bits of each number.
//!
//! ```text
//! message      is merged with the entry of its process: the later value of each number stays. The entry then
//!              ends at now + hold, also if the message is denied. A message with a cost of 0 only reports
//! entry        is dropped at its end, which is at most now + hold, also after the clock went back. An entry
//!              without held slots stays until its end: it shows that a message which is overtaken is old
//! ```
//!
//! Reported numbers only grow, and each message has both. So a message may come late, twice, never or in
//! another order, and the next one corrects the entry. `store/redis/slots` is the process's side.
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
    /// When the first of the held slots was taken. Slots from before are not in the count, because a reset
    /// removed them.
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
