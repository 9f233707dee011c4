//! One lease: units of a count that the server has charged, and that this process may use later.
//!
//! Every unit is in one place: held, reserved for a request whose other limits are being decided, used, given back, or
//! expired.
//!
//! Units of a token bucket evaporate: with `n` of them left, they may be used until the end of the lease less the time in
//! which `n` units refill. Reserved units evaporate as well, and before the held ones: they come back to the lease if the
//! request is denied, and until then other requests must not use the time that they have lost. Without that, a lease of
//! five units with two reserved would hold three untouched units two refills later, and with the two put back five, of
//! which the bucket has refilled two.

use smallvec::SmallVec;

use crate::algorithm::UseBy;
use crate::policy::Policy;
use crate::store::redis::lanes::margin;

/// Longest life of a lease after its call was written, 1 s. It bounds what drifting clocks, pauses that no clock sees, and
/// resets by other processes can do.
pub(super) const MAX_AGE_US: u64 = 1_000_000;

/// Upper bound of the server's time at the local instant `now`, from an answer that was decided at `at`, by the server's
/// clock, to a call that was written at or after the local instant `asked_at`.
///
/// The call was decided after it was written, so the time since then is at least the time since the decision.
const fn upper_bound(at: u64, asked_at: u64, now: u64) -> u64 {
    let age = now.saturating_sub(asked_at);
    at.saturating_add(age + margin(age))
}

/// Names a lease within its count.
pub(super) type LeaseId = u64;

/// A lease.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    /// Units that may be used, as far as they have not expired.
    pub(super) held: u64,
    /// Units that were requested from the server.
    pub(super) size: u64,
    /// Instant of the charge, by the server's clock.
    pub(super) granted_at: u64,
    /// Instant before the call was written, by the local clock.
    pub(super) asked_at: u64,
    pub(super) use_by: UseBy,
    /// The instant from which the charge no longer counts, by the server's clock.
    pub(super) counts_until: u64,
    /// Instant of the last use, by the local clock.
    pub(super) last_used: u64,
    /// Units reserved by requests that are being decided, oldest first.
    reserved: SmallVec<[Reserved; 2]>,
    /// Units that were charged or put in.
    granted: u64,
    used: u64,
    expired: u64,
    returned: u64,
}

/// Units that one request has reserved.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    id: u64,
    units: u64,
    /// How many of them would come back if the request were denied now.
    fresh: u64,
}

impl Lease {
    /// A lease of `size` units.
    pub(super) fn new(
        id: LeaseId,
        size: u64,
        granted_at: u64,
        asked_at: u64,
        use_by: UseBy,
        counts_until: u64,
    ) -> Self {
        Self {
            id,
            held: size,
            size,
            granted_at,
            asked_at,
            use_by,
            counts_until,
            last_used: asked_at,
            reserved: SmallVec::new(),
            granted: size,
            used: 0,
            expired: 0,
            returned: 0,
        }
    }

    /// Upper bound of the server's time at the local instant `now`.
    #[inline]
    pub(super) fn upper_bound(&self, now: u64) -> u64 {
        upper_bound(self.granted_at, self.asked_at, now)
    }

    /// The server's time of a use at the local instant `now`: no earlier than it was there.
    #[inline]
    pub(super) fn used_at(&self, now: u64) -> u64 {
        self.granted_at + now.saturating_sub(self.asked_at)
    }

    /// Whether nothing of the lease may be used any more, and nothing can come back to it.
    pub(super) fn is_over(&self, policy: &Policy, now: u64) -> bool {
        now.saturating_sub(self.asked_at) > MAX_AGE_US
            || self.use_by.usable(policy, 1, self.upper_bound(now)) == 0
    }

