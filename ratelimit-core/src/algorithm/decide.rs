//! Decisions: the steps of every limit of a group, and then all or nothing.

use smallvec::SmallVec;

use super::block;
use super::state::{State, Unpacked, each};
use super::step::Step;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{Mode, Policy};

/// Whether a decision charges what it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// An admitted group is charged. A limit with a [block](Policy::block) that denies it begins the block.
    Check,
    /// Nothing is charged and no block begins; apart from that, the outcome is that of a check at the same instant.
    Peek,
    /// The check of a part of a group of which another part is denied: nothing is charged, but blocks begin.
    Judge,
    /// Charges every limit of an admitted group the same number of units: as many as fit, and at most the cost of the checks,
    /// which is the same for all. If not even one unit fits, the outcome is the denial of one.
    UpTo,
    /// Charges every limit although it may not fit, up to the [largest limit](crate::RateLimiter::settle); nothing during a
    /// block. The outcome is that of a peek afterwards.
    Overdraw,
}

impl Operation {
    /// Whether an admitted group is charged.
    pub(crate) const fn charges(self) -> bool {
        matches!(self, Self::Check | Self::UpTo)
    }

    /// Whether the units are those of the check. Then one limit is decided by [`decide_one`].
    pub(crate) const fn takes_whole_cost(self) -> bool {
        matches!(self, Self::Check | Self::Peek | Self::Judge)
    }
}

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
/// members do not decide whether the group is admitted; a state of shadow members is charged if the sum fits each of them.
/// This is the whole of a decision; a store adds that no other decision about these states comes between.
///
/// Every state must have been made by [`State::new`] for a policy with the same algorithm, window and sub-windows. Panics if
/// the index of a member's state is out of bounds.
pub(crate) fn decide(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    let at = now.as_micros();
    if operation == Operation::Overdraw {
        overdraw(members, states, now);
        return decide(members, states, now, Operation::Peek);
    }
    if operation.takes_whole_cost()
        && let ([member], [state]) = (members, &mut *states)
    {
        let outcome = decide_one(member.policy, member.cost, state, now, operation);
        return GroupOutcome::from_one(outcome.in_shadow_if(member.shadow));
    }
    let (mut distinct, indices) = distinct_states(members, states, at);
    let available: SmallVec<[Option<u64>; 2]> = members
        .iter()
        .zip(&indices)
        .map(|(member, index)| distinct[*index].unpacked.step().available(member.policy, at))
        .collect();
    let units = (operation == Operation::UpTo).then(|| {
        let units = largest_fit(members, &indices, &available, &distinct);
        distinct.iter_mut().for_each(|state| state.cost = units.saturating_mul(state.members));
        units
    });
    let fits = |available: Option<u64>, cost: u64| available.is_some_and(|available| cost <= available);
    let mut allowed = true;
    for ((member, index), available) in members.iter().zip(&indices).zip(&available) {
        let state = &mut distinct[*index];
        // Where a shadow member shares its state with an enforced one, the latter decides.
        if (!member.shadow || !state.is_enforced) && !fits(*available, state.cost) {
            allowed &= member.shadow;
            state.has_room = false;
            if operation != Operation::Peek && state.unpacked.may_be_blocked(member.policy, at, state.cost) {
                state.block_us = state.block_us.max(member.policy.block_us());
            }
        }
    }
    for state in &mut distinct {
        if allowed && operation.charges() && state.has_room {
            state.unpacked.step_mut().charge(state.policy, at, state.cost);
            (state.is_charged, state.dirty) = (true, true);
        } else if state.block_us > 0 {
            state.unpacked = Unpacked::Blocked(block::State::begin(at, state.block_us));
            state.dirty = true;
        }
    }
    let outcomes = members.iter().zip(&indices).zip(&available).map(|((member, index), available)| {
        let state = &distinct[*index];
        let (cost, step) = (state.cost, state.unpacked.step());
        let verdict = if fits(*available, cost) {
            Verdict::Allowed
        } else {
            Verdict::denied(step.retry_after(member.policy, at, cost))
        };
        let remaining = match available {
            Some(available) if state.block_us == 0 => {
                available.saturating_sub(if state.is_charged { cost } else { 0 })
            }
            _ => 0,
        };
        let reset_after_us = step.resets_at().saturating_sub(at);
        let (limit, units) = (member.policy.capacity(), units.unwrap_or(member.cost));
        let outcome =
            Outcome::from_numbers(Numbers { limit, cost: units, remaining, reset_after_us, verdict })
                .in_shadow_if(member.shadow);
        if remaining == 0 { with_next_unit(outcome, step, member.policy, at, cost) } else { outcome }
    });
    let outcome = GroupOutcome::decided(now, allowed, outcomes.collect());
    for state in distinct {
        if state.dirty {
            states[state.index].pack(state.unpacked);
        }
    }
    outcome
}

