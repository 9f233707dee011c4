//! The counts that one caller may have under the limits with one name.

use std::collections::HashSet;

use ratelimit_core::__private_0_1::largest;
use ratelimit_core::stats::LimitStats;
use ratelimit_core::{Policy, RateLimiter};

use super::row::{Origin, Row};
use super::rows;
use crate::handler::registry::declared_limits;
use crate::quotas::count_id;

/// Largest number of rows of plans that are read for one limit.
const MAX_PLANS: usize = 1_000;

/// The numbers by which a caller is counted.
pub(super) struct Count {
    pub(super) row: Row,
    /// Whether the program computes `max` for each request.
    pub(super) is_computed: bool,
    /// What to peek by, and to reset.
    pub(super) policy: Policy,
}

/// Whether a limit has this name: one that is declared, given to the limiter or was decided.
pub(super) fn is_known(name: &str, limiter: &RateLimiter) -> bool {
    declared_limits().iter().any(|limit| limit.name() == name)
        || rows::given_policies(limiter).iter().any(|policy| policy.name() == name)
        || limiter.stats().limits().iter().any(|limit| limit.name() == name)
}

/// The rows that may decide about the caller now: its own, or those of the limit and of plans; then counts of earlier decisions.
pub(super) fn counts_of(name: &str, partition: &[u8], limiter: &RateLimiter) -> Vec<Count> {
    find(name, Counts { limiter, partition, is_for_reset: false, found: Vec::new(), ids: HashSet::new() })
}

/// The same, and the rows that may have decided about the caller before it had one of its own.
pub(super) fn counts_to_reset(name: &str, partition: &[u8], limiter: &RateLimiter) -> Vec<Count> {
    find(name, Counts { limiter, partition, is_for_reset: true, found: Vec::new(), ids: HashSet::new() })
}

fn find(name: &str, mut counts: Counts<'_>) -> Vec<Count> {
    let limiter = counts.limiter;
    for limit in declared_limits().iter().filter(|limit| limit.name() == name) {
        counts.add_limit(limit.policy(), limit.max().is_none());
    }
    for policy in rows::given_policies(limiter).iter().filter(|policy| policy.name() == name) {
        counts.add_limit(policy, false);
    }
    let stats = limiter.stats().limits();
    for policy in stats.iter().filter(|limit| limit.name() == name).flat_map(LimitStats::policies) {
        if !counts.ids.contains(&count_id(policy)) {
            counts.add(Row::new(Origin::Decision, policy), false);
        }
    }
    counts.found
}

struct Counts<'a> {
    limiter: &'a RateLimiter,
    partition: &'a [u8],
    is_for_reset: bool,
    found: Vec<Count>,
    /// What is counted together with a count that was found.
    ids: HashSet<u128>,
}

impl Counts<'_> {
    /// Adds what may be in force for the caller under one limit of the program.
    fn add_limit(&mut self, policy: &Policy, is_computed: bool) {
        let row = rows::for_caller(self.limiter, policy, self.partition);
        let has_own = row.origin == Origin::Caller;
        self.add(row, is_computed);
        if self.is_for_reset {
            self.add(rows::for_all(self.limiter, policy), is_computed);
            self.add(Row::new(Origin::Program, policy), is_computed);
        } else if has_own {
            return;
        }
        let (plans, _) = rows::counts(self.limiter, policy);
        for row in rows::named(self.limiter, policy, plans.min(MAX_PLANS)) {
            self.add(row, is_computed);
        }
    }

    /// Adds a row, unless one with the same numbers is there.
    fn add(&mut self, row: Row, is_computed: bool) {
        let policy = if row.has_max(is_computed) {
            row.policy.clone()
        } else if row.policy.algorithm().has_burst() {
            // Its counts depend on `max`: only earlier decisions tell it.
            return;
        } else {
            largest(&row.policy)
        };
        let is_same = |other: &Count| other.policy == policy && other.row.is_off == row.is_off;
        if !self.found.iter().any(is_same) {
            self.ids.insert(count_id(&policy));
            self.found.push(Count { row, is_computed, policy });
        }
    }
}
