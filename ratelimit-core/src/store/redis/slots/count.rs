//! The slots of one caller in this process: its numbers, and every event. Pure: there is no clock, lock or
//! connection here.

use crate::algorithm::concurrency::HOLD_US;

/// Age of the last message at which running requests are reported again, in microseconds: 3 s.
const RENEW_US: u64 = 3_000_000;

/// A value that no number of freed slots has.
const UNREPORTED: u64 = u64::MAX;

/// The numbers of one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SlotCount {
    /// Slots that requests of this process hold.
    used: u64,
    /// Slots granted to this process, as far as it knows.
    granted: u64,
    /// Slots requested by calls in flight.
    pending: u64,
    /// Freed slots in the last message; [`UNREPORTED`] if it may be lost.
    reported_freed: u64,
    /// Instant of the last message.
    reported_at: u64,
}

impl SlotCount {
    /// Numbers of a caller without running requests. They start at the number of all slots that were ever
    /// granted to this process, which is never below an earlier report of the caller. If they started at 0, a
    /// late message with a higher number would free a slot that is in use.
    pub(super) fn start(granted_ever: u64) -> Self {
        Self { used: 0, granted: granted_ever, pending: 0, reported_freed: granted_ever, reported_at: 0 }
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

    /// Whether no request runs and no call requests slots.
    pub(super) const fn is_idle(&self) -> bool {
        self.used == 0 && self.pending == 0
    }

    /// Whether the caller can be removed: no request runs, and all freed slots are reported.
    pub(super) const fn is_over(&self) -> bool {
        self.is_idle() && !self.has_unreported()
    }

    /// Whether the caller can be removed although a report may be lost: no request runs, and the server's
    /// entry has ended.
    pub(super) fn is_over_on_server(&self, now: u64) -> bool {
        self.is_idle() && now.saturating_sub(self.reported_at) >= HOLD_US
    }

    /// Whether the last message does not report all freed slots, or may be lost.
    pub(super) const fn has_unreported(&self) -> bool {
        self.freed() != self.reported_freed
    }

    /// Whether a message is due: a slot was freed since the last message, or the last message is too old for
    /// the requests that run.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.has_unreported() || (self.used > 0 && now.saturating_sub(self.reported_at) >= RENEW_US)
    }

    /// Notes that a message is written. Returns the granted and the freed slots that it reports.
    pub(super) fn report(&mut self, now: u64) -> (u64, u64) {
        (self.reported_freed, self.reported_at) = (self.freed(), now);
        self.numbers()
    }

    /// The granted and the freed slots.
    pub(super) const fn numbers(&self) -> (u64, u64) {
        (self.granted, self.freed())
    }

    /// Notes that the last message, or the server's entry, may be lost.
    pub(super) fn forget_message(&mut self) {
        self.reported_freed = UNREPORTED;
    }

    /// Notes that a message that requests slots is written.
    pub(super) fn request(&mut self, slots: u64) {
        self.pending += slots;
    }

    /// Takes the reply to a message that requested `requested` slots. Requests use `granted` of them from now
    /// on.
    pub(super) fn answer(&mut self, requested: u64, granted: u64) {
        self.pending -= requested;
        self.used += granted;
        self.granted += granted;
    }

    /// Notes that a message that requested slots gets no reply.
    pub(super) fn lose(&mut self, slots: u64) {
        self.pending -= slots;
    }

    /// Frees slots whose reply was lost. `granted_there` is the number of granted slots in the server's
    /// entry, after [`answer`](Self::answer) for all slots of that reply. Calls in flight may use at most
    /// `pending` of the slots that this process does not know. The others count as granted and not used, so
    /// they are freed.
    pub(super) fn free_lost(&mut self, granted_there: u64) {
        self.granted = self.granted.max(granted_there.saturating_sub(self.pending));
    }

    /// Frees slots of requests that have ended.
    pub(super) fn free(&mut self, slots: u64) {
        self.used -= slots;
    }
}