/// The distinct states of a group, advanced to `at`, and for each member the index of its state among them.
fn distinct_states<'a>(
    members: &[Member<'a>],
    states: &mut [State],
    at: u64,
) -> (SmallVec<[DistinctState<'a>; 2]>, SmallVec<[usize; 2]>) {
    let mut distinct: SmallVec<[DistinctState<'a>; 2]> = SmallVec::new();
    let indices: SmallVec<[usize; 2]> = members
        .iter()
        .map(|member| {
            let known = distinct.iter().position(|other| other.index == member.state);
            let index = known.unwrap_or_else(|| {
                let (unpacked, dirty) = states[member.state].unpack(member.policy, at);
                distinct.push(DistinctState {
                    index: member.state,
                    policy: member.policy,
                    unpacked,
                    members: 0,
                    cost: 0,
                    is_enforced: false,
                    has_room: true,
                    is_charged: false,
                    block_us: 0,
                    dirty,
                });
                distinct.len() - 1
            });
            distinct[index].cost = distinct[index].cost.saturating_add(member.cost);
            distinct[index].members += 1;
            distinct[index].is_enforced |= !member.shadow;
            index
        })
        .collect();
    for state in &mut distinct {
        state.dirty |= state.unpacked.step_mut().advance(state.policy, at);
    }
    for (member, index) in members.iter().zip(&indices) {
        let DistinctState { unpacked, dirty, .. } = &mut distinct[*index];
        // Each policy has a block of its own.
        if let Unpacked::Blocked(block) = unpacked {
            *dirty |= block.advance(member.policy, at);
        }
    }
    (distinct, indices)
}

/// A state of a group, with what all members that share it cost together.
#[allow(clippy::struct_excessive_bools, reason = "independent findings about one state")]
struct DistinctState<'a> {
    /// Index of the state.
    index: usize,
    /// Policy of the first member; those of the others differ at most in `max`.
    policy: &'a Policy,
    unpacked: Unpacked,
    /// Number of members that share it.
    members: u64,
    cost: u64,
    /// Whether an enforced member counts here.
    is_enforced: bool,
    /// Whether the cost fits the members that matter: the enforced ones, or without any all.
    has_room: bool,
    is_charged: bool,
    /// Length of the block that begins now, in microseconds; 0 for none.
    block_us: u64,
    /// Whether the state must be packed again even if nothing is charged.
    dirty: bool,
}

/// The largest number of units, at most the cost of the members, that fits every enforced member, with as many units for each
/// member of its state. 1 if none fits: that is denied.
fn largest_fit(
    members: &[Member<'_>],
    indices: &[usize],
    available: &[Option<u64>],
    distinct: &[DistinctState<'_>],
) -> u64 {
    let most = members.first().map_or(0, |member| member.cost);
    let enforced = members.iter().zip(indices).zip(available).filter(|((member, _), _)| !member.shadow);
    let fitting = enforced.map(|((_, index), available)| available.unwrap_or(0) / distinct[*index].members);
    fitting.min().unwrap_or(most).clamp(most.min(1), most)
}

/// Charges the members as far as the largest limit goes.
fn overdraw(members: &[Member<'_>], states: &mut [State], now: Timestamp) {
    let at = now.as_micros();
    for member in members {
        let state = &mut states[member.state];
        let (mut unpacked, moved_out) = state.unpack(member.policy, at);
        let dirty = unpacked.step_mut().advance(member.policy, at);
        if let Some(available) = unpacked.step().available(&member.policy.largest(), at) {
            unpacked.charge_in_debt(member.policy, at, member.cost.min(available));
        } else if !dirty && !moved_out {
            continue;
        }
        state.pack(unpacked);
    }
}

impl Unpacked {
    /// Charges units that may be more than are available.
    pub(super) fn charge_in_debt(&mut self, policy: &Policy, now: u64, units: u64) {
        self.step_mut().charge(policy, now, units);
        if let Self::TokenBucket(bucket) = self {
            bucket.indebted_at = now;
        }
    }

    /// Whether a denial of `cost`, which does not fit, begins a block: under a policy with one, unless it has begun already, or
    /// unless the cost never passes.
    fn may_be_blocked(&self, policy: &Policy, now: u64, cost: u64) -> bool {
        policy.block_us() > 0
            && !matches!(self, Self::Blocked(_))
            && self.step().retry_after(policy, now, cost).is_some()
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

/// Decides about one limit: the same as [`decide`] about a group of one enforced limit, in less time.
pub(crate) fn decide_one(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    let at = now.as_micros();
    let (unpacked, moved_out) = state.unpack(policy, at);
    // A cost that never passes begins no block, and a block begins only once.
    let may_block = operation != Operation::Peek && !matches!(unpacked, Unpacked::Blocked(_));
    each!(unpacked, step => decide_step(step, policy, at, cost, operation), (outcome, dirty) => {
        if outcome.retry_after().is_some() && may_block && policy.block_us() > 0 {
            return begin_block(policy, cost, state, now);
        }
        if dirty || moved_out {
            state.pack(unpacked);
        }
        outcome.decided_at(now)
    })
}

/// Replaces a state that denies by a block.
#[cold]
fn begin_block(policy: &Policy, cost: u64, state: &mut State, now: Timestamp) -> Outcome {
    let mut block = block::State::begin(now.as_micros(), policy.block_us());
    let (outcome, _) = decide_step(&mut block, policy, now.as_micros(), cost, Operation::Judge);
    state.pack(block);
    outcome.decided_at(now)
}

/// The steps of a decision about one limit. Returns the outcome, and whether the state must be stored.
#[inline]
fn decide_step(
    state: &mut impl Step,
    policy: &Policy,
    now: u64,
    cost: u64,
    operation: Operation,
) -> (Outcome, bool) {
    let mut dirty = state.advance(policy, now);
    let available = state.available(policy, now);
    let mut remaining = available.unwrap_or(0);
    let verdict = if available.is_some_and(|available| cost <= available) {
        if operation == Operation::Check {
            state.charge(policy, now, cost);
            remaining -= cost;
            dirty = true;
        }
        Verdict::Allowed
    } else {
        Verdict::denied(state.retry_after(policy, now, cost))
    };
    let reset_after_us = state.resets_at().saturating_sub(now);
    let limit = policy.capacity();
    let mut outcome = Outcome::from_numbers(Numbers { limit, cost, remaining, reset_after_us, verdict });
    if remaining == 0 {
        outcome = with_next_unit(outcome, state, policy, now, cost);
    }
    (outcome, dirty)
}

/// Adds the wait for one more unit to an outcome of which nothing remains, after a decision about `cost`.
#[cold]
fn with_next_unit(outcome: Outcome, state: &dyn Step, policy: &Policy, now: u64, cost: u64) -> Outcome {
    let wait = match outcome.verdict() {
        // This wait is known already.
        Verdict::RetryAfterMicros(wait) if cost == 1 => Some(wait),
        Verdict::RetryAfterMicros(_) | Verdict::Allowed | Verdict::Never => state.retry_after(policy, now, 1),
    };
    match wait {
        Some(wait) => outcome.with_next_unit_after_us(wait),
        // Does not happen: every policy admits one unit at some time.
        None => outcome,
    }
}
