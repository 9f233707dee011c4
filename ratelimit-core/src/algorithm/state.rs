//! What is kept for a caller, in sixteen bytes, and the form in which an algorithm works on it.
//!
//! A state in a table says by itself when it can be forgotten, so that a store need not know whose policy it is under:
//! instead of the instant at which a window began there is the one at which nothing counts any more.

use super::compact::Micros;
use super::token_bucket::Rational;
use super::{Algorithm, Step, fixed_window, sliding_window_counter, sliding_window_log, token_bucket};
use crate::clock::Timestamp;
use crate::policy::Policy;

/// What is kept for one caller under one policy.
///
/// A store keeps it, hands it to [`decide`](super::decide) and writes back what comes out; it never looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(Kept);

/// In a box is what would make every other state larger, and nothing while nothing is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    FixedWindow { forget_at: Micros, count: u64 },
    TwoWindows { forget_at: Micros, current: u32, earlier: u32 },
    // Also two windows with larger counts.
    SubWindows(Option<Box<sliding_window_counter::SubWindows>>),
    SlidingWindowLog(Option<Box<sliding_window_log::State>>),
    TokenBucket { tat: Micros, fraction: u64 },
}

const _: () = assert!(size_of::<State>() == 16, "a caller costs a store this and a digest");

/// A state that is being worked on.
#[derive(Debug)]
pub(super) enum Open {
    FixedWindow(fixed_window::State),
    TwoWindows(sliding_window_counter::TwoWindows),
    SubWindows(Box<sliding_window_counter::SubWindows>),
    SlidingWindowLog(Box<sliding_window_log::State>),
    TokenBucket(token_bucket::State),
}

