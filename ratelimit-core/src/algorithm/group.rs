//! Decisions about a group of limits: the steps of every limit, and then all or nothing.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::block;
use super::decide::{Operation, decide_one, with_next_unit};
use super::state::{State, Unpacked};
use super::step::Step;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{Mode, Policy};

/// One limit of a group, as [`decide`] takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// Policy of the limit.
    pub(crate) policy: &'a Policy,
    /// Units to charge.
    pub(crate) cost: u64,
    /// Whether the limit only reports what it would deny.
    pub(crate) shadow: bool,
    /// Index of the state; members with the same policy and partition have the same index.
    pub(crate) state: usize,
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
    if operation == Operation::Overdraw {
        overdraw(members, states, now);
        return decide(members, states, now, Operation::Peek);
    }
    if let Operation::Wait { at_most_us } = operation {
        return match (members, &mut *states) {
            ([member], [state]) if member.policy.has_turns(member.shadow) => {
                GroupOutcome::from_one(take_turn(member, state, now, at_most_us))
            }
            _ => decide(members, states, now, Operation::Check),
        };
    }
    if operation.takes_whole_cost()
        && let ([member], [state]) = (members, &mut *states)
    {
        let outcome = decide_one(member.policy, member.cost, state, now, operation);
        return GroupOutcome::from_one(outcome.in_shadow_if(member.shadow));
    }
    let mut group = Group::load(members, states, now.as_micros());
    let units = (operation == Operation::UpTo).then(|| group.take_largest_fit());
    let allowed = group.judge(operation);
    group.change(allowed && operation.charges());
    let outcome = GroupOutcome::decided(now, allowed, group.outcomes(units));
    for state in group.distinct.into_iter().filter(|state| state.dirty) {
        states[state.index].pack(state.unpacked);
    }
    outcome
}

/// A group while it is decided, at one instant.
struct Group<'a> {
    at: u64,
    members: &'a [Member<'a>],
    distinct: SmallVec<[DistinctState<'a>; 2]>,
    /// For each member, the index of its state in `distinct`.
    indices: SmallVec<[usize; 2]>,
    /// For each member the units that were available before the decision.
    available: SmallVec<[Option<u64>; 2]>,
}

/// A state of a group, with what all members that share it cost together.
struct DistinctState<'a> {
    /// Index of the state.
    index: usize,
    /// Policy of the first member; those of the others differ at most in `max` and block, and in zone and anchor of a calendar. The
    /// window is that of the first.
    policy: &'a Policy,
    unpacked: Unpacked,
    /// Number of members that share it.
    members: u64,
    cost: u64,
    /// Length of the shortest block of the members, in microseconds. A longer one would not last beyond their next request.
    shortest_block_us: u64,
    /// Whether the cost fits all members.
    has_room: bool,
    change: Change,
    /// Whether the state must be packed again even if nothing is charged.
    dirty: bool,
}

