//! Decisions about a group of limits: the steps of every limit, and then all or nothing.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::judge::{Operation, judge_step, with_next_unit};
use super::state::{State, Unpacked};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::Policy;

/// One enforced limit of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) check: &'a Check<'a>,
    /// Units to charge.
    pub(super) cost: u64,
    /// Index of the state; members with the same policy and partition have the same index.
    pub(super) state: usize,
}

/// Judges a group of enforced limits by their algorithms. Members that share a state are each judged
/// with the sum of their costs.
pub(super) fn judge_steps(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    if operation == Operation::Overdraw {
        overdraw(members, states, now);
        return judge_steps(members, states, now, Operation::Peek);
    }
    if let ([member], [state]) = (members, &mut *states)
        && operation != Operation::UpTo
    {
        let check = &member.check.with_cost(member.cost);
        let outcome = match operation {
            Operation::Wait { at_most_us } => take_turn(check, state, now, at_most_us),
            _ => judge_step::<true>(check, state, now, operation),
        };
        return GroupOutcome::from(outcome);
    }
    let mut group = Group::load(members, states, now.as_micros());
    let units = (operation == Operation::UpTo).then(|| group.take_largest_fit());
    let allowed = group.fits();
    let is_charged = allowed && operation.charges();
    if is_charged {
        group.charge();
    }
    let outcome = GroupOutcome::decided(now, allowed, group.outcomes(units, is_charged));
    for state in group.distinct.into_iter().filter(|state| state.dirty) {
        states[state.index].pack(state.unpacked);
    }
    outcome
}

/// A group while it is judged, at one instant.
struct Group<'a> {
    at: u64,
    members: &'a [Member<'a>],
    distinct: SmallVec<[DistinctState<'a>; 2]>,
    /// For each member, the index of its state in `distinct`.
    indices: SmallVec<[usize; 2]>,
    /// For each member the units that were available before the decision.
    available: SmallVec<[Option<u64>; 2]>,
}

/// A state of a group, with the sum of the costs of all members that share it.
struct DistinctState<'a> {
    /// Index of the state.
    index: usize,
    /// Policy of the first member. The policies of the others differ at most in `max` and in the edges of a
    /// window.
    policy: &'a Policy,
    unpacked: Unpacked,
    /// Number of members that share it.
    members: u64,
    cost: u64,
    /// Whether the state must be packed again even if nothing is charged.
    dirty: bool,
}

impl<'a> Group<'a> {
    /// Unpacks each distinct state and advances it to `at`.
    fn load(members: &'a [Member<'a>], states: &mut [State], at: u64) -> Self {
        let mut distinct: SmallVec<[DistinctState<'a>; 2]> = SmallVec::new();
        let indices = members
            .iter()
            .map(|member| {
                let known = distinct.iter().position(|other| other.index == member.state);
                let index = known.unwrap_or_else(|| {
                    let (mut unpacked, moved_out) = states[member.state].unpack(member.check, at);
                    let dirty = unpacked.step_mut().advance(member.check.policy(), at) || moved_out;
                    let (index, policy) = (member.state, member.check.policy());
                    distinct.push(DistinctState { index, policy, unpacked, members: 0, cost: 0, dirty });
                    distinct.len() - 1
                });
                let state = &mut distinct[index];
                (state.members, state.cost) = (state.members + 1, state.cost.saturating_add(member.cost));
                index
            })
            .collect();
        let mut group = Self { at, members, distinct, indices, available: SmallVec::new() };
        let available = |(member, state): (&Member<'_>, &DistinctState<'_>)| {
            state.unpacked.step().available(member.check.policy(), at)
        };
        group.available = group.members_with_states().map(available).collect();
        group
    }

    /// Each member with its state.
    fn members_with_states(&self) -> impl Iterator<Item = (&'a Member<'a>, &DistinctState<'a>)> {
        self.members.iter().zip(self.indices.iter().map(|index| &self.distinct[*index]))
    }

    /// Replaces the cost of every member by the largest number of units that fits all of them, at most that
    /// cost; members that share a state take it each. The number is 1 if none fits, which is denied. Returns
    /// the number.
    fn take_largest_fit(&mut self) -> u64 {
        let most = self.members.first().map_or(0, |member| member.cost);
        let limits = self.members_with_states().zip(&self.available);
        let fitting = limits.map(|((_, state), available)| available.unwrap_or(0) / state.members);
        let units = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        for state in &mut self.distinct {
            state.cost = units.saturating_mul(state.members);
        }
        units
    }

    /// Whether every member admits the group.
    fn fits(&self) -> bool {
        let mut limits = self.members_with_states().zip(&self.available);
        limits.all(|((_, state), available)| fits(*available, state.cost))
    }

    /// Charges every state.
    fn charge(&mut self) {
        for state in &mut self.distinct {
            state.unpacked.step_mut().charge(state.policy, self.at, state.cost);
            state.dirty = true;
        }
    }

    /// The outcome of every member, after the charge if there was a charge. `units` replaces the cost of each
    /// member, if the group was for as many units as fit.
    fn outcomes(&self, units: Option<u64>, is_charged: bool) -> SmallVec<[Outcome; 1]> {
        let limits = self.members_with_states().zip(&self.available);
        let outcomes = limits.map(|((member, state), available)| {
            let (policy, total, step) = (member.check.policy(), state.cost, state.unpacked.step());
            let at = step.instant(self.at);
            let verdict =
                if fits(*available, total) { Verdict::Allowed } else { step.denial(policy, at, total) };
            let remaining = available.unwrap_or(0) - if is_charged { total } else { 0 };
            let reset_after_us = step.resets_at().saturating_sub(at);
            let (capacity, cost) = (policy.capacity(), units.unwrap_or(member.cost));
            let outcome =
                Outcome::from_numbers(Numbers { capacity, cost, remaining, reset_after_us, verdict })
                    .with_returned_us(step.returned_us())
                    .with_at(Timestamp::from_micros(at));
            if remaining == 0 { with_next_unit(outcome, step, policy, at, total) } else { outcome }
        });
        outcomes.collect()
    }
}

