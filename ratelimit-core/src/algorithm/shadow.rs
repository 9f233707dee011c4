//! Shadow limits: the enforced limits of a group are judged first, without them. Then the shadow limits are
//! judged, depending on that result.
//!
//! A shadow limit never shares a state with an enforced limit. The shadow limits over one state are a group
//! of their own: it is charged if the enforced limits admit the request, and if it fits.

use smallvec::{SmallVec, smallvec};

use super::block::{judge_limit, judge_members};
use super::group::Member;
use super::judge::Operation;
use super::state::State;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Outcome};

/// Places of limits in their group.
type Indices = SmallVec<[usize; 2]>;

/// Judges a check that is alone, in less time than [`judge`]. Slots are not taken: no request holds
/// them.
#[inline]
pub(crate) fn judge_check(
    check: &Check<'_>,
    state: &mut State,
    now: Timestamp,
    operation: Operation,
) -> Outcome {
    let outcome = judge_limit(check, state, now, operation);
    outcome.in_shadow_if(check.is_shadow())
}

/// Whether [`judge_check`] judges as [`judge`] does about the check alone.
#[inline]
pub(super) fn is_one_step(check: &Check<'_>, operation: Operation) -> bool {
    operation.takes_whole_cost() && !check.policy().is_concurrency()
}

/// Judges a group of limits at one instant: all are charged, or none is. `places` has the index of the
/// state of each.
///
/// Checks that share a state are each judged with the sum of their costs, and the state is charged that sum
/// once. Shadow limits do not decide whether the group is admitted; their state is charged if the sum fits
/// each of them. A store only ensures that no other decision about these states runs at the same time.
///
/// Every state must come from [`State::new`] for a policy with the same algorithm, window and sub-windows.
/// Panics if the index of a state is out of bounds.
pub(crate) fn judge(
    group: &[Check<'_>],
    places: &[usize],
    states: &mut [State],
    now: Timestamp,
    operation: Operation,
) -> GroupOutcome {
    if let ([check], [state]) = (group, &mut *states)
        && is_one_step(check, operation)
    {
        return GroupOutcome::from(judge_check(check, state, now, operation));
    }
    let of_enforced = operation.for_group(group);
    let members = |indices: &[usize], units: Option<u64>| -> SmallVec<[Member<'_>; 2]> {
        let member = |&index: &usize| {
            let check = &group[index];
            Member { check, cost: units.unwrap_or(check.cost()), state: places[index] }
        };
        indices.iter().map(member).collect()
    };
    let (mut shadow, enforced): (Indices, Indices) =
        (0..group.len()).partition(|&index| group[index].is_shadow());
    let decided = judge_members(&members(&enforced, None), states, now, of_enforced);
    if shadow.is_empty() {
        return decided;
    }
    let allowed = decided.is_allowed();
    // For as many units as fit, shadow limits are charged the number that the enforced limits admit.
    let units = decided.outcomes().first().map(Outcome::cost).filter(|_| operation == Operation::UpTo);
    let of_shadow = match of_enforced {
        _ if !allowed && operation.charges() => Operation::Judge,
        Operation::UpTo => Operation::Check,
        _ => of_enforced,
    };
    // The shadow limits over each state are judged by themselves.
    let mut parts: SmallVec<[(Indices, GroupOutcome); 2]> = smallvec![(enforced, decided)];
    while let Some(&first) = shadow.first() {
        let sharing: Indices;
        (sharing, shadow) = shadow.into_iter().partition(|&index| places[index] == places[first]);
        let decided = judge_members(&members(&sharing, units), states, now, of_shadow);
        parts.push((sharing, decided.map(|_, outcome| outcome.in_shadow())));
    }
    GroupOutcome::join(group.len(), allowed, parts.iter().map(|(indices, part)| (&indices[..], part)))
}
