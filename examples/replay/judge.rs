//! The decisions: the states of all callers, about which the function of the stores decides.
//!
//! A store would read its own clock. Here the clock is that of the log, so this is the part of a store below the clock: a table of
//! states, `decide_with` and `refund_with`. States that have expired are dropped, so the table has the callers of the present windows.

use std::collections::HashMap;

use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with};
use ratelimit_core::{Check, GroupOutcome, Timestamp};

/// Key of the digests that stand for callers. A store has a secret one; the result of a replay should not be random.
pub(crate) const DIGEST_KEY: [u8; 16] = *b"not a secret key";

/// Fewest decisions between two sweeps.
const MIN_SWEEP: usize = 1024;

/// The states of all callers.
#[derive(Debug)]
pub(crate) struct Judge {
    states: HashMap<u128, State>,
    max_states: usize,
    since_sweep: usize,
}

impl Judge {
    /// For up to `max_states` states that count at a time.
    pub(crate) fn new(max_states: usize) -> Self {
        Self { states: HashMap::new(), max_states, since_sweep: 0 }
    }

    /// Decides about the limits of one request, and charges all of them or none. `None` if there is no room for another caller.
    pub(crate) fn check(&mut self, group: &[Check<'_>], now: Timestamp) -> Option<GroupOutcome> {
        self.since_sweep += 1;
        let len = self.states.len();
        let is_full = |len: usize| len + group.len() > self.max_states;
        // Each sweep takes as long as the table, so they take constant time per decision on average.
        if self.since_sweep > MIN_SWEEP.max(if is_full(len) { len / 16 } else { len / 2 }) {
            self.states.retain(|_, state| state.expires_at() > now);
            self.since_sweep = 0;
        }
        let is_known = |check: &Check<'_>| self.states.contains_key(&check.digest(&DIGEST_KEY));
        if is_full(self.states.len()) && !group.iter().all(is_known) {
            return None;
        }
        Some(decide_with(group, Operation::Check, now, &DIGEST_KEY, &mut self.states).outcome)
    }

    /// Gives back what the limit with this name was charged, for an answer that does not count. The name finds one charge:
    /// no two limits of a file have the same name or the same counts.
    pub(crate) fn refund(&mut self, group: &[Check<'_>], outcome: &GroupOutcome, name: &str) {
        let reservation = outcome.reservation(group);
        if let Some(of_limit) = reservation.and_then(|reservation| reservation.limit(name)) {
            refund_with(&of_limit, outcome.at(), &DIGEST_KEY, &mut self.states);
        }
    }
}
