//! A decision: the steps of each limit, and all or nothing of a group.

use smallvec::SmallVec;

use super::state::{Open, State, each};
use super::step::Step;
use crate::clock::Timestamp;
use crate::outcome::{Decision, GroupOutcome, Outcome};
use crate::policy::Policy;

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
