//! Lessors: the connections from which leases come, one to a single server or one to each master of a
//! cluster, and whether the server's clock and the local one go on alike on each, seen from one answer to the
//! next.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Largest number of masters of which callers hold leases.
const MAX_LESSORS: usize = 256;

/// Margin for readings of two clocks, 1 ms.
const MARGIN_US: u64 = 1_000;

/// Margin for clocks that run at different rates: one part in a thousand of the time since.
const DRIFT: u64 = 1_000;

/// Error of a span of `age` microseconds by two clocks, in microseconds.
pub(super) const fn margin(age: u64) -> u64 {
    MARGIN_US + age / DRIFT
}

/// The three instants of an answer: decided at `at` by the server's clock, to a call that was written at or
/// after `asked_at` and answered at or before `answered_at` by the local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) at: u64,
    pub(super) asked_at: u64,
    pub(super) answered_at: u64,
}

impl Reading {
    /// Whether a later answer agrees that the server's clock and the local one went on alike. If not, one of
    /// them was set, or the machine stood still without its clock noticing.
    pub(super) fn agrees_with(&self, next: &Self) -> bool {
        let margin = margin(next.answered_at.saturating_sub(self.asked_at));
        let between = |later: u64, earlier: u64| i128::from(later) - i128::from(earlier);
        let least = between(next.asked_at, self.answered_at) - i128::from(margin);
        let most = between(next.answered_at, self.asked_at) + i128::from(margin);
        (least..=most).contains(&between(next.at, self.at))
    }
}

/// A connection: whose answers share a clock and a server. Leases of another one are void, because the server
/// may have lost what it charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LessorConnection {
    /// The server, or the node of a cluster.
    pub(super) lessor: u16,
    /// Number of the connection to it.
    pub(super) generation: u64,
}

/// The present connection of each lessor.
#[derive(Debug)]
pub(in crate::store::redis) struct Lessors {
    lessors: Box<[Lessor]>,
}

#[derive(Debug, Default)]
struct Lessor {
    /// Number of the connection. Leases of an earlier one are void.
    generation: AtomicU64,
    /// The last answer on it.
    reading: Mutex<Option<Reading>>,
}

impl Lessors {
    pub(in crate::store::redis) fn new(is_cluster: bool) -> Self {
        let size = if is_cluster { MAX_LESSORS } else { 1 };
        Self { lessors: (0..size).map(|_| Lessor::default()).collect() }
    }

    /// The present connection of a lessor. `None` for a master above the largest number.
    #[inline]
    pub(super) fn present(&self, lessor: usize) -> Option<LessorConnection> {
        let generation = self.lessors.get(lessor)?.generation.load(Ordering::Acquire);
        Some(LessorConnection { lessor: u16::try_from(lessor).ok()?, generation })
    }

    /// Voids all leases of a lessor: there is a new connection, or the node has rejected a call because a
    /// hash slot has moved.
    pub(in crate::store::redis) fn renew(&self, lessor: usize) {
        if let Some(lessor) = self.lessors.get(lessor) {
            let mut reading = lessor.reading.lock();
            lessor.generation.fetch_add(1, Ordering::AcqRel);
            *reading = None;
        }
    }

    /// Voids the leases of all lessors.
    pub(in crate::store::redis) fn renew_all(&self) {
        (0..self.lessors.len()).for_each(|lessor| self.renew(lessor));
    }

    /// Compares an answer on a connection with the last one. If the server's clock and the local one did not
    /// go on alike, all leases of the lessor are void. Returns false if the connection has been replaced, or
    /// is void by now.
    pub(super) fn observe(&self, connection: LessorConnection, next: Reading) -> bool {
        let Some(lessor) = self.lessors.get(usize::from(connection.lessor)) else { return false };
        let mut reading = lessor.reading.lock();
        if lessor.generation.load(Ordering::Acquire) != connection.generation {
            return false;
        }
        let agrees = reading.is_none_or(|last| last.agrees_with(&next));
        if !agrees {
            lessor.generation.fetch_add(1, Ordering::AcqRel);
        }
        *reading = Some(next);
        agrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_agrees_if_the_clocks_went_on_alike() {
        let first = Reading { at: 1_000_000, asked_at: 500, answered_at: 900 };
        let next = |at| Reading { at, asked_at: 100_500, answered_at: 100_900 };
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
        let first = Reading { at: 1_000_000, asked_at: 500, answered_at: 900 };
        let earlier = Reading { at: 999_700, asked_at: 300, answered_at: 950 };
        assert!(first.agrees_with(&earlier));
    }

    fn reading(at: u64) -> Reading {
        Reading { at: 1_000_000 + at, asked_at: at, answered_at: at + 100 }
    }

    #[test]
    fn a_new_connection_and_a_clock_that_was_set_void_the_leases_of_their_lane() {
        let lessors = Lessors::new(true);
        let first = lessors.present(3).unwrap();
        assert!(lessors.observe(first, reading(0)));
        assert!(lessors.observe(first, reading(5_000)));
        // The server's clock is three milliseconds ahead of what it should show.
        let set = Reading { at: reading(10_000).at + 3_000, ..reading(10_000) };
        assert!(!lessors.observe(first, set));
        let second = lessors.present(3).unwrap();
        assert_ne!(first, second);
        assert!(!lessors.observe(first, set), "an answer on the connection that is void");
        assert!(lessors.observe(second, Reading { at: reading(20_000).at + 3_000, ..reading(20_000) }));
        let other = lessors.present(4).unwrap();
        lessors.renew(3);
        assert_ne!(lessors.present(3).unwrap(), second);
        assert!(lessors.observe(lessors.present(3).unwrap(), reading(30_000)), "another clock");
        assert_eq!(lessors.present(4).unwrap(), other);
        lessors.renew_all();
        assert_ne!(lessors.present(4).unwrap(), other);
        assert!(lessors.present(MAX_LESSORS).is_none() && Lessors::new(false).present(1).is_none());
    }
}
