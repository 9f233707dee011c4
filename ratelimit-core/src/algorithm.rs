//! The four algorithms: pure arithmetic over a caller's state, a policy, an instant and a cost.
//!
//! | algorithm | state per caller | burst at a window's edge | choose it when |
//! |---|---|---|---|
//! | [`FixedWindow`](Algorithm::FixedWindow) | one count | up to 2 × max in one window | quotas by the clock hour or day; cheapest |
//! | [`SlidingWindowCounter`](Algorithm::SlidingWindowCounter) | sub-windows + 1 counts | below 2 × max in one window | the default: small state, smooth |
//! | [`SlidingWindowLog`](Algorithm::SlidingWindowLog) | every admitted request | none | the rule must hold for every window, to the microsecond |
//! | [`TokenBucket`](Algorithm::TokenBucket) | one instant | burst + max | a steady rate with room for bursts |
//!
//! The counter's estimate of the oldest sub-window is rounded down to whole units. At worst just under 2 × max pass
//! within one window: when all requests of a sub-window come at its end. 178 of 100 were the most that simulated traffic
//! reached by default. In the log, an entry that is exactly one window old still counts.
//!
//! Every algorithm is a state with the same few functions, which a decision calls in this order:
//!
//! 1. `settle` brings the state to `now`: windows roll, what has expired goes, a clock that went back is absorbed;
//! 2. `left` says how many units would pass: a cost fits when it is no more, and what then remains is the difference;
//! 3. `charge` takes it, once every limit of the group has said yes;
//! 4. `resets_at` and `retry_after` report; the latter also about one more unit, where nothing is left.
//!
//! A Lua file of the same name in `lua/` does the same steps with the same names inside Redis, where `left` is `fits` and
//! `remaining`. Neither knows a clock, a store or async. Time is in integer microseconds, and every division is exact: Rust multiplies in 128 bits, Lua
//! divides by parts (`lua/mul_div.lua`).

mod fixed_window;
#[cfg(feature = "redis")]
pub(crate) mod found;
mod sliding_window_counter;
mod sliding_window_log;
mod small;
mod state;
#[cfg(test)]
mod tests;
mod token_bucket;

use smallvec::SmallVec;

pub use self::state::State;
use self::state::{Open, each};

use crate::clock::Timestamp;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::Policy;

/// How units are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A count that starts anew at every multiple of the window since the Unix epoch.
    FixedWindow,
    /// Counts of the present and earlier sub-windows, the oldest weighted by how much of it is still in the window and rounded
    /// down to whole units. Below 2 × max pass in one window.
    #[default]
    SlidingWindowCounter,
    /// Every admitted unit with its time: exact in every window. An entry that is exactly one window old still counts.
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
    /// Brings the state to `now`; true when that has to be kept even if nothing is charged, because the clock went
    /// back or because finding out again would cost as much again.
    fn settle(&mut self, policy: &Policy, now: u64) -> bool;
    /// The most that a request may cost to pass at `now`, in a settled state. `None` when not even one that costs nothing
    /// passes: more is counted than the policy admits, since it was charged under a larger `max`.
    fn left(&self, policy: &Policy, now: u64) -> Option<u64>;
    /// Takes `cost`, which fits; then so much less is left.
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64);
    /// The instant from which nothing of what was charged counts any more; 0 when nothing was.
    fn resets_at(&self) -> u64;
    /// The smallest wait after which `cost`, which does not fit, would; `None` when it never can.
    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64>;
    /// Gives back what was charged at `at` and counts `until`, as far as it still does, and nothing else.
    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64);
}

/// The steps of a decision about one limit. Returns the outcome, and whether the state has to be kept.
fn judge(state: &mut impl Step, policy: &Policy, now: u64, cost: u64, mode: Mode) -> (Outcome, bool) {
    let mut keep = state.settle(policy, now);
    let left = state.left(policy, now);
    let mut remaining = left.unwrap_or(0);
    let decision = if left.is_some_and(|left| cost <= left) {
        if mode == Mode::Check {
            state.charge(policy, now, cost);
            remaining -= cost;
            keep = true;
        }
        Decision::Allowed
    } else {
        state.retry_after(policy, now, cost).map_or(Decision::Never, Decision::RetryAfterMicros)
    };
    let reset_after = state.resets_at().saturating_sub(now);
    let mut outcome = Outcome::new(policy.capacity(), cost, remaining, reset_after, decision);
    if remaining == 0 {
        outcome = with_next_unit(outcome, state, policy, now, cost);
    }
    (outcome, keep)
}

