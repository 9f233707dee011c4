//! Finds the counters of a limit.
//!
//! A request finds them without a lock by the fingerprint of its policy's states, which is a part of the
//! policy, and compares the name. So no name is hashed. An entry is written once and never changes. Beyond
//! 2,048 states, as token buckets with many different numbers have, a request looks the name up under a lock
//! that readers share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use super::counts::LimitCounts;
use crate::policy::Policy;

/// Number of entries: one for each policy with states of its own.
const PLACES: usize = 2_048;

/// Entries that a request looks at before it takes the lock.
const PROBES: usize = 16;

/// Maximum number of names. Policies that are made at run time may have any number.
const MAX_LIMITS: usize = 1_000;

/// Name of the counters of all limits beyond that. A policy cannot have it.
const OTHERS: &str = "all others";

/// The counters of all limits.
#[derive(Debug)]
pub(super) struct LimitTable {
    places: Box<[OnceLock<KnownState>]>,
    by_name: RwLock<HashMap<String, Arc<LimitCounts>>>,
}

#[derive(Debug)]
struct KnownState {
    state_id: u64,
    limit: Arc<LimitCounts>,
}

impl LimitTable {
    pub(super) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| OnceLock::new()).collect(), by_name: RwLock::default() }
    }

    /// Runs `use_limit` with the counters of this policy's name.
    #[inline]
    pub(super) fn with<T>(&self, policy: &Policy, use_limit: impl FnOnce(&Arc<LimitCounts>) -> T) -> T {
        for place in self.probe(policy) {
            match place.get() {
                Some(entry) if entry.state_id == policy.state_id() && entry.limit.name() == policy.name() => {
                    return use_limit(&entry.limit);
                }
                Some(_) => {}
                None => return use_limit(&self.enter(policy)),
            }
        }
        let known = self.known(policy);
        use_limit(&known.unwrap_or_else(|| self.enter(policy)))
    }

    /// The counters of a name for whose states there is no place.
    #[cold]
    fn known(&self, policy: &Policy) -> Option<Arc<LimitCounts>> {
        let by_name = self.by_name.read();
        by_name.get(policy.name()).or_else(|| by_name.get(OTHERS)).map(Arc::clone)
    }

    /// The places in which the entry of a policy may be, in order.
    #[inline]
    fn probe(&self, policy: &Policy) -> impl Iterator<Item = &OnceLock<KnownState>> {
        #[allow(clippy::cast_possible_truncation, reason = "any bits of a fingerprint will do")]
        let first = policy.state_id() as usize;
        (0..PROBES).map(move |probe| &self.places[first.wrapping_add(probe) % PLACES])
    }

    /// Finds the counters by name, and enters them for the next request.
    #[cold]
    fn enter(&self, policy: &Policy) -> Arc<LimitCounts> {
        let mut by_name = self.by_name.write();
        let name = if by_name.contains_key(policy.name()) || by_name.len() < MAX_LIMITS {
            policy.name()
        } else {
            OTHERS
        };
        if !by_name.contains_key(name) {
            by_name.insert(name.to_owned(), Arc::new(LimitCounts::new(name)));
        }
        let limit = Arc::clone(&by_name[name]);
        if name == OTHERS {
            return limit;
        }
        limit.keep(policy);
        // Locked, so that no other thread enters the same.
        for place in self.probe(policy) {
            let entry = KnownState { state_id: policy.state_id(), limit: Arc::clone(&limit) };
            if place.set(entry).is_ok() {
                break;
            }
        }
        limit
    }

    /// The counters of every name.
    pub(super) fn all(&self) -> Vec<Arc<LimitCounts>> {
        self.by_name.read().values().map(Arc::clone).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::Counted;

    fn count(table: &LimitTable, policy: &Policy) {
        table.with(policy, |limit| limit.record(Counted::Admitted, false));
    }

    fn counted(table: &LimitTable) -> Vec<(String, u64)> {
        let mut counted: Vec<_> =
            table.all().iter().map(|limit| (limit.name().to_owned(), limit.totals().admitted)).collect();
        counted.sort();
        counted
    }

    fn policy(key: &str, window: u64) -> Policy {
        Policy::new("k", 10, Duration::from_secs(window)).with_key(key).unwrap()
    }

    #[test]
    fn limits_with_one_name_are_counted_as_one() {
        let table = LimitTable::new();
        let named = |window| policy("k", window).with_name("name").unwrap();
        for policy in [policy("a", 1), policy("a", 2), named(1), named(2), policy("k", 1)] {
            count(&table, &policy);
            count(&table, &policy);
        }
        let expected = [("a", 4), ("k", 2), ("name", 4)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counted(&table), expected);
        let limit = table.with(&named(1), Arc::clone);
        assert_eq!(limit.policies(), [named(1), named(2)]);
    }

    #[test]
    fn counts_stay_exact_when_the_table_is_full() {
        let table = LimitTable::new();
        for window in 1..=3 * PLACES as u64 {
            count(&table, &policy("k", window));
            count(&table, &policy("k", window));
        }
        assert_eq!(counted(&table), [("k".to_owned(), 6 * PLACES as u64)]);
    }

    #[test]
    fn limits_beyond_the_maximum_are_counted_together() {
        let table = LimitTable::new();
        for number in 0..MAX_LIMITS + 10 {
            count(&table, &policy(&number.to_string(), 1));
            count(&table, &policy(&number.to_string(), 1));
        }
        let counted = counted(&table);
        assert_eq!(counted.len(), MAX_LIMITS + 1);
        assert!(counted.contains(&(OTHERS.to_owned(), 20)) && counted.contains(&("7".to_owned(), 2)));
    }

    #[test]
    fn threads_that_meet_a_new_limit_lose_no_count() {
        let table = LimitTable::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..1_000 {
                        count(&table, &policy(&(number % 50).to_string(), 1));
                    }
                });
            }
        });
        assert!(counted(&table).iter().all(|(_, count)| *count == 80), "{:?}", counted(&table));
    }
}
