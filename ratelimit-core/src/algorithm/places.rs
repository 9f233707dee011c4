//! A decision about a group whose states are in a store: loads each distinct state once, judges, and stores
//! the states that changed.

use smallvec::SmallVec;

use super::shadow::is_one_step;
use super::{Operation, State, judge, judge_check};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;

/// The places where a store keeps states.
pub(crate) trait StatePlaces {
    /// Names the place of one state.
    type Place: Copy + PartialEq;

    /// The state in a place, if there is a state. It is copied for a peek. Otherwise it is taken out, which
    /// moves a long log instead of copying it.
    fn load(&mut self, place: Self::Place, policy: &Policy, operation: Operation) -> Option<State>;

    /// Stores a state.
    fn store(&mut self, place: Self::Place, state: State);
}

/// Judges a group whose states are in `places`, one for each check in their order. Checks with the
/// same place share a state.
pub(crate) fn judge_at<T: StatePlaces>(
    group: &[Check<'_>],
    places: impl Iterator<Item = T::Place>,
    now: Timestamp,
    operation: Operation,
    table: &mut T,
) -> GroupOutcome {
    let mut states: SmallVec<[State; 2]> = SmallVec::new();
    // Place of each state, and whether the state was taken out of it.
    let mut distinct: SmallVec<[(T::Place, bool); 2]> = SmallVec::new();
    let mut indices: SmallVec<[usize; 2]> = SmallVec::new();
    for (place, check) in places.zip(group) {
        let policy = check.policy();
        let known = distinct.iter().position(|&(other, _)| other == place);
        indices.push(known.unwrap_or_else(|| {
            let found = table.load(place, policy, operation);
            distinct.push((place, found.is_some() && operation != Operation::Peek));
            states.push(found.unwrap_or_else(|| State::new(policy)));
            distinct.len() - 1
        }));
    }
    let outcome = judge(group, &indices, &mut states, now, operation);
    let charged = operation.charges() && outcome.is_allowed() || operation == Operation::Overdraw;
    for ((place, taken_out), state) in distinct.into_iter().zip(states) {
        // The state of a new caller is stored only if it was charged.
        if taken_out || charged {
            table.store(place, state);
        }
    }
    outcome
}

impl State {
    /// Decides about one limit at `now`, and charges `cost` units if they fit and the operation is
    /// [`Operation::Check`]; see [`Operation`] for others.
    ///
    /// [`decide_with`](crate::store::toolkit::decide_with) is the same for a group. The state must come from
    /// [`new`](Self::new) for a policy with the same algorithm, window and sub-windows. A peek may advance
    /// the state to `now`, which changes no later decision.
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
        let check = Check::new(policy, "").with_cost(cost);
        if is_one_step(&check, operation) {
            return judge_check(&check, self, now, operation);
        }
        judge(&[check], &[0], std::slice::from_mut(self), now, operation).outcomes()[0].clone()
    }
}
