//! The four algorithms: pure arithmetic over a caller's state, a policy, an instant and a cost.
//!
//! | algorithm | state per caller | burst at a window's edge | choose it when |
//! |---|---|---|---|
//! | [`FixedWindow`](Algorithm::FixedWindow) | one count | up to 2 × max | quotas by the clock hour or day; cheapest |
//! | [`SlidingWindowCounter`](Algorithm::SlidingWindowCounter) | sub-windows + 1 counts | close to none | the default: small state, smooth |
//! | [`SlidingWindowLog`](Algorithm::SlidingWindowLog) | every admitted request | none | the rule must hold for every window, to the microsecond |
//! | [`TokenBucket`](Algorithm::TokenBucket) | one instant | burst + max | a steady rate with room for bursts |
//!
//! Every algorithm is a state with the same few functions, which a decision calls in this order:
//!
//! 1. `settle` brings the state to `now`: windows roll, what has expired goes, a clock that went back is absorbed;
//! 2. `fits` says whether a cost would pass;
//! 3. `charge` takes it, once every limit of the group has said yes;
//! 4. `remaining`, `reset_after` and `retry_after` report.
//!
//! A Lua file of the same name in `lua/` does the same steps with the same names inside Redis. Neither knows a clock,
//! a store or async. Time is in integer microseconds, and every division is exact: Rust multiplies in 128 bits, Lua
//! divides by parts (`lua/lib/mul_div.lua`).

mod fixed_window;
#[cfg(feature = "redis")]
pub(crate) mod found;
mod sliding_window_counter;
mod sliding_window_log;
mod small;
mod token_bucket;

use smallvec::{SmallVec, smallvec};

use crate::clock::Timestamp;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::Policy;

/// How units are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A count that starts anew at every multiple of the window since the Unix epoch.
    FixedWindow,
    /// Counts of the present and earlier sub-windows, the oldest weighted by how much of it is still in the window.
    #[default]
    SlidingWindowCounter,
    /// Every admitted unit with its time: exact in every window.
    SlidingWindowLog,
    /// A bucket of `burst` tokens that refills at `max` per window.
    TokenBucket,
}

impl Algorithm {
    /// The name, as the attribute spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindowCounter => "sliding_window_counter",
            Self::SlidingWindowLog => "sliding_window_log",
            Self::TokenBucket => "token_bucket",
        }
    }
}

impl std::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an algorithm's state can do. All instants and waits are in microseconds.
trait Step {
    /// Whether settling would change nothing; when in doubt, false.
    fn is_settled(&self, _policy: &Policy, _now: u64) -> bool {
        false
    }
    /// Brings the state to `now`; true when that has to be kept even if nothing is charged, because the clock went
    /// back or because finding out again would cost as much again.
    fn settle(&mut self, policy: &Policy, now: u64) -> bool;
    /// Whether `cost` would pass at `now`, in a settled state.
    fn fits(&self, policy: &Policy, now: u64, cost: u64) -> bool;
    /// Takes `cost`, which fits.
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64);
    /// How many requests of cost 1 would pass at `now`.
    fn remaining(&self, policy: &Policy, now: u64) -> u64;
    /// The instant from which nothing of what was charged counts any more; 0 when nothing was.
    fn resets_at(&self, policy: &Policy) -> u64;
    /// The smallest wait after which `cost`, which does not fit, would; `None` when it never can.
    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64>;
    /// Gives back what was charged at `at` and counts `until`, as far as it still does, and nothing else.
    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64);
}

/// What is kept for one caller under one policy.
///
/// A store keeps it, hands it to [`decide`] and writes back what comes out; it never looks inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(Inner);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    FixedWindow(fixed_window::State),
    TwoWindows(sliding_window_counter::TwoWindows),
    // Boxed: these would make every other state larger.
    SubWindows(Box<sliding_window_counter::SubWindows>),
    SlidingWindowLog(Box<sliding_window_log::State>),
    TokenBucket(token_bucket::State),
}

/// Runs the same on whichever state it is; without a call through a table, so that it becomes one piece of code.
macro_rules! each {
    ($inner:expr, $state:ident => $what:expr) => {
        match $inner {
            Inner::FixedWindow($state) => $what,
            Inner::TwoWindows($state) => $what,
            Inner::SubWindows(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Inner::SlidingWindowLog(boxed) => {
                let $state = &mut **boxed;
                $what
            }
            Inner::TokenBucket($state) => $what,
        }
    };
}

impl State {
    /// The state of a caller who has not been seen.
    pub fn new(policy: &Policy) -> Self {
        Self(match policy.algorithm() {
            Algorithm::FixedWindow => Inner::FixedWindow(fixed_window::State::default()),
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Inner::TwoWindows(sliding_window_counter::TwoWindows::new())
            }
            Algorithm::SlidingWindowCounter => {
                Inner::SubWindows(Box::new(sliding_window_counter::SubWindows::new(policy.sub_windows())))
            }
            Algorithm::SlidingWindowLog => Inner::SlidingWindowLog(Box::default()),
            Algorithm::TokenBucket => Inner::TokenBucket(token_bucket::State::default()),
        })
    }

    fn step(&self) -> &dyn Step {
        match &self.0 {
            Inner::FixedWindow(state) => state,
            Inner::TwoWindows(state) => state,
            Inner::SubWindows(state) => &**state,
            Inner::SlidingWindowLog(state) => &**state,
            Inner::TokenBucket(state) => state,
        }
    }

    fn step_mut(&mut self) -> &mut dyn Step {
        match &mut self.0 {
            Inner::FixedWindow(state) => state,
            Inner::TwoWindows(state) => state,
            Inner::SubWindows(state) => &mut **state,
            Inner::SlidingWindowLog(state) => &mut **state,
            Inner::TokenBucket(state) => state,
        }
    }

    /// The instant from which this state says no more than a new one would, so that it can be forgotten.
    pub fn expires_at(&self, policy: &Policy) -> Timestamp {
        Timestamp::from_micros(self.step().resets_at(policy))
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
            let step = self.step_mut();
            step.settle(policy, now.as_micros());
            step.refund(policy, now.as_micros(), at.as_micros(), until.as_micros(), cost);
        }
        counts
    }

    /// A copy to go back to when nothing is charged; `None` when there is nothing to go back to, and for the log, whose
    /// settling is always kept.
    fn backup(&self, policy: &Policy, now: u64) -> Option<Self> {
        match &self.0 {
            Inner::SlidingWindowLog(_) => None,
            Inner::SubWindows(state) if state.is_settled(policy, now) => None,
            _ => Some(self.clone()),
        }
    }
}

