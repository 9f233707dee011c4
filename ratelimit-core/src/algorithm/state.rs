//! What is kept for a caller, in sixteen bytes, and the form in which an algorithm works on it.
//!
//! A state in a table says by itself when it can be forgotten, so that a store need not know whose policy it is under:
//! instead of the instant at which a window began there is the one at which nothing counts any more.

#[cfg(test)]
mod tests;

use super::compact::U56;
use super::step::Step;
use super::token_bucket::Rational;
use super::{fixed_window, sliding_window_counter, sliding_window_log, token_bucket};
use crate::clock::Timestamp;
use crate::policy::{Algorithm, Policy};

/// What is kept for one caller under one policy.
///
/// A store keeps it, hands it to [`decide`](super::decide) and writes back what comes out; it never looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(Packed);

/// In a box is what would make every other state larger, and nothing while nothing is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Packed {
    FixedWindow { forget_at: U56, count: u64 },
    TwoWindows { forget_at: U56, current: u32, earlier: u32 },
    // Also two windows with larger counts.
    SubWindows(Option<Box<sliding_window_counter::SubWindows>>),
    SlidingWindowLog(Option<Box<sliding_window_log::State>>),
    TokenBucket { tat: U56, fraction: u64 },
}

const _: () = assert!(size_of::<State>() == 16, "a caller costs a store this and a digest");

/// A state that is being worked on.
#[derive(Debug)]
pub(super) enum Unpacked {
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
            Unpacked::FixedWindow($state) => $what,
            Unpacked::TwoWindows($state) => $what,
            Unpacked::SubWindows(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Unpacked::SlidingWindowLog(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Unpacked::TokenBucket($state) => $what,
        }
    };
}
pub(super) use each;

impl State {
    /// The state of a caller who has not been seen.
    pub fn new(policy: &Policy) -> Self {
        let zero = U56::default();
        Self(match policy.algorithm() {
            Algorithm::FixedWindow => Packed::FixedWindow { forget_at: zero, count: 0 },
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Packed::TwoWindows { forget_at: zero, current: 0, earlier: 0 }
            }
            Algorithm::SlidingWindowCounter => Packed::SubWindows(None),
            Algorithm::SlidingWindowLog => Packed::SlidingWindowLog(None),
            Algorithm::TokenBucket => Packed::TokenBucket { tat: zero, fraction: 0 },
        })
    }

    /// The instant from which this state says no more than a new one would, so that it can be forgotten. For a counter
    /// over two windows it is up to a twelfth of the window later.
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(match &self.0 {
            Packed::FixedWindow { forget_at, .. } | Packed::TwoWindows { forget_at, .. } => {
                (*forget_at).into()
            }
            Packed::SubWindows(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Packed::SlidingWindowLog(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Packed::TokenBucket { tat, fraction } => rational(*tat, *fraction).rounded_up(),
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
            let (mut open, _) = self.unpack(policy, now);
            each!(&mut open, state => {
                state.advance(policy, now);
                state.refund(policy, now, at.as_micros(), until.as_micros(), cost);
            });
            self.pack(open);
        }
        counts
    }

    /// Opens a state to be judged at `now`; true when it was taken out and has to be put back in any case.
    #[inline]
    pub(super) fn unpack(&mut self, policy: &Policy, now: u64) -> (Unpacked, bool) {
        match &mut self.0 {
            Packed::FixedWindow { forget_at, count } => {
                let (window, count) = (policy.window_us(), *count);
                let start = u64::from(*forget_at).saturating_sub(window);
                (Unpacked::FixedWindow(fixed_window::State { window, start, count }), false)
            }
            Packed::TwoWindows { forget_at, current, earlier } => {
                let (forget_at, current, earlier) =
                    ((*forget_at).into(), (*current).into(), (*earlier).into());
                let state =
                    sliding_window_counter::TwoWindows::from_forget_at(policy, forget_at, current, earlier);
                (Unpacked::TwoWindows(state), false)
            }
            // A copy, unless there is nothing that one might want to go back to.
            Packed::SubWindows(Some(state)) if !state.is_settled(now) => {
                (Unpacked::SubWindows(state.clone()), false)
            }
            Packed::SubWindows(state) => {
                let new = || Box::new(sliding_window_counter::SubWindows::new(policy));
                (Unpacked::SubWindows(state.take().unwrap_or_else(new)), true)
            }
            // Never a copy, since it may be long.
            Packed::SlidingWindowLog(state) => {
                let new = || Box::new(sliding_window_log::State::new(policy));
                (Unpacked::SlidingWindowLog(state.take().unwrap_or_else(new)), true)
            }
            Packed::TokenBucket { tat, fraction } => {
                (Unpacked::TokenBucket(token_bucket::State { tat: rational(*tat, *fraction) }), false)
            }
        }
    }

    /// Keeps what became of an open state.
    #[inline]
    pub(super) fn pack(&mut self, open: Unpacked) {
        match open {
            Unpacked::FixedWindow(state) => {
                self.0 = Packed::FixedWindow { forget_at: state.resets_at().into(), count: state.count };
            }
            Unpacked::TwoWindows(state) => {
                let (current, earlier) = state.counts();
                match (u32::try_from(current), u32::try_from(earlier)) {
                    (Ok(current), Ok(earlier)) => {
                        self.0 = Packed::TwoWindows { forget_at: state.forget_at().into(), current, earlier };
                    }
                    _ => self.0 = Packed::SubWindows(Some(Box::new(state.into()))),
                }
            }
            Unpacked::SubWindows(state) => self.0 = Packed::SubWindows(Some(state)),
            Unpacked::SlidingWindowLog(state) => self.0 = Packed::SlidingWindowLog(Some(state)),
            Unpacked::TokenBucket(token_bucket::State { tat }) => {
                self.0 = Packed::TokenBucket { tat: tat.micros.into(), fraction: tat.fraction };
            }
        }
    }
}

fn rational(micros: U56, fraction: u64) -> Rational {
    Rational { micros: micros.into(), fraction }
}

impl Unpacked {
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