    /// Lets units of a token bucket expire that may no longer be used, reserved ones first.
    pub(super) fn evaporate(&mut self, policy: &Policy, now: u64) {
        if !self.use_by.evaporates() {
            return;
        }
        let fresh: u64 = self.reserved.iter().map(|reserved| reserved.fresh).sum();
        let mut excess =
            fresh + self.held - self.use_by.usable(policy, fresh + self.held, self.upper_bound(now));
        for reserved in &mut self.reserved {
            let gone = excess.min(reserved.fresh);
            reserved.fresh -= gone;
            excess -= gone;
        }
        self.held -= excess;
        self.expired += excess;
        self.check();
    }

    /// Uses `units` of the held ones.
    #[inline]
    pub(super) fn use_units(&mut self, policy: &Policy, units: u64, now: u64) {
        self.assert_in_time(policy, now);
        self.held -= units;
        self.used += units;
        self.last_used = self.last_used.max(now);
        self.check();
    }

    /// Reserves `units` of the held ones under `id`.
    pub(super) fn reserve(&mut self, policy: &Policy, id: u64, units: u64, now: u64) {
        self.assert_in_time(policy, now);
        self.held -= units;
        self.reserved.push(Reserved { id, units, fresh: units });
        self.last_used = self.last_used.max(now);
        self.check();
    }

    /// Takes the reservation `id` out. Returns how many of its units were reserved, and how many of them have not expired.
    fn take_out(&mut self, id: u64) -> Option<(u64, u64)> {
        let place = self.reserved.iter().position(|reserved| reserved.id == id)?;
        let Reserved { units, fresh, .. } = self.reserved.remove(place);
        Some((units, fresh))
    }

    /// The units of the reservation `id` were used when they were reserved.
    pub(super) fn confirm(&mut self, id: u64) {
        if let Some((units, _)) = self.take_out(id) {
            self.used += units;
        }
        self.check();
    }

    /// The units of the reservation `id` were not used: puts back those that have not expired.
    pub(super) fn put_back(&mut self, policy: &Policy, id: u64, now: u64) {
        self.evaporate(policy, now);
        if let Some((units, fresh)) = self.take_out(id) {
            self.held += fresh;
            self.expired += units - fresh;
        }
        self.check();
    }

    /// Adds units that a request of the same window used and gives back.
    pub(super) fn put_in(&mut self, units: u64) {
        debug_assert!(!self.use_by.evaporates(), "units of a bucket are never put in");
        self.held += units;
        self.granted += units;
    }

    /// Takes the held units out, to be given back to the server.
    pub(super) fn give_back(&mut self) -> u64 {
        let units = std::mem::take(&mut self.held);
        self.returned += units;
        self.check();
        units
    }

    /// Lets the held units expire.
    pub(super) fn expire(&mut self) {
        self.expired += std::mem::take(&mut self.held);
    }

    /// Whether no units are held or reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0 && self.reserved.is_empty()
    }

    /// Units reserved by requests that are being decided.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn reserved(&self) -> u64 {
        self.reserved.iter().map(|reserved| reserved.units).sum()
    }

    /// Asserts that all held units may be used at `now`.
    #[inline]
    fn assert_in_time(&self, policy: &Policy, now: u64) {
        debug_assert!(
            now.saturating_sub(self.asked_at) <= MAX_AGE_US
                && self.use_by.usable(policy, self.held, self.upper_bound(now)) == self.held,
            "used after its use-by"
        );
    }

    /// Every unit is in exactly one place.
    fn check(&self) {
        #[cfg(debug_assertions)]
        assert_eq!(
            self.granted,
            self.held + self.reserved() + self.used + self.expired + self.returned,
            "each unit of a lease is in one place"
        );
    }

    /// What became of the units so far: used, given back, expired.
    pub(super) fn tally(&self) -> [u64; 3] {
        [self.used, self.returned, self.expired]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_counts_from_the_question_with_a_margin_of_a_millisecond_and_a_thousandth() {
        assert_eq!(upper_bound(5_000_000, 70, 70), 5_001_000);
        assert_eq!(upper_bound(5_000_000, 70, 500_070), 5_000_000 + 500_000 + 1_000 + 500);
        assert_eq!(upper_bound(5_000_000, 70, 10), 5_001_000, "a reading of another thread may be earlier");
    }
}