/// Whether the cost is available.
fn fits(available: Option<u64>, cost: u64) -> bool {
    available.is_some_and(|available| cost <= available)
}

/// Charges the members as far as the largest limit goes.
fn overdraw(members: &[Member<'_>], states: &mut [State], now: Timestamp) {
    let at = now.as_micros();
    for member in members {
        let (policy, state) = (member.check.policy(), &mut states[member.state]);
        let (mut unpacked, moved_out) = state.unpack(member.check, at);
        unpacked.step_mut().advance(policy, at);
        let available = unpacked.step().available(&policy.largest(), at).unwrap_or(0);
        let units = member.cost.min(available);
        if units > 0 {
            unpacked.charge_in_debt(policy, at, units, false);
        } else if !moved_out {
            continue; // The peek that follows stores that the clock went back.
        }
        state.pack(unpacked);
    }
}

/// Charges a bucket now for a request that passes after at most `at_most_us`. The `tat` of the bucket only
/// grows by that, so requests are due in the order of these decisions.
fn take_turn(check: &Check<'_>, state: &mut State, now: Timestamp, at_most_us: u64) -> Outcome {
    let (policy, at, cost) = (check.policy(), now.as_micros(), check.cost());
    let peeked = judge_step::<true>(check, state, now, Operation::Peek);
    let wait = match peeked.verdict() {
        Verdict::Allowed => return judge_step::<true>(check, state, now, Operation::Check),
        Verdict::RetryAfterMicros(wait) if wait <= at_most_us => wait,
        _ => return peeked,
    };
    let (mut unpacked, _) = state.unpack(check, at);
    unpacked.step_mut().advance(policy, at);
    let available = unpacked.step().available(&policy.largest(), at);
    if !fits(available, cost) {
        return peeked;
    }
    unpacked.charge_in_debt(policy, at, cost, true);
    state.pack(unpacked);
    // The peek computes the wait for one more unit, as after any other decision.
    judge_step::<true>(&check.with_cost(1), state, now, Operation::Peek).with_cost(cost).due_after_us(wait)
}

impl Unpacked {
    /// Charges units that may exceed what is available, for a turn or a settlement, to a state that was
    /// advanced to `now`. A bucket may be in debt then.
    pub(super) fn charge_in_debt(&mut self, policy: &Policy, now: u64, units: u64, is_turn: bool) {
        self.step_mut().charge(policy, now, units);
        if let Self::TokenBucket(bucket) = self {
            *self = Self::LongBucket((*bucket).into());
        }
        if let Self::LongBucket(bucket) = self {
            bucket.indebted_at = now;
            bucket.has_turns |= is_turn;
        }
    }
}