/// What a decision does to a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Charge,
    /// Begins a block.
    Block,
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
                    distinct.push(DistinctState::load(member, states, at));
                    distinct.len() - 1
                });
                distinct[index].join(member, at);
                index
            })
            .collect();
        let mut group = Self { at, members, distinct, indices, available: SmallVec::new() };
        let available = |(member, state): (&Member<'_>, &DistinctState<'_>)| {
            state.unpacked.step().available(member.policy, at)
        };
        group.available = group.members_with_states().map(available).collect();
        group
    }

    /// Each member with its state.
    fn members_with_states(&self) -> impl Iterator<Item = (&'a Member<'a>, &DistinctState<'a>)> {
        self.members.iter().zip(self.indices.iter().map(|index| &self.distinct[*index]))
    }

    /// Replaces the costs by the largest number of units, at most the cost of the members, that fits every enforced member,
    /// with as many units for each member of its state. By 1 if none fits: that is denied. Returns the number.
    fn take_largest_fit(&mut self) -> u64 {
        let most = self.members.first().map_or(0, |member| member.cost);
        let enforced =
            self.members_with_states().zip(&self.available).filter(|((member, _), _)| !member.shadow);
        let fitting = enforced.map(|((_, state), available)| available.unwrap_or(0) / state.members);
        let units = fitting.min().unwrap_or(most).clamp(most.min(1), most);
        for state in &mut self.distinct {
            state.cost = units.saturating_mul(state.members);
        }
        units
    }

    /// Judges every member. Returns whether the enforced ones admit the group.
    fn judge(&mut self, operation: Operation) -> bool {
        let mut allowed = true;
        for ((member, index), available) in self.members.iter().zip(&self.indices).zip(&self.available) {
            let state = &mut self.distinct[*index];
            if !fits(*available, state.cost) {
                allowed &= member.shadow;
                state.has_room = false;
                if operation != Operation::Peek && state.may_be_blocked(member.policy, self.at) {
                    state.change = Change::Block;
                }
            }
        }
        allowed
    }

    /// Charges the states that have room if `charges`, and begins blocks.
    fn change(&mut self, charges: bool) {
        for state in &mut self.distinct {
            if charges && state.has_room {
                state.change = Change::Charge;
                state.unpacked.step_mut().charge(state.policy, self.at, state.cost);
            } else if state.change == Change::Block {
                state.unpacked = Unpacked::Blocked(block::State::begin(self.at, state.shortest_block_us));
            }
            state.dirty |= state.change != Change::Nothing;
        }
    }

    /// The outcome of every member; with the number of units that were charged to each, if it was not its cost.
    fn outcomes(&self, units: Option<u64>) -> SmallVec<[Outcome; 2]> {
        let members = self.members_with_states().zip(&self.available);
        members.map(|((member, state), available)| self.outcome(member, state, *available, units)).collect()
    }

    fn outcome(
        &self,
        member: &Member<'_>,
        state: &DistinctState<'_>,
        available: Option<u64>,
        units: Option<u64>,
    ) -> Outcome {
        let (at, total, step) = (self.at, state.cost, state.unpacked.step());
        let verdict =
            if fits(available, total) { Verdict::Allowed } else { step.denial(member.policy, at, total) };
        let remaining = match (available, state.change) {
            (Some(available), Change::Nothing) => available,
            (Some(available), Change::Charge) => available.saturating_sub(total),
            (None, _) | (_, Change::Block) => 0,
        };
        let reset_after_us = step.resets_at().saturating_sub(at);
        let (limit, cost) = (member.policy.capacity(), units.unwrap_or(member.cost));
        let outcome = Outcome::from_numbers(Numbers { limit, cost, remaining, reset_after_us, verdict })
            .with_given_us(step.given_us())
            .in_shadow_if(member.shadow);
        if remaining == 0 { with_next_unit(outcome, step, member.policy, at, total) } else { outcome }
    }
}

/// Whether the cost is available.
fn fits(available: Option<u64>, cost: u64) -> bool {
    available.is_some_and(|available| cost <= available)
}

impl<'a> DistinctState<'a> {
    /// Unpacks the state of a member and advances it.
    fn load(member: &Member<'a>, states: &mut [State], at: u64) -> Self {
        let (mut unpacked, moved_out) = states[member.state].unpack(member.policy, at);
        let dirty = unpacked.step_mut().advance(member.policy, at);
        Self {
            index: member.state,
            policy: member.policy,
            unpacked,
            members: 0,
            cost: 0,
            shortest_block_us: u64::MAX,
            has_room: true,
            change: Change::Nothing,
            dirty: dirty || moved_out,
        }
    }

    /// Adds a member that counts here.
    fn join(&mut self, member: &Member<'_>, at: u64) {
        self.cost = self.cost.saturating_add(member.cost);
        self.members += 1;
        if member.policy.block_us() > 0 {
            self.shortest_block_us = self.shortest_block_us.min(member.policy.block_us());
        }
        // Each policy has a block of its own.
        if let Unpacked::Blocked(block) = &mut self.unpacked {
            self.dirty |= block.advance(member.policy, at);
        }
    }

