//! Anchors: whether the server's clock and the local one go on alike, seen from one answer to the next.

/// Margin for readings of two clocks, 1 ms.
const MARGIN_US: u64 = 1_000;

/// Margin for clocks that run at different rates: one part in a thousand of the time since.
const DRIFT: u64 = 1_000;

/// Error of a span of `age` microseconds by two clocks, in microseconds.
pub(in crate::store::redis) const fn margin(age: u64) -> u64 {
    MARGIN_US + age / DRIFT
}

/// The three instants of an answer: decided at `at` by the server's clock, to a call that was written at or after
/// `asked_at` and answered at or before `answered_at` by the local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) struct Anchor {
    pub(in crate::store::redis) at: u64,
    pub(in crate::store::redis) asked_at: u64,
    pub(in crate::store::redis) answered_at: u64,
}

impl Anchor {
    /// Whether a later answer agrees that the server's clock and the local one went on alike. If not, one of them was set,
    /// or the machine stood still without its clock noticing.
    pub(in crate::store::redis) fn agrees_with(&self, next: &Self) -> bool {
        let margin = margin(next.answered_at.saturating_sub(self.asked_at));
        let between = |later: u64, earlier: u64| i128::from(later) - i128::from(earlier);
        let least = between(next.asked_at, self.answered_at) - i128::from(margin);
        let most = between(next.answered_at, self.asked_at) + i128::from(margin);
        (least..=most).contains(&between(next.at, self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_agrees_if_the_clocks_went_on_alike() {
        let first = Anchor { at: 1_000_000, asked_at: 500, answered_at: 900 };
        let next = |at| Anchor { at, asked_at: 100_500, answered_at: 100_900 };
        // Decided 99,600 to 100,400 microseconds later, with a margin of 1100.
        for (at, agrees) in [
            (1_000_000 + 99_600 - 1_100, true),
            (1_000_000 + 99_600 - 1_101, false),
            (1_000_000 + 100_400 + 1_100, true),
            (1_000_000 + 100_400 + 1_101, false),
            (0, false),
        ] {
            assert_eq!(first.agrees_with(&next(at)), agrees, "{at}");
        }
    }

    #[test]
    fn answers_that_are_seen_in_another_order_agree() {
        let first = Anchor { at: 1_000_000, asked_at: 500, answered_at: 900 };
        let earlier = Anchor { at: 999_700, asked_at: 300, answered_at: 950 };
        assert!(first.agrees_with(&earlier));
    }
}
