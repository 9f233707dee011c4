//! A decision about a group over the slots of a store: loads each distinct state once, decides, and stores what changed.

use smallvec::SmallVec;

use super::{Member, Operation, State, decide};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;

/// The places where a store keeps states.
pub(crate) trait StateSlots {
    /// Names the place of one state.
    type Slot: Copy + PartialEq;

    /// The state in a slot, if there is one: copied for a peek, and otherwise taken out, which moves a long log instead of
    /// copying it.
    fn load(&mut self, slot: Self::Slot, policy: &Policy, operation: Operation) -> Option<State>;

    /// Stores a state.
    fn store(&mut self, slot: Self::Slot, state: State);
}

/// Decides about a group whose states are in `slots`, one for each check in their order. Checks with the same slot share a
/// state.
pub(crate) fn decide_slots<T: StateSlots>(
    group: &[Check<'_>],
    slots: impl Iterator<Item = T::Slot>,
    now: Timestamp,
    operation: Operation,
    table: &mut T,
) -> GroupOutcome {
    let mut states: SmallVec<[State; 2]> = SmallVec::new();
    // Slot of each state, and whether the state was taken out of it.
    let mut distinct: SmallVec<[(T::Slot, bool); 2]> = SmallVec::new();
    let mut members: SmallVec<[Member<'_>; 2]> = SmallVec::new();
    for (slot, check) in slots.zip(group) {
        let policy = check.policy();
        let known = distinct.iter().position(|&(other, _)| other == slot);
        let state = known.unwrap_or_else(|| {
            let found = table.load(slot, policy, operation);
            distinct.push((slot, found.is_some() && operation != Operation::Peek));
            states.push(found.unwrap_or_else(|| State::new(policy)));
            distinct.len() - 1
        });
        members.push(Member { policy, cost: check.cost(), shadow: check.is_shadow(), state });
    }
    let outcome = decide(&members, &mut states, now, operation);
    let charged = operation.charges() && outcome.is_allowed() || operation == Operation::Overdraw;
    for ((slot, taken_out), state) in distinct.into_iter().zip(states) {
        // The state of a new caller is stored only if it was charged.
        if taken_out || charged {
            table.store(slot, state);
        }
    }
    outcome
}