/// An outcome of which nothing remains, after a decision about `cost`, with the wait for one more unit.
#[cold]
fn with_next_unit(outcome: Outcome, state: &dyn Step, policy: &Policy, now: u64, cost: u64) -> Outcome {
    let wait = match outcome.decision() {
        // The same question was just answered.
        Decision::RetryAfterMicros(wait) if cost == 1 => Some(wait),
        _ => state.retry_after(policy, now, 1),
    };
    match wait {
        Some(wait) => outcome.with_next_unit_after(wait),
        // Does not happen: every policy admits one unit at some time.
        None => outcome,
    }
}

/// Judges one limit: what [`decide`] does about a group of one, in less time.
pub(crate) fn decide_one(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    mode: Mode,
) -> Outcome {
    let at = now.as_micros();
    let (mut open, taken) = state.open(policy, at);
    let (outcome, keep) = each!(&mut open, state => judge(state, policy, at, cost, mode));
    if keep || taken {
        state.close(open);
    }
    outcome.decided_at(now)
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
        return GroupOutcome::of_one(decide_one(member.policy, member.cost, state, now, mode));
    }
    let mut shared: SmallVec<[Shared<'_>; 2]> = SmallVec::new();
    let places: SmallVec<[usize; 2]> = members
        .iter()
        .map(|member| {
            let known = shared.iter().position(|other| other.state == member.state);
            let place = known.unwrap_or_else(|| {
                let (open, keep) = states[member.state].open(member.policy, at);
                shared.push(Shared { state: member.state, policy: member.policy, open, cost: 0, keep });
                shared.len() - 1
            });
            shared[place].cost = shared[place].cost.saturating_add(member.cost);
            place
        })
        .collect();
    for state in &mut shared {
        state.keep |= state.open.step_mut().settle(state.policy, at);
    }
    let left = |member: &Member<'_>, state: &Shared<'_>| state.open.step().left(member.policy, at);
    let left: SmallVec<[Option<u64>; 2]> =
        members.iter().zip(&places).map(|(member, place)| left(member, &shared[*place])).collect();
    let fits = |left: Option<u64>, cost: u64| left.is_some_and(|left| cost <= left);
    let allowed = left.iter().zip(&places).all(|(left, place)| fits(*left, shared[*place].cost));
    let charged = allowed && mode == Mode::Check;
    if charged {
        for state in &mut shared {
            state.open.step_mut().charge(state.policy, at, state.cost);
            state.keep = true;
        }
    }
    let outcomes = members.iter().zip(&places).zip(&left).map(|((member, place), left)| {
        let (cost, step) = (shared[*place].cost, shared[*place].open.step());
        let decision = if fits(*left, cost) {
            Decision::Allowed
        } else {
            step.retry_after(member.policy, at, cost).map_or(Decision::Never, Decision::RetryAfterMicros)
        };
        let remaining = left.unwrap_or(0) - if charged { cost } else { 0 };
        let reset_after = step.resets_at().saturating_sub(at);
        let outcome = Outcome::new(member.policy.capacity(), member.cost, remaining, reset_after, decision);
        if remaining == 0 { with_next_unit(outcome, step, member.policy, at, cost) } else { outcome }
    });
    let outcome = GroupOutcome::new(now, allowed, outcomes.collect());
    for state in shared {
        if state.keep {
            states[state.state].close(state.open);
        }
    }
    outcome
}

/// A state that members of a group have in common.
struct Shared<'a> {
    /// Which of the states.
    state: usize,
    /// That of the first member; those of the others differ at most in what they admit.
    policy: &'a Policy,
    open: Open,
    /// Of all members together.
    cost: u64,
    /// Whether it has to be put back even if nothing is charged.
    keep: bool,
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
