//! What a custom store is made of: the decision about a group, over any table of states.
//!
//! A store in this process calls [`decide_with`], [`refund_with`] and [`reset_with`] over a table under its
//! lock: a [`HashMap`], or a [`StateTable`] of its own. A file or a database does three things in a
//! transaction, as `examples/sqlite_store.rs` shows:
//!
//! 1. read the clock, and load the states of the checks, by [`Check::digest`] and [`State::from_bytes`],
//!    into a `HashMap`;
//! 2. decide;
//! 3. write what [`Decided::changed`] names, by [`State::to_bytes`], with [`State::expires_at`]. A denial
//!    writes nothing, unless it begins a block.
//!
//! # Examples
//!
//! A whole store:
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Mutex, PoisonError};
//! use ratelimit_core::clock::{Clock, SystemClock};
//! use ratelimit_core::store::toolkit::{Operation, State, decide_with, refund_with, reset_with};
//! use ratelimit_core::store::{Deadline, Store};
//! use ratelimit_core::{Check, GroupOutcome, Reservation, StoreError};
//!
//! #[derive(Debug)]
//! struct MapStore {
//!     clock: SystemClock,
//!     digest_key: [u8; 16],
//!     states: Mutex<HashMap<u128, State>>,
//! }
//!
//! impl Store for MapStore {
//!     async fn decide(&self, group: &[Check<'_>], operation: Operation, _: Deadline) -> Result<GroupOutcome, StoreError> {
//!         let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
//!         Ok(decide_with(group, operation, self.clock.now(), &self.digest_key, &mut *states).outcome)
//!     }
//!
//!     async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
//!         let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
//!         reset_with(group, self.clock.now(), &self.digest_key, &mut *states);
//!         Ok(())
//!     }
//!
//!     async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
//!         let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
//!         refund_with(reservation, self.clock.now(), &self.digest_key, &mut *states).result
//!     }
//! }
//! ```

use std::collections::HashMap;
use std::hash::BuildHasher;

use smallvec::SmallVec;

pub use crate::algorithm::{Operation, State};
use crate::algorithm::{StatePlaces, judge_at};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::policy::Policy;
use crate::reservation::Reservation;

/// A table of states by digest.
pub trait StateTable {
    /// A copy of the state of a digest, if there is one.
    fn get(&mut self, digest: u128) -> Option<State>;

    /// Takes the state of a digest out of the table, if there is one. A check [puts](Self::put) it back.
    fn take(&mut self, digest: u128) -> Option<State>;

    /// Stores the state of a digest, in place of the one before. The state may be dropped at
    /// [`State::expires_at`].
    fn put(&mut self, digest: u128, state: State);
}

/// A table without a bound: a store has to drop expired states itself.
impl<H: BuildHasher> StateTable for HashMap<u128, State, H> {
    fn get(&mut self, digest: u128) -> Option<State> {
        Self::get(self, &digest).cloned()
    }

    fn take(&mut self, digest: u128) -> Option<State> {
        self.remove(&digest)
    }

    fn put(&mut self, digest: u128, state: State) {
        self.insert(digest, state);
    }
}

/// What [`decide_with`] decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decided {
    /// The outcome of the group.
    pub outcome: GroupOutcome,
    /// Digests of the states that were charged or blocked, or whose instants follow a clock that went back. A
    /// store outside of this process writes these, and no others.
    pub changed: Vec<u128>,
}

/// Decides about a group at one instant, over the states of `table`: all limits are charged, or none is.
///
/// Windows of a calendar begin by `now`, as everything is decided by it. So with a
/// [`SystemClock`](crate::clock::SystemClock) they follow the wall clock as it was set when the process
/// began, and with the clock of a database as it is set now.
///
/// This is a whole [`Store::decide`](super::Store::decide). The store adds that no other
/// decision about these states comes between: it calls this under its lock or in its transaction. A state
/// that occurs twice in the group is decided and charged by the sum.
///
/// A check puts back every state that it has taken, and the state of a new caller only if it is charged. A
/// peek puts nothing. States that differ only by what has expired are not among the
/// [changed](Decided::changed).
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
/// use std::time::Duration;
/// use ratelimit_core::store::toolkit::{Operation, decide_with};
/// use ratelimit_core::{Check, Policy, Timestamp};
///
/// let policy = Policy::new("k", 10, Duration::from_secs(60));
/// let group = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "a")];
/// let mut table = HashMap::new();
/// let now = Timestamp::from_micros(1_000_000);
/// let decided = decide_with(&group, Operation::Check, now, b"16 random bytes.", &mut table);
/// assert!(decided.outcome.is_allowed());
/// assert_eq!(decided.outcome.outcomes()[0].remaining(), 7);
/// assert!(decided.changed.iter().eq(table.keys()));
/// ```
pub fn decide_with(
    group: &[Check<'_>],
    operation: Operation,
    now: Timestamp,
    digest_key: &[u8; 16],
    table: &mut impl StateTable,
) -> Decided {
    let digests = group.iter().map(|check| check.digest(digest_key, now));
    let mut places = TablePlaces { table, now, taken: SmallVec::new(), changed: Vec::new() };
    let outcome = judge_at(group, digests, now, operation, &mut places);
    Decided { outcome, changed: places.changed }
}

/// What [`refund_with`] gave back.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refunded {
    /// [`StoreError::TurnsNotDue`] if a charge [stays](State::keeps): the result for
    /// [`Store::refund`](super::Store::refund).
    pub result: Result<(), StoreError>,
    /// Digests of the states that were changed.
    pub changed: Vec<u128>,
}