    /// Whether a denial, which the cost causes, begins a block: under a policy with one, unless it has begun already, or unless
    /// the cost never passes.
    fn may_be_blocked(&self, policy: &Policy, at: u64) -> bool {
        policy.block_us() > 0
            && !matches!(self.unpacked, Unpacked::Blocked(_))
            && self.unpacked.step().retry_after(policy, at, self.cost).is_some()
    }
}

/// Charges the members as far as the largest limit goes.
fn overdraw(members: &[Member<'_>], states: &mut [State], now: Timestamp) {
    let at = now.as_micros();
    for member in members {
        let state = &mut states[member.state];
        let (mut unpacked, moved_out) = state.unpack(member.policy, at);
        unpacked.step_mut().advance(member.policy, at);
        let available = unpacked.step().available(&member.policy.largest(), at).unwrap_or(0);
        let units = member.cost.min(available);
        if units > 0 {
            unpacked.charge_in_debt(member.policy, at, units);
        } else if !moved_out {
            continue; // The peek that follows stores that the clock went back.
        }
        state.pack(unpacked);
    }
}

/// Charges a bucket now for a request that passes after at most `at_most_us`: its instant only grows, so requests are due in the
/// order of these decisions.
fn take_turn(member: &Member<'_>, state: &mut State, now: Timestamp, at_most_us: u64) -> Outcome {
    let (policy, at, cost) = (member.policy, now.as_micros(), member.cost);
    let peeked = decide_one(policy, cost, state, now, Operation::Peek);
    let wait = match peeked.verdict() {
        Verdict::Allowed => return decide_one(policy, cost, state, now, Operation::Check),
        Verdict::RetryAfterMicros(wait) if wait <= at_most_us => wait,
        _ => return peeked,
    };
    let (mut unpacked, _) = state.unpack(policy, at);
    unpacked.step_mut().advance(policy, at);
    let available = unpacked.step().available(&policy.largest(), at);
    if matches!(unpacked, Unpacked::Blocked(_)) || !fits(available, cost) {
        return peeked;
    }
    unpacked.charge_in_debt(policy, at, cost);
    state.pack(unpacked);
    // What is left for one more unit, as after any other decision.
    decide_one(policy, 1, state, now, Operation::Peek).with_cost(cost).due_after_us(wait)
}

impl Unpacked {
    /// Charges units that may be more than are available, at the instant to which the state is advanced. A bucket is in debt then.
    pub(super) fn charge_in_debt(&mut self, policy: &Policy, now: u64, units: u64) {
        self.step_mut().charge(policy, now, units);
        if let Self::TokenBucket(bucket) = self {
            *self = Self::LongBucket((*bucket).into());
        }
        if let Self::LongBucket(bucket) = self {
            bucket.indebted_at = now;
        }
    }
}

impl State {
    /// Decides about one limit at `now`, and charges `cost` units if they fit and the operation is [`Operation::Check`]; see
    /// [`Operation`] for others.
    ///
    /// [`decide_with`](crate::store::toolkit::decide_with) is the same for a group. The state must have been made by
    /// [`new`](Self::new) for a policy with the same algorithm, window and sub-windows. A peek may advance the state to
    /// `now`, which changes no later decision.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::store::toolkit::{Operation, State};
    /// use ratelimit_core::{Policy, Timestamp};
    ///
    /// let policy = Policy::new("k", 10, Duration::from_secs(60));
    /// let mut state = State::new(&policy);
    /// let outcome = state.decide(&policy, 3, Timestamp::from_micros(1_000_000), Operation::Check);
    /// assert_eq!(outcome.remaining(), 7);
    /// ```
    pub fn decide(&mut self, policy: &Policy, cost: u64, now: Timestamp, operation: Operation) -> Outcome {
        let shadow = policy.mode() == Mode::Shadow;
        if operation.takes_whole_cost() {
            return decide_one(policy, cost, self, now, operation).in_shadow_if(shadow);
        }
        let member = Member { policy, cost, shadow, state: 0 };
        let outcome = decide(&[member], std::slice::from_mut(self), now, operation);
        outcome.outcomes()[0].clone()
    }
}
