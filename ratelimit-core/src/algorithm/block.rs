//! Block: everything is denied until one instant, whatever the algorithm.
//!
//! ```text
//! begins       at the first denial under a policy with a block, if a wait would help; until = now + block,
//!              the shortest of the policies of a group over the same counts
//! available    nothing, not even a cost of 0
//! reset_after  until - now
//! retry_after  until - now                                       (never when the cost exceeds the limit)
//! ```
//!
//! Every decision begins here: it asks whether a block holds, and only then the algorithm, which knows of none. A denial by the
//! algorithm may begin a block.
//!
//! The block replaces the counts. From `until` on, the state is that of a new caller. Neither a denial nor a refund changes
//! it. Under every policy a block ends at the latest one block of that policy after `now`: a request shortens a block that
//! the clock, which went back, or another policy over the same counts made longer. Under a policy without a block of its own,
//! which obeys that of another policy, it ends at the latest after the longest window.
//!
//! Twin: `lua/open.lua`, with the state in 8 bytes: `b`, `until` (7 bytes).

use smallvec::SmallVec;

use super::decide::{self, Operation};
#[cfg(feature = "redis")]
use super::encoded::Effect;
use super::group::{self, Member};
use super::state::{Packed, State};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{MAX_WINDOW, Policy};

/// Longest block of any policy, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = MAX_WINDOW.as_micros() as u64;

/// Decides about one limit: the same as [`decide`] about a group of one enforced limit, in less time.
#[inline]
pub(crate) fn decide_one(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    guard::<true>(policy, cost, state, now, operation)
}

/// The same, also of a shadow limit, where no request holds what is taken: slots are not taken.
#[inline]
pub(crate) fn decide_without_slots(
    check: &Check<'_>,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    guard::<false>(check.policy(), check.cost(), state, now, operation).in_shadow_if(check.is_shadow())
}

#[inline]
fn guard<const TAKES_SLOTS: bool>(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    if let Some(until) = state.hold(policy, now) {
        return denial(policy, cost, now, until);
    }
    let outcome = decide::decide_one::<TAKES_SLOTS>(policy, cost, state, now, operation);
    if policy.block_us() > 0 && operation != Operation::Peek && passes_later(&outcome) {
        return begin(policy, cost, state, now);
    }
    outcome
}

/// Whether a denial may begin a block: a cost that never passes begins none.
const fn passes_later(outcome: &Outcome) -> bool {
    matches!(outcome.verdict(), Verdict::RetryAfterMicros(_))
}

#[cold]
fn begin(policy: &Policy, cost: u64, state: &mut State, now: Timestamp) -> Outcome {
    let until = now.as_micros() + policy.block_us();
    state.0 = Packed::Blocked { until: until.into() };
    denial(policy, cost, now, until)
}

/// The denial of a cost during a block.
#[cold]
fn denial(policy: &Policy, cost: u64, now: Timestamp, until: u64) -> Outcome {
    let wait = until - now.as_micros();
    let verdict = Verdict::denied((cost <= policy.capacity()).then_some(wait));
    outcome(policy, cost, verdict, wait).decided_at(now)
}

/// The outcome of a limit whose block lasts for `wait` microseconds.
fn outcome(policy: &Policy, cost: u64, verdict: Verdict, wait: u64) -> Outcome {
    let numbers = Numbers { limit: policy.capacity(), cost, remaining: 0, reset_after_us: wait, verdict };
    Outcome::from_numbers(numbers).with_next_unit_after_us(wait)
}

/// Decides about a group of limits at one instant: all are charged, or none is.
///
/// Members that share a state are each decided with the sum of their costs, and the state is charged that sum once. Shadow
/// members do not decide whether the group is admitted; their state is charged if the sum fits each of them. They share no state
/// with an enforced member. This is the whole of a decision; a store adds that no other decision about these states comes between.
///
/// Every state must have been made by [`State::new`] for a policy with the same algorithm, window and sub-windows. Panics if
/// the index of a member's state is out of bounds.
pub(crate) fn decide(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    let is_turn = matches!(members, [member] if member.policy.has_turns(member.shadow));
    let operation = match operation {
        Operation::Wait { .. } if !is_turn => Operation::Check,
        operation => operation,
    };
    // Under each policy, which may cut the block.
    let held = members.iter().filter(|member| states[member.state].hold(member.policy, now).is_some());
    if held.count() > 0 {
        return decide_beside_blocks(members, states, now, operation);
    }
    let outcome = group::decide(members, states, now, operation);
    let may_begin = matches!(operation, Operation::Check | Operation::Judge | Operation::UpTo);
    if may_begin && members.iter().any(|member| member.policy.block_us() > 0) {
        return begin_blocks(members, states, &outcome);
    }
    outcome
}

