//! Bounds: how late it may be on the server, seen from the clock of this process.

use crate::store::redis::lanes::margin;

/// Longest life of a lease after its call was written, 1 s. It bounds what drifting clocks, pauses that no clock sees, and
/// resets by other processes can do.
pub(super) const MAX_AGE_US: u64 = 1_000_000;

/// Upper bound of the server's time at the local instant `now`, from an answer that was decided at `at`, by the server's
/// clock, to a call that was written at or after the local instant `asked_at`.
///
/// The call was decided after it was written, so the time since then is at least the time since the decision.
pub(super) const fn upper_bound(at: u64, asked_at: u64, now: u64) -> u64 {
    let age = now.saturating_sub(asked_at);
    at.saturating_add(age + margin(age))
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
