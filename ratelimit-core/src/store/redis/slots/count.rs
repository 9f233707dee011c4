//! The slots of one caller in this process: its numbers, and every event. Pure: no clock, no lock, no
//! connection.

use crate::algorithm::concurrency::HOLD_US;

/// Age of the last message at which a caller is told of again, in microseconds: 3 s.
const RENEW_US: u64 = 3_000_000;

/// No number of freed slots.
const UNREPORTED: u64 = u64::MAX;

/// The numbers of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SlotCount {
    /// Slots that requests of this process hold.
    used: u64,
    /// Slots that this process knows to be granted to it.
    granted: u64,
    /// Slots that it asked for and that may still be granted to a request.
    pending: u64,
    /// Freed slots of which the last message told; [`UNREPORTED`] if it may be lost.
    reported_freed: u64,
    /// Instant of the last message.
    reported_at: u64,
}

impl SlotCount {
    /// Numbers of a caller of which nothing runs. They start at the process's running number of grants, which
    /// is never below what was told of this caller before: otherwise a late message of then would free a slot
    /// of now.
    pub(super) fn start(running: u64) -> Self {
        Self { used: 0, granted: running, pending: 0, reported_freed: running, reported_at: 0 }
    }

    pub(super) const fn granted(&self) -> u64 {
        self.granted
    }

    pub(super) const fn freed(&self) -> u64 {
        self.granted - self.used
    }

    #[cfg(test)]
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether nothing runs and nothing is asked for.
    pub(super) const fn is_idle(&self) -> bool {
        self.used == 0 && self.pending == 0
    }

    /// Whether the caller may be forgotten when a reply comes: nothing runs, and nothing is left to tell.
    pub(super) const fn is_over(&self) -> bool {
        self.is_idle() && self.freed() == self.reported_freed
    }

    /// Whether the caller may be forgotten without a reply: nothing runs, and the server counts nothing of it
    /// any more.
    pub(super) fn is_over_there(&self, now: u64) -> bool {
        self.is_idle() && now.saturating_sub(self.reported_at) >= HOLD_US
    }

    /// Whether a message is due: a slot was freed since the last one, or it is too old for what runs.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.freed() != self.reported_freed
            || (self.used > 0 && now.saturating_sub(self.reported_at) >= RENEW_US)
    }

    /// A message is written. Returns the granted and the freed slots that it tells.
    pub(super) fn report(&mut self, now: u64) -> (u64, u64) {
        (self.reported_freed, self.reported_at) = (self.freed(), now);
        self.numbers()
    }

    /// What a message tells: the slots granted and those freed.
    pub(super) const fn numbers(&self) -> (u64, u64) {
        (self.granted, self.freed())
    }

    /// The server may have lost what it was told, or the last message may be lost.
    pub(super) fn forget_message(&mut self) {
        self.reported_freed = UNREPORTED;
    }

    /// A message that asks for slots is written.
    pub(super) fn request(&mut self, slots: u64) {
        self.pending += slots;
    }

    /// A reply to a message that asked for `requested` slots: `granted` of them are used by requests from now on.
    pub(super) fn answer(&mut self, requested: u64, granted: u64) {
        self.pending -= requested;
        self.used += granted;
        self.granted += granted;
    }

    /// There will be no reply to a message that asked for slots.
    pub(super) fn lose(&mut self, slots: u64) {
        self.pending -= slots;
    }

    /// Notes how many slots the server counts as granted, after all answers of that reply. Of these, at most
    /// those that are still asked for may be used without being known here; all others that no request uses
    /// are freed by this.
    pub(super) fn heal(&mut self, granted_there: u64) {
        self.granted = self.granted.max(granted_there.saturating_sub(self.pending));
    }

    /// Requests free slots.
    pub(super) fn free(&mut self, slots: u64) {
        self.used -= slots;
    }
}