/// Refunds the charges of a reservation, as far as they still count: a whole
/// [`Store::refund`](super::Store::refund).
///
/// Call it under the same lock or in a transaction as [`decide_with`], with a `now` of the same clock.
pub fn refund_with(
    reservation: &Reservation<'_>,
    now: Timestamp,
    digest_key: &[u8; 16],
    table: &mut impl StateTable,
) -> Refunded {
    let (mut result, mut changed) = (Ok(()), Vec::new());
    for charge in reservation.charges() {
        let digest = charge.digest(digest_key);
        if let Some(mut state) = table.take(digest) {
            if state.keeps(charge, now) {
                result = Err(StoreError::TurnsNotDue);
            } else if state.refund_charge(charge, now) {
                changed.push(digest);
            }
            table.put(digest, state);
        }
    }
    Refunded { result, changed }
}

/// The same charges, for a store that refunds them after [`Store::refund`](super::Store::refund) has
/// returned. Refund one of both.
pub fn owned<'c>(reservation: &Reservation<'_>) -> Reservation<'c> {
    reservation.copied()
}

/// Drops the state of each check: a whole [`Store::reset`](super::Store::reset).
///
/// The `now` is one of the clock of [`decide_with`].
pub fn reset_with(group: &[Check<'_>], now: Timestamp, digest_key: &[u8; 16], table: &mut impl StateTable) {
    for check in group {
        drop(table.take(check.digest(digest_key, now)));
    }
}

/// A table as places of a decision, which notes what is changed.
struct TablePlaces<'t, T> {
    table: &'t mut T,
    now: Timestamp,
    /// The states that were taken out, as far as a decision changes them.
    taken: SmallVec<[(u128, State); 2]>,
    changed: Vec<u128>,
}