/// Runs the same on whichever state it is; without a call through a table, so that it becomes one piece of code.
macro_rules! each {
    ($open:expr, $state:ident => $what:expr) => {
        match $open {
            Open::FixedWindow($state) => $what,
            Open::TwoWindows($state) => $what,
            Open::SubWindows(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Open::SlidingWindowLog(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Open::TokenBucket($state) => $what,
        }
    };
}
pub(super) use each;

impl State {
    /// The state of a caller who has not been seen.
    pub fn new(policy: &Policy) -> Self {
        let zero = Micros::default();
        Self(match policy.algorithm() {
            Algorithm::FixedWindow => Kept::FixedWindow { forget_at: zero, count: 0 },
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Kept::TwoWindows { forget_at: zero, current: 0, earlier: 0 }
            }
            Algorithm::SlidingWindowCounter => Kept::SubWindows(None),
            Algorithm::SlidingWindowLog => Kept::SlidingWindowLog(None),
            Algorithm::TokenBucket => Kept::TokenBucket { tat: zero, fraction: 0 },
        })
    }

    /// The instant from which this state says no more than a new one would, so that it can be forgotten. For a counter
    /// over two windows it is up to a twelfth of the window later.
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(match &self.0 {
            Kept::FixedWindow { forget_at, .. } | Kept::TwoWindows { forget_at, .. } => (*forget_at).into(),
            Kept::SubWindows(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Kept::SlidingWindowLog(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Kept::TokenBucket { tat, fraction } => rational(*tat, *fraction).rounded_up(),
        })
    }

    /// Gives back `cost` units that were charged at `at` and count `until`, as far as they still do; false when they
    /// no longer do, and nothing was changed.
    ///
    /// What the algorithm has already given back by itself is not given back twice, and nothing reaches units that
    /// were charged in a later window.
    pub fn refund(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        at: Timestamp,
        until: Timestamp,
        cost: u64,
    ) -> bool {
        let counts = now < until;
        if counts {
            let now = now.as_micros();
            let (mut open, _) = self.open(policy, now);
            each!(&mut open, state => {
                state.settle(policy, now);
                state.refund(policy, now, at.as_micros(), until.as_micros(), cost);
            });
            self.close(open);
        }
        counts
    }

    /// Opens a state to be judged at `now`; true when it was taken out and has to be put back in any case.
    #[inline]
    pub(super) fn open(&mut self, policy: &Policy, now: u64) -> (Open, bool) {
        match &mut self.0 {
            Kept::FixedWindow { forget_at, count } => {
                let (window, count) = (policy.window_us(), *count);
                let start = u64::from(*forget_at).saturating_sub(window);
                (Open::FixedWindow(fixed_window::State { window, start, count }), false)
            }
            Kept::TwoWindows { forget_at, current, earlier } => {
                let (forget_at, current, earlier) =
                    ((*forget_at).into(), (*current).into(), (*earlier).into());
                let state = sliding_window_counter::TwoWindows::open(policy, forget_at, current, earlier);
                (Open::TwoWindows(state), false)
            }
            // A copy, unless there is nothing that one might want to go back to.
            Kept::SubWindows(Some(state)) if !state.is_settled(now) => {
                (Open::SubWindows(state.clone()), false)
            }
            Kept::SubWindows(state) => {
                let new = || Box::new(sliding_window_counter::SubWindows::new(policy));
                (Open::SubWindows(state.take().unwrap_or_else(new)), true)
            }
            // Never a copy, since it may be long.
            Kept::SlidingWindowLog(state) => {
                let new = || Box::new(sliding_window_log::State::new(policy));
                (Open::SlidingWindowLog(state.take().unwrap_or_else(new)), true)
            }
            Kept::TokenBucket { tat, fraction } => {
                (Open::TokenBucket(token_bucket::State { tat: rational(*tat, *fraction) }), false)
            }
        }
    }

    /// Keeps what became of an open state.
    #[inline]
    pub(super) fn close(&mut self, open: Open) {
        match open {
            Open::FixedWindow(state) => {
                self.0 = Kept::FixedWindow { forget_at: state.resets_at().into(), count: state.count };
            }
            Open::TwoWindows(state) => {
                let (current, earlier) = state.counts();
                match (u32::try_from(current), u32::try_from(earlier)) {
                    (Ok(current), Ok(earlier)) => {
                        self.0 = Kept::TwoWindows { forget_at: state.forget_at().into(), current, earlier };
                    }
                    _ => self.0 = Kept::SubWindows(Some(Box::new(state.into()))),
                }
            }
            Open::SubWindows(state) => self.0 = Kept::SubWindows(Some(state)),
            Open::SlidingWindowLog(state) => self.0 = Kept::SlidingWindowLog(Some(state)),
            Open::TokenBucket(token_bucket::State { tat }) => {
                self.0 = Kept::TokenBucket { tat: tat.micros.into(), fraction: tat.fraction };
            }
        }
    }
}

fn rational(micros: Micros, fraction: u64) -> Rational {
    Rational { micros: micros.into(), fraction }
}

impl Open {
    pub(super) fn step(&self) -> &dyn Step {
        match self {
            Self::FixedWindow(state) => state,
            Self::TwoWindows(state) => state,
            Self::SubWindows(state) => &**state,
            Self::SlidingWindowLog(state) => &**state,
            Self::TokenBucket(state) => state,
        }
    }

    pub(super) fn step_mut(&mut self) -> &mut dyn Step {
        each!(self, state => state)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::{Mode, decide_one};
    use crate::policy::MAX_UNITS;

    const NOW: u64 = 1_789_948_800_000_007;

    fn two_windows(state: &State) -> bool {
        matches!(state.0, Kept::TwoWindows { .. })
    }

    fn charge(state: &mut State, policy: &Policy, now: u64, cost: u64) -> u64 {
        let outcome = decide_one(policy, cost, state, Timestamp::from_micros(now), Mode::Check);
        assert!(outcome.is_allowed(), "{cost} at {now}");
        outcome.remaining()
    }

    #[test]
    fn two_windows_are_opened_as_they_were_closed_and_can_be_forgotten_soon_after_their_end() {
        let counts = [0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 65_535, 65_537, u64::from(u32::MAX)];
        for window in [1_000, 1_001, 60_000_000, 31_622_400_000_000] {
            let policy = Policy::new("k", 1, Duration::from_micros(window));
            for (current, earlier) in counts.into_iter().flat_map(|c| counts.map(|e| (c, e))) {
                let mut state = State::new(&policy);
                let forget_at = (NOW + 3 * window).into();
                let (current, earlier) = (current.try_into().unwrap(), earlier.try_into().unwrap());
                state.0 = Kept::TwoWindows { forget_at, current, earlier };
                let (open, taken) = state.open(&policy, NOW);
                assert!(!taken);
                let resets_at = open.step().resets_at();
                let mut closed = State::new(&policy);
                closed.close(open);
                assert_eq!(closed, state, "{current} and {earlier} in {window} us");
                if current > 0 || earlier > 0 {
                    let late = state.expires_at().as_micros() - resets_at;
                    assert!(
                        late <= window / 12 + 1,
                        "{late} us after {current} and {earlier} in {window} us"
                    );
                }
                if current == 1 {
                    assert_eq!(state.expires_at().as_micros(), resets_at, "exact for who comes once");
                }
            }
        }
    }

    #[test]
    fn what_is_kept_of_every_algorithm_expires_when_it_says_no_more() {
        let window = Duration::from_secs(60);
        for algorithm in [
            Algorithm::FixedWindow,
            Algorithm::SlidingWindowCounter,
            Algorithm::SlidingWindowLog,
            Algorithm::TokenBucket,
        ] {
            let policy = Policy::builder("k").algorithm(algorithm).max(7).window(window).build();
            let mut state = State::new(&policy);
            assert!(state.expires_at().as_micros() == 0, "{algorithm}: a new one says nothing");
            charge(&mut state, &policy, NOW, 1);
            let (open, _) = state.clone().open(&policy, NOW);
            assert_eq!(state.expires_at().as_micros(), open.step().resets_at(), "{algorithm}");
            assert!(state.expires_at().as_micros() > NOW, "{algorithm}");
        }
    }

    #[test]
    fn two_windows_with_counts_that_do_not_fit_go_on_in_a_box() {
        let window = 60_000_000;
        let policy = Policy::new("k", MAX_UNITS, Duration::from_micros(window));
        let (mut state, most, start) = (State::new(&policy), u64::from(u32::MAX), NOW - NOW % window);
        assert_eq!(charge(&mut state, &policy, start, most), MAX_UNITS - most);
        assert!(two_windows(&state));
        assert_eq!(charge(&mut state, &policy, start, 1), MAX_UNITS - most - 1);
        assert!(!two_windows(&state));
        // Half a window later, half of it counts; and it ends when it would have ended in place.
        let half = most.div_ceil(2);
        assert_eq!(charge(&mut state, &policy, start + window + window / 2, 5), MAX_UNITS - half - 5);
        let end = start + 3 * window - (window - 1) / 5;
        assert_eq!(state.expires_at().as_micros(), end);
        assert_eq!(charge(&mut state, &policy, end, 0), MAX_UNITS);
    }
}