/// The steps of a decision about one limit. Returns the outcome, and whether the state has to be kept.
fn judge(state: &mut impl Step, policy: &Policy, now: u64, cost: u64, mode: Mode) -> (Outcome, bool) {
    let mut keep = state.settle(policy, now);
    let decision = if state.fits(policy, now, cost) {
        if mode == Mode::Check {
            state.charge(policy, now, cost);
            keep = true;
        }
        Decision::Allowed
    } else {
        state.retry_after(policy, now, cost).map_or(Decision::Never, Decision::RetryAfterMicros)
    };
    let remaining = state.remaining(policy, now);
    let reset_after = state.resets_at(policy).saturating_sub(now);
    (Outcome::new(policy.capacity(), cost, remaining, reset_after, decision), keep)
}

/// Judges one limit: what [`decide`] does about a group of one, in less time.
pub(crate) fn decide_one(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    mode: Mode,
) -> GroupOutcome {
    let at = now.as_micros();
    let backup = state.backup(policy, at);
    let (outcome, keep) = each!(&mut state.0, state => judge(state, policy, at, cost, mode));
    if let (Some(backup), false) = (backup, keep) {
        *state = backup;
    }
    GroupOutcome::of_one(now, outcome)
}

/// Whether a decision takes what it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// What is admitted is charged.
    Check,
    /// Nothing is charged: what would be decided?
    Peek,
}

/// One limit of a group, as [`decide`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The rule.
    pub policy: &'a Policy,
    /// Units that this limit is to be charged.
    pub cost: u64,
    /// Which of the states is this caller's; members with the same policy and caller have the same one.
    pub state: usize,
}

/// Judges a group of limits at one instant: all pass and all are charged, or nothing is charged.
///
/// Members that share a state are each judged with the sum of their costs, and the state is charged that sum once.
/// This is the whole of a decision; what a store adds is that nobody else touches the states meanwhile.
///
/// A state must have been made for a policy with the same algorithm, window and sub-windows.
///
/// # Panics
///
/// When a member names a state that is not there.
pub fn decide(members: &[Member<'_>], states: &mut [State], now: Timestamp, mode: Mode) -> GroupOutcome {
    let at = now.as_micros();
    if let ([member], [state]) = (members, &mut *states) {
        return decide_one(member.policy, member.cost, state, now, mode);
    }
    let mut backups: SmallVec<[Option<State>; 2]> = smallvec![None; states.len()];
    for member in members {
        let backup = &mut backups[member.state];
        if backup.is_none() {
            *backup = states[member.state].backup(member.policy, at);
        }
    }
    let mut keep: SmallVec<[bool; 2]> = smallvec![false; states.len()];
    for member in members {
        keep[member.state] |= states[member.state].step_mut().settle(member.policy, at);
    }
    let total = |state: usize| {
        members.iter().filter(|m| m.state == state).fold(0, |sum: u64, m| sum.saturating_add(m.cost))
    };
    let fits = |m: &Member<'_>, states: &[State]| states[m.state].step().fits(m.policy, at, total(m.state));
    let allowed = members.iter().all(|m| fits(m, states));
    let charged = allowed && mode == Mode::Check;
    if charged {
        for (i, member) in members.iter().enumerate() {
            if members[..i].iter().all(|earlier| earlier.state != member.state) {
                states[member.state].step_mut().charge(member.policy, at, total(member.state));
            }
        }
    }
    let outcomes = members.iter().map(|member| {
        let step = states[member.state].step();
        let cost = total(member.state);
        let decision = if allowed || step.fits(member.policy, at, cost) {
            Decision::Allowed
        } else {
            step.retry_after(member.policy, at, cost).map_or(Decision::Never, Decision::RetryAfterMicros)
        };
        Outcome::new(
            member.policy.capacity(),
            member.cost,
            step.remaining(member.policy, at),
            step.resets_at(member.policy).saturating_sub(at),
            decision,
        )
    });
    let outcome = GroupOutcome::new(now, allowed, outcomes.collect());
    if !charged {
        for ((state, backup), keep) in states.iter_mut().zip(backups).zip(keep) {
            if let (Some(backup), false) = (backup, keep) {
                *state = backup;
            }
        }
    }
    outcome
}

/// `a * b / c`, rounded down, and the remainder.
///
/// Exact for every combination that [`Policy`] admits; a quotient that would not fit, which none of them has,
/// saturates.
fn mul_div(a: u64, b: u64, c: u64) -> (u64, u64) {
    // Nearly always it fits, and a division of 128 bits takes several times as long.
    if let Some(product) = a.checked_mul(b) {
        return (product / c, product % c);
    }
    let product = u128::from(a) * u128::from(b);
    let c = u128::from(c);
    let clip = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    (clip(product / c), clip(product % c))
}