impl<T: StateTable> StatePlaces for TablePlaces<'_, T> {
    type Place = u128;

    fn load(&mut self, digest: u128, _: &Policy, operation: Operation) -> Option<State> {
        if operation == Operation::Peek {
            return self.table.get(digest);
        }
        let state = self.table.take(digest)?;
        self.taken.push((digest, state.mark()));
        Some(state)
    }

    fn store(&mut self, digest: u128, state: State) {
        let before = self.taken.iter().find(|(taken, _)| *taken == digest);
        if before.is_none_or(|(_, before)| *before != state.mark()) && state.expires_at() > self.now {
            self.changed.push(digest);
        }
        self.table.put(digest, state);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::Algorithm;

    const KEY: [u8; 16] = [7; 16];

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + seconds * 1_000_000)
    }

    fn policy(algorithm: Algorithm) -> Policy {
        Policy::builder("k").max(3).window(Duration::from_secs(60)).algorithm(algorithm).build()
    }

    #[test]
    fn a_denied_or_peeked_group_leaves_the_table_as_it_was() {
        for &algorithm in Algorithm::ALL {
            let policy = policy(algorithm);
            let check = |partition: &'static str| Check::new(&policy, partition);
            let mut table = HashMap::new();
            let mut decide = |group: &[Check<'_>], operation| {
                let decided = decide_with(group, operation, at(0), &KEY, &mut table);
                assert_eq!(
                    !decided.changed.is_empty(),
                    decided.outcome.is_allowed() && operation != Operation::Peek
                );
                (decided.outcome.is_allowed(), table.len())
            };
            assert_eq!(decide(&[check("a"), check("b")], Operation::Peek), (true, 0), "{algorithm}");
            assert_eq!(decide(&[check("a").with_cost(3)], Operation::Check), (true, 1), "{algorithm}");
            assert_eq!(
                decide(&[check("b"), check("a")], Operation::Check),
                (false, 1),
                "{algorithm}: b is new"
            );
            assert_eq!(decide(&[check("a")], Operation::Peek), (false, 1), "{algorithm}");
            assert_eq!(decide(&[check("b"), check("c")], Operation::Check), (true, 3), "{algorithm}");
        }
    }

    #[test]
    fn charges_are_refunded_and_states_are_reset() {
        for &algorithm in Algorithm::ALL {
            let policy = policy(algorithm);
            let mut table = HashMap::new();
            let group = [Check::new(&policy, "a").with_cost(2), Check::new(&policy, "a")];
            let remaining = |table: &mut HashMap<u128, State>| {
                let peeked = decide_with(&group[1..], Operation::Peek, at(0), &KEY, table);
                peeked.outcome.outcomes()[0].remaining()
            };
            let Decided { outcome, changed } = decide_with(&group, Operation::Check, at(0), &KEY, &mut table);
            assert!(changed.iter().eq(table.keys()), "{algorithm}: the state that occurs twice, once");
            assert_eq!(remaining(&mut table), 0, "{algorithm}");
            let reservation = outcome.reservation(&group).unwrap();
            let late = refund_with(&reservation, at(3_600), &KEY, &mut table.clone());
            assert!(late.result.is_ok() && late.changed.is_empty(), "{algorithm}");
            assert_eq!(refund_with(&reservation, at(0), &KEY, &mut table).changed, changed, "{algorithm}");
            assert_eq!(remaining(&mut table), 3, "{algorithm}");
            assert!(decide_with(&group, Operation::Check, at(0), &KEY, &mut table).outcome.is_allowed());
            reset_with(&group, at(0), &KEY, &mut table);
            assert!(table.is_empty(), "{algorithm}");
        }
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn a_refund_finds_the_window_of_its_charge() {
        let policy = Policy::builder("k").max(3).calendar(crate::policy::Calendar::day()).build();
        let (group, mut table) = ([Check::new(&policy, "a")], HashMap::new());
        let charged = decide_with(&group, Operation::Check, at(0), &KEY, &mut table);
        let reservation = charged.outcome.reservation(&group).unwrap();
        // From a clock that went back to the day before.
        let now = Timestamp::from_micros(at(0).as_micros() - 86_400_000_000);
        assert_eq!(refund_with(&reservation, now, &KEY, &mut table).changed, charged.changed);
        let left = decide_with(&group, Operation::Peek, at(0), &KEY, &mut table).outcome;
        assert_eq!(left.outcomes()[0].remaining(), 3);
    }

    /// What a store outside of this process leaves out decides nothing later.
    #[test]
    fn only_charges_blocks_and_a_clock_that_went_back_change_a_state() {
        for &algorithm in Algorithm::ALL {
            let (policy, wide) =
                (policy(algorithm), Policy::builder("wide").max(9).algorithm(algorithm).build());
            let blocking =
                Policy::builder("b").max(1).algorithm(algorithm).block(Duration::from_secs(600)).build();
            let mut table = HashMap::new();
            let mut changed = |group: &[Check<'_>], seconds| {
                decide_with(group, Operation::Check, at(seconds), &KEY, &mut table).changed.len()
            };
            let [check, other] = [&policy, &wide].map(|policy| Check::new(policy, "a"));
            // The first instant of a window.
            assert_eq!(changed(&[check, other], 3_640), 2, "{algorithm}: charged");
            assert_eq!(changed(&[check.with_cost(2)], 3_650), 1, "{algorithm}: charged");
            assert_eq!(changed(&[other, check.with_cost(3)], 3_690), 0, "{algorithm}: denied");
            assert_eq!(changed(&[other.with_cost(10)], 3_690), 0, "{algorithm}: never passes");
            if algorithm == Algorithm::SlidingWindowLog {
                assert_eq!(
                    changed(&[check.with_cost(3)], 3_701),
                    0,
                    "denied, and the first entry has expired"
                );
            }
            assert_eq!(
                changed(&[check.with_cost(3)], 3_600),
                1,
                "{algorithm}: denied, and the clock went back"
            );
            let blocking = [Check::new(&blocking, "a")];
            let blocks = [3_600, 3_600, 3_601].map(|seconds| changed(&blocking, seconds));
            assert_eq!(blocks, [1, 1, 0], "{algorithm}: a block begins once");
        }
    }
}
