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
//! Every decision asks here whether a block holds, and only then the algorithm, which knows of none. A denial
//! by the algorithm may begin a block.
//!
//! The block replaces the counts. From `until` on, the state is that of a new caller. Neither a denial nor a
//! refund changes it. Under every policy a block ends at the latest one block of that policy after `now`: a
//! request shortens a block that the clock, which went back, or another policy over the same counts made
//! longer. Under a policy without a block of its own, which obeys that of another policy, it ends at the
//! latest after the longest window.
//!
//! Twin: `lua/open.lua` and, where a block begins, `lua/judge.lua`, with the state in 8 bytes: `b`, `until`
//! (7 bytes).

use smallvec::SmallVec;

use super::decide::{self, Operation};
use super::group::{self, Member};
use super::state::{Packed, State};
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{MAX_WINDOW, Policy};

/// Longest block of any policy, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = MAX_WINDOW.as_micros() as u64;

/// Decides about one limit. Slots are not taken.
#[inline]
pub(super) fn decide_one(
    policy: &Policy,
    cost: u64,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    if let Some(until) = state.hold(policy, now) {
        return denial(policy, cost, now, until);
    }
    let outcome = decide::decide_one::<false>(policy, cost, state, now, operation);
    if policy.block_us() > 0 && operation != Operation::Peek && passes_later(&outcome) {
        return denial(policy, cost, now, state.begin(now, policy.block_us()));
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
    outcome(policy, cost, verdict, wait).decided_at(now)
}

/// The outcome of a limit whose block lasts for `wait` microseconds.
fn outcome(policy: &Policy, cost: u64, verdict: Verdict, wait: u64) -> Outcome {
    let numbers = Numbers { limit: policy.capacity(), cost, remaining: 0, reset_after_us: wait, verdict };
    Outcome::from_numbers(numbers).with_next_unit_after_us(wait)
}

/// Decides about a group of enforced limits.
pub(super) fn decide(
    members: &[Member<'_>],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    // Under each policy, which may cut the block.
    let held = members.iter().filter(|member| states[member.state].hold(member.policy, now).is_some());
    if held.count() > 0 {
        return deny(members, states, now, operation);
    }
    let outcome = group::decide(members, states, now, operation);
    let may_begin = matches!(operation, Operation::Check | Operation::Judge | Operation::UpTo);
    let begins =
        |(member, outcome): (&Member<'_>, &Outcome)| member.policy.block_us() > 0 && passes_later(outcome);
    if may_begin && members.iter().zip(outcome.outcomes()).any(begins) {
        return begin_blocks(members, states, &outcome);
    }
    outcome
}

/// Decides about a group of which blocks hold: it is denied, and the other limits are judged without them.
#[cold]
fn deny(members: &[Member<'_>], states: &mut [State], now: Timestamp, operation: Operation) -> GroupOutcome {
    // Where not even one unit fits, one is denied.
    let most = if operation == Operation::UpTo { 1 } else { u64::MAX };
    let operation = if operation.charges() { Operation::Judge } else { operation };
    let members: SmallVec<[Member<'_>; 2]> =
        members.iter().map(|member| Member { cost: member.cost.min(most), ..*member }).collect();
    let ends: SmallVec<[Option<u64>; 2]> =
        members.iter().map(|member| states[member.state].hold(member.policy, now)).collect();
    let others = members.iter().zip(&ends).filter(|(_, end)| end.is_none()).map(|(member, _)| *member);
    let others = decide(&others.collect::<SmallVec<[Member<'_>; 2]>>(), states, now, operation);
    let mut others = others.outcomes().iter().cloned();
    let held = |(member, end): (&Member<'_>, &Option<u64>)| {
        let sharing = members.iter().filter(|other| other.state == member.state);
        let total = sharing.map(|other| other.cost).fold(0, u64::saturating_add);
        Some(denial(member.policy, total, now, (*end)?).with_cost(member.cost))
    };
    let outcomes = members.iter().zip(&ends).filter_map(|limit| held(limit).or_else(|| others.next()));
    GroupOutcome::decided(now, false, outcomes.collect())
}

/// Begins the block of each state that denies. Of several policies the shortest: a longer one would not last
/// beyond the next request.
#[cold]
fn begin_blocks(members: &[Member<'_>], states: &mut [State], decided: &GroupOutcome) -> GroupOutcome {
    let (now, told) = (decided.at(), decided.outcomes());
    let mut outcomes: SmallVec<[Outcome; 2]> = told.into();
    for (member, denial) in members.iter().zip(told) {
        if member.policy.block_us() == 0 || !passes_later(denial) {
            continue;
        }
        let sharing = || (0..members.len()).filter(|place| members[*place].state == member.state);
        let blocks = sharing().map(|place| members[place].policy.block_us()).filter(|block| *block > 0);
        let wait = blocks.min().unwrap_or_default();
        let _ = states[member.state].begin(now, wait);
        for place in sharing() {
            let (policy, told) = (members[place].policy, &told[place]);
            let verdict = if passes_later(told) { Verdict::RetryAfterMicros(wait) } else { told.verdict() };
            outcomes[place] = outcome(policy, told.cost(), verdict, wait).decided_at(now);
        }
    }
    GroupOutcome::decided(now, decided.is_allowed(), outcomes)
}

impl State {
    /// Begins a block, and returns its end.
    #[cold]
    fn begin(&mut self, now: Timestamp, block_us: u64) -> u64 {
        let until = now.as_micros() + block_us;
        self.0 = Packed::Blocked { until: until.into() };
        until
    }

    /// The end of the block, if it is one that lasts longer than until `now`. Under `policy` it ends at the
    /// latest after its own.
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
