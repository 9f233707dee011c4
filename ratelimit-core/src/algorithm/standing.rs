//! Standing: what a state holds at one instant, as leases need it.

use super::state::{State, Unpacked, each};
use super::step::Step;
use super::use_by::UseBy;
use crate::clock::Timestamp;
use crate::policy::Policy;

/// Available units of a state at one instant, until when they may be used, and when nothing counts any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Units that would pass.
    pub(crate) available: u64,
    /// Until when units may be used that are charged at this instant, or were just charged. `None` for a log, of which
    /// every unit counts from its own instant.
    pub(crate) use_by: Option<UseBy>,
    /// The instant from which nothing counts.
    pub(crate) resets_at: u64,
}

impl State {
    /// Advances the state to `now`, and says what it holds then.
    pub(crate) fn standing(&mut self, policy: &Policy, now: Timestamp) -> Standing {
        let now = now.as_micros();
        let (unpacked, _) = self.unpack(policy, now);
        each!(unpacked, step => {
            step.advance(policy, now);
            Standing {
                available: step.available(policy, now).unwrap_or(0),
                use_by: step.use_by(),
                resets_at: step.resets_at(),
            }
        }, standing => {
            self.pack(unpacked);
            standing
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::Operation;
    use crate::policy::Algorithm;

    fn bucket(max: u64, window_us: u64, burst: u64) -> Policy {
        let builder = Policy::builder("k").algorithm(Algorithm::TokenBucket).max(max).burst(burst);
        builder.window(Duration::from_micros(window_us)).build()
    }

    fn charged(policy: &Policy, at: u64, cost: u64) -> (State, Standing) {
        let mut state = State::new(policy);
        assert!(state.decide(policy, cost, Timestamp::from_micros(at), Operation::Check).is_allowed());
        let standing = state.standing(policy, Timestamp::from_micros(at));
        (state, standing)
    }

    #[test]
    fn units_of_a_window_may_be_used_until_the_end_of_their_sub_window() {
        let second = Duration::from_secs(1);
        for (algorithm, sub_windows, end) in [
            (Algorithm::FixedWindow, None, 8_000_000),
            (Algorithm::SlidingWindowCounter, None, 8_000_000),
            (Algorithm::SlidingWindowCounter, Some(10), 7_400_000),
        ] {
            let builder = Policy::builder("k").algorithm(algorithm).max(10).window(second);
            let policy = sub_windows.map_or(builder, |n| builder.sub_windows(n)).build();
            let (_, standing) = charged(&policy, 7_300_001, 4);
            let use_by = standing.use_by.unwrap();
            assert_eq!((standing.available, use_by), (6, UseBy::Before(end)), "{algorithm}");
            assert_eq!(use_by.usable(&policy, 4, end - 1), 4);
            assert_eq!(use_by.usable(&policy, 4, end), 0);
            assert_eq!(use_by.last_instant(&policy, 4), end - 1);
            assert!(!use_by.evaporates());
        }
    }

    #[test]
    fn units_of_a_bucket_evaporate_as_fast_as_it_refills() {
        // One token every 1000 microseconds.
        let policy = bucket(10, 10_000, 10);
        let (_, standing) = charged(&policy, 5_000, 4);
        let use_by = standing.use_by.unwrap();
        assert!(use_by.evaporates());
        let usable = |now| use_by.usable(&policy, 4, now);
        assert_eq!(
            [5_000, 5_001, 6_000, 6_001, 8_000, 8_001, 9_001, 99_999].map(usable),
            [4, 3, 3, 2, 1, 0, 0, 0]
        );
        assert_eq!([0, 1, 4].map(|units| use_by.last_instant(&policy, units)), [9_000, 8_000, 5_000]);
    }

    #[test]
    fn a_refill_time_that_is_not_whole_is_exact() {
        // Three tokens in 1000 microseconds.
        let policy = bucket(3, 1_000, 3);
        let (_, standing) = charged(&policy, 100, 3);
        let use_by = standing.use_by.unwrap();
        let usable = |now| use_by.usable(&policy, 3, now);
        // 1100 less one token is 766 2/3, less two is 433 1/3.
        assert_eq!([100, 101, 433, 434, 766, 767, 1_100].map(usable), [3, 2, 2, 1, 1, 0, 0]);
        assert_eq!([1, 2, 3].map(|units| use_by.last_instant(&policy, units)), [766, 433, 100]);
        for units in 1..=3 {
            let last = use_by.last_instant(&policy, units);
            assert_eq!(use_by.usable(&policy, units, last), units);
            assert!(use_by.usable(&policy, units, last + 1) < units);
        }
        // After a charge of two, the bucket is full at 766 2/3. Less one token that is 433 1/3, less two 100.
        let use_by = charged(&policy, 100, 2).1.use_by.unwrap();
        assert_eq!([100, 101, 433, 434].map(|now| use_by.usable(&policy, 2, now)), [2, 1, 1, 0]);
    }

    #[test]
    fn a_full_bucket_refills_in_the_whole_span_and_one_in_arrears_in_none_of_it() {
        let policy = bucket(10, 10_000, 100);
        let refill = |cost| {
            let (_, standing) = charged(&policy, 50_000, cost);
            standing.use_by.unwrap().refill_while_full(&policy, 50_000, 8_000)
        };
        assert_eq!([0, 1, 5, 8, 50].map(refill), [8, 7, 3, 0, 0]);
    }

    #[test]
    fn the_table_of_algorithms_says_what_becomes_of_held_units() {
        for &algorithm in Algorithm::ALL {
            let policy = Policy::builder("k").algorithm(algorithm).build();
            let is_leasable = charged(&policy, 5, 1).1.use_by.is_some_and(|use_by| !use_by.evaporates());
            assert_eq!(algorithm.spec().is_leasable, is_leasable, "{algorithm}");
        }
    }
}
