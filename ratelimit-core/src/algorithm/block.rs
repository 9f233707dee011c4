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
//! A decision looks first whether the state is blocked. The algorithms know no blocks: they judge only if it
//! is not. A denial by the algorithm may begin a block.
//!
//! The block replaces the counts. From `until` on, the state is that of a new caller. Neither a denial nor a
//! refund changes it. A request cuts a block that is too long, because the clock went back or because a
//! policy with a longer block shares the counts: it then ends one block of the request's policy after `now`.
//! If that policy has no block, the longest window takes its place.
//!
//! Twin: `lua/open.lua` and, where a block begins, `lua/judge.lua`, with the state in 8 bytes: `b`, `until`
//! (7 bytes).

use smallvec::SmallVec;

use super::group::{Member, judge_steps};
use super::judge::{Operation, judge_step};
use super::state::{Packed, State};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{MAX_WINDOW, Policy};

/// Longest block of any policy, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = MAX_WINDOW.as_micros() as u64;

/// Judges one limit, by its block or by its algorithm. Slots are not taken.
#[inline]
pub(super) fn judge_limit(
    check: &Check<'_>,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    let (policy, cost) = (check.policy(), check.cost());
    if let Some(until) = state.cut_block(policy, now) {
        return denial(policy, cost, now, until);
    }
    let outcome = judge_step::<false>(check, state, now, operation);
    if policy.block_us() > 0 && operation != Operation::Peek && passes_later(&outcome) {
        return denial(policy, cost, now, state.begin_block(now, policy.block_us()));
    }
    outcome
}

/// Whether a denial may begin a block: a cost that never passes begins none.
const fn passes_later(outcome: &Outcome) -> bool {
    matches!(outcome.verdict(), Verdict::RetryAfterMicros(_))
}

/// The denial of a cost during a block.
#[cold]
fn denial(policy: &Policy, cost: u64, now: Timestamp, until: u64) -> Outcome {
    let wait = until - now.as_micros();
    let verdict = Verdict::denied((cost <= policy.capacity()).then_some(wait));
    outcome(policy, cost, verdict, wait).with_at(now)
}

/// The outcome of a limit whose block lasts for `wait` microseconds.
fn outcome(policy: &Policy, cost: u64, verdict: Verdict, wait: u64) -> Outcome {
    let numbers = Numbers { capacity: policy.capacity(), cost, remaining: 0, reset_after_us: wait, verdict };
    Outcome::from_numbers(numbers).with_next_unit_after_us(wait)
}

/// Judges a group of enforced limits, by their blocks or by their algorithms.
pub(super) fn judge_members(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    // Counts all members instead of stopping at the first: each policy may cut the block.
    let blocked =
        members.iter().filter(|member| states[member.state].cut_block(member.check.policy(), now).is_some());
    if blocked.count() > 0 {
        return deny(members, states, now, operation);
    }
    let outcome = judge_steps(members, states, now, operation);
    let may_begin = matches!(operation, Operation::Check | Operation::Judge | Operation::UpTo);
    let begins = |(member, outcome): (&Member<'_>, &Outcome)| {
        member.check.policy().block_us() > 0 && passes_later(outcome)
    };
    if may_begin && members.iter().zip(outcome.outcomes()).any(begins) {
        return begin_blocks(members, states, &outcome);
    }
    outcome
}

/// Denies a group with blocked limits. The limits that are not blocked are judged without them.
#[cold]
fn deny(members: &[Member<'_>], states: &mut [State], now: Timestamp, operation: Operation) -> GroupOutcome {
    // If as many units as fit are requested, the outcome is the denial of one unit.
    let most = if operation == Operation::UpTo { 1 } else { u64::MAX };
    let operation = if operation.charges() { Operation::Judge } else { operation };
    let members: SmallVec<[Member<'_>; 2]> =
        members.iter().map(|member| Member { cost: member.cost.min(most), ..*member }).collect();
    let ends: SmallVec<[Option<u64>; 2]> =
        members.iter().map(|member| states[member.state].cut_block(member.check.policy(), now)).collect();
    let others = members.iter().zip(&ends).filter(|(_, end)| end.is_none()).map(|(member, _)| *member);
    let others = judge_members(&others.collect::<SmallVec<[Member<'_>; 2]>>(), states, now, operation);
    let mut others = others.outcomes().iter().cloned();
    let blocked = |(member, end): (&Member<'_>, &Option<u64>)| {
        let sharing = members.iter().filter(|other| other.state == member.state);
        let total = sharing.map(|other| other.cost).fold(0, u64::saturating_add);
        Some(denial(member.check.policy(), total, now, (*end)?).with_cost(member.cost))
    };
    let outcomes = members.iter().zip(&ends).filter_map(|limit| blocked(limit).or_else(|| others.next()));
    GroupOutcome::decided(now, false, outcomes.collect())
}

/// Begins a block in each state that denies. If policies that share the state have blocks of several lengths,
/// the shortest begins: the next request would cut a longer one.
#[cold]
fn begin_blocks(members: &[Member<'_>], states: &mut [State], decided: &GroupOutcome) -> GroupOutcome {
    let (now, before) = (decided.at(), decided.outcomes());
    let mut outcomes: SmallVec<[Outcome; 1]> = before.into();
    for (member, denial) in members.iter().zip(before) {
        if member.check.policy().block_us() == 0 || !passes_later(denial) {
            continue;
        }
        let sharing = || (0..members.len()).filter(|place| members[*place].state == member.state);
        let blocks =
            sharing().map(|place| members[place].check.policy().block_us()).filter(|block| *block > 0);
        let wait = blocks.min().unwrap_or_default();
        let _ = states[member.state].begin_block(now, wait);
        for place in sharing() {
            let (policy, before) = (members[place].check.policy(), &before[place]);
            let verdict =
                if passes_later(before) { Verdict::RetryAfterMicros(wait) } else { before.verdict() };
            outcomes[place] = outcome(policy, before.cost(), verdict, wait).with_at(now);
        }
    }
    GroupOutcome::decided(now, decided.is_allowed(), outcomes)
}

impl State {
    /// Begins a block, and returns its end.
    #[cold]
    fn begin_block(&mut self, now: Timestamp, block_us: u64) -> u64 {
        let until = now.as_micros() + block_us;
        self.0 = Packed::Blocked { until: until.into() };
        until
    }

    /// The end of the block, if the state is a block that is not over at `now`. Cuts the block to the longest
    /// that `policy` allows.
    #[inline]
    fn cut_block(&mut self, policy: &Policy, now: Timestamp) -> Option<u64> {
        let Packed::Blocked { until } = &mut self.0 else { return None };
        let longest = if policy.block_us() > 0 { policy.block_us() } else { LONGEST_US };
        let end = Some(u64::from(*until)).filter(|end| *end > now.as_micros())?;
        let end = end.min(now.as_micros() + longest);
        *until = end.into();
        Some(end)
    }

    /// The end of the block, if the state is a block.
    #[cfg(feature = "redis")]
    pub(crate) fn blocked_until(&self) -> Option<Timestamp> {
        match self.0 {
            Packed::Blocked { until } => Some(Timestamp::from_micros(until.into())),
            _ => None,
        }
    }
}