/// Decides about a group of which blocks hold: the other limits without them, and uncharged if a block denies the group.
#[cold]
fn decide_beside_blocks(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    let ends: SmallVec<[Option<u64>; 2]> =
        members.iter().map(|member| states[member.state].hold(member.policy, now)).collect();
    let is_denied = members.iter().zip(&ends).any(|(member, end)| end.is_some() && !member.shadow);
    let is_up_to = operation == Operation::UpTo;
    // Where not even one unit fits, one is denied.
    let most = if is_denied && is_up_to { 1 } else { u64::MAX };
    let operation = if is_denied && operation.charges() { Operation::Judge } else { operation };
    let others = members.iter().zip(&ends).filter(|(_, end)| end.is_none());
    let others = others.map(|(member, _)| Member { cost: member.cost.min(most), ..*member });
    let others = decide(&others.collect::<SmallVec<[Member<'_>; 2]>>(), states, now, operation);
    let cost_of = |member: &Member<'_>| match others.outcomes().first() {
        Some(other) if is_up_to => other.cost(),
        _ => member.cost.min(most),
    };
    let mut decided = others.outcomes().iter().cloned();
    let held = |(member, end): (&Member<'_>, &Option<u64>)| {
        let sharing = members.iter().filter(|other| other.state == member.state);
        let total = sharing.map(cost_of).fold(0, u64::saturating_add);
        let denial = denial(member.policy, total, now, (*end)?);
        Some(denial.with_cost(cost_of(member)).in_shadow_if(member.shadow))
    };
    let outcomes = members.iter().zip(&ends).filter_map(|limit| held(limit).or_else(|| decided.next()));
    GroupOutcome::decided(now, !is_denied && others.is_allowed(), outcomes.collect())
}

/// Begins the block of each state that denies. Of several policies the shortest: a longer one would not last beyond the next
/// request.
#[cold]
fn begin_blocks(members: &[Member<'_>], states: &mut [State], decided: &GroupOutcome) -> GroupOutcome {
    let (now, told) = (decided.at(), decided.outcomes());
    let mut outcomes: SmallVec<[Outcome; 2]> = told.into();
    for (member, _) in members
        .iter()
        .zip(told)
        .filter(|(member, outcome)| member.policy.block_us() > 0 && passes_later(outcome))
    {
        let sharing = || (0..members.len()).filter(|place| members[*place].state == member.state);
        let blocks = sharing().map(|place| members[place].policy.block_us()).filter(|block| *block > 0);
        let wait = blocks.min().unwrap_or(member.policy.block_us());
        states[member.state].0 = Packed::Blocked { until: (now.as_micros() + wait).into() };
        for place in sharing() {
            let (other, told) = (&members[place], &told[place]);
            let verdict = if passes_later(told) { Verdict::RetryAfterMicros(wait) } else { told.verdict() };
            outcomes[place] = outcome(other.policy, told.cost(), verdict, wait).in_shadow_if(other.shadow);
        }
    }
    GroupOutcome::decided(now, decided.is_allowed(), outcomes)
}

/// The same as [`decide`], if a script told of the blocks that begin or are cut, and of no others.
#[cfg(feature = "redis")]
pub(crate) fn decide_as_told(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
    told: &[Effect],
) -> Option<GroupOutcome> {
    let was_blocked: SmallVec<[bool; 2]> =
        states.iter().map(|state| state.blocked_until().is_some()).collect();
    let outcome = decide(members, states, now, operation);
    let agrees = |(place, member): (usize, &Member<'_>)| {
        let until = states[member.state].blocked_until();
        match told.get(place) {
            // One that was found is cut already by what the script told.
            Some(Effect::Blocked(told)) => until == Some(*told),
            _ => until.is_none() || was_blocked[member.state],
        }
    };
    members.iter().enumerate().all(agrees).then_some(outcome)
}

impl State {
    /// The end of the block, if it is one that lasts longer than until `now`. Under `policy` it ends at the latest after its own.
    #[inline]
    fn hold(&mut self, policy: &Policy, now: Timestamp) -> Option<u64> {
        let Packed::Blocked { until } = &mut self.0 else { return None };
        let longest = if policy.block_us() > 0 { policy.block_us() } else { LONGEST_US };
        let end = Some(u64::from(*until)).filter(|end| *end > now.as_micros())?;
        let end = end.min(now.as_micros() + longest);
        *until = end.into();
        Some(end)
    }

    /// The end of a block, if the state is one.
    #[cfg(feature = "redis")]
    pub(crate) fn blocked_until(&self) -> Option<Timestamp> {
        match self.0 {
            Packed::Blocked { until } => Some(Timestamp::from_micros(until.into())),
            _ => None,
        }
    }
}
