//! The list of the counts that a caller may have.

use std::collections::HashSet;

#[cfg(feature = "admin")]
use ratelimit_core::__private_0_1::PrivateLimiter as _;
use ratelimit_core::__private_0_1::{PrivateCheck as _, PrivateInForce as _, PrivatePolicy as _, wall_clock};
use ratelimit_core::overrides::{InForce, Origin};
#[cfg(feature = "stats")]
use ratelimit_core::stats::LimitStats;
use ratelimit_core::{Check, Policy, RateLimiter};

#[cfg(feature = "admin")]
use crate::declared::declared_limits;
use crate::written_limit::computed::Computed;

/// A count that a caller may have, and the numbers by which it is judged.
#[cfg_attr(not(feature = "admin"), allow(dead_code, reason = "a reset needs the policies only"))]
pub(crate) struct CallerCount {
    pub(crate) in_force: InForce<'static>,
    /// The plan to whose requests the numbers apply.
    pub(crate) plan: Option<String>,
    /// What the program computes for each request.
    pub(crate) computed: &'static Computed,
    /// Whether the numbers are known from an earlier decision only: they were made at run time, or overrides
    /// had them.
    pub(crate) is_undeclared: bool,
    /// Whether it may decide about the caller now. Otherwise it may have done so before other overrides were
    /// in force.
    pub(crate) may_decide: bool,
}

impl CallerCount {
    /// The count by numbers that are in force.
    fn of(in_force: InForce<'_>) -> Self {
        let in_force = in_force.into_owned();
        Self { in_force, plan: None, computed: &Computed::NONE, is_undeclared: false, may_decide: true }
    }

    /// Whether both have the same numbers, wherever they come from.
    #[cfg(feature = "admin")]
    pub(crate) fn has_numbers_of(&self, other: &Self) -> bool {
        let numbers = |count: &Self| (count.computed.has_max(&count.in_force), count.in_force.is_off());
        self.in_force.policy() == other.in_force.policy() && numbers(self) == numbers(other)
    }
}

/// The counts that a caller may have under one limit.
pub(super) fn counts_of_limit(
    limiter: &RateLimiter,
    partition: &[u8],
    policy: &Policy,
    computed: &'static Computed,
) -> Vec<CallerCount> {
    let mut counts = Counts { limiter, partition, found: Vec::new() };
    counts.add_limit(policy, computed);
    #[cfg(feature = "stats")]
    counts.add_of_requests(policy.name(), |decided| {
        decided.key() == policy.key() && decided.algorithm() == policy.algorithm()
    });
    counts.found
}

/// The counts that a caller may have under all limits with one name: those that are declared, that the
/// limiter was built with, or that were decided.
#[cfg(feature = "admin")]
pub(crate) fn counts_of_name(limiter: &RateLimiter, partition: &[u8], name: &str) -> Vec<CallerCount> {
    let mut counts = Counts { limiter, partition, found: Vec::new() };
    for limit in declared_limits().iter().filter(|limit| limit.policy().name() == name) {
        counts.add_limit(limit.policy(), limit.computed());
    }
    for policy in limiter.builder_policies().iter().filter(|policy| policy.name() == name) {
        counts.add_limit(policy, &Computed::NONE);
    }
    counts.add_of_requests(name, |_| true);
    counts.found
}

/// The counts that a caller may have, while they are listed.
struct Counts<'a> {
    limiter: &'a RateLimiter,
    partition: &'a [u8],
    found: Vec<CallerCount>,
}

impl Counts<'_> {
    /// Adds the counts by the row of the caller, or by the row for all callers; by the rows of plans; and by
    /// numbers that may have been in force before.
    fn add_limit(&mut self, policy: &Policy, computed: &'static Computed) {
        let for_all = self.limiter.in_force(policy);
        let now = for_all.of_request(None, self.partition);
        let has_own_row = now.origin() == Origin::Caller;
        self.add(CallerCount { computed, ..CallerCount::of(now) });
        for (name, row) in for_all.rows().take_while(|(_, row)| row.origin() == Origin::Plan) {
            let (plan, may_decide) = (Some(name.to_owned()), !has_own_row);
            self.add(CallerCount { plan, computed, may_decide, ..CallerCount::of(row) });
        }
        for earlier in [for_all.clone(), policy.into()] {
            self.add(CallerCount { computed, may_decide: false, ..CallerCount::of(earlier) });
        }
    }

    fn add(&mut self, count: CallerCount) {
        // Where counts depend on `max`, it is known from earlier decisions only.
        let depends_on_max = count.in_force.policy().algorithm().has_burst();
        if !depends_on_max || count.computed.has_max(&count.in_force) {
            self.found.push(count);
        }
    }

    /// Adds the counts by numbers of earlier decisions about limits with this name.
    #[cfg(feature = "stats")]
    fn add_of_requests(&mut self, name: &str, is_of: impl Fn(&Policy) -> bool) {
        let deciding = self.found.iter().filter(|count| count.may_decide);
        let known: HashSet<_> = deciding.map(|count| count.in_force.policy().state_id()).collect();
        let limits = self.limiter.stats().limits();
        let decided = limits.iter().filter(|limit| limit.name() == name).flat_map(LimitStats::policies);
        for policy in decided.filter(|policy| is_of(policy) && !known.contains(&policy.state_id())) {
            self.found.push(CallerCount { is_undeclared: true, ..CallerCount::of(policy.into()) });
        }
    }
}

/// The policies of a caller's counts in both modes, since overrides may have changed the mode meanwhile; of
/// policies that share a count, one.
pub(crate) fn distinct(counts: &[CallerCount]) -> Vec<Policy> {
    let mut known = HashSet::new();
    let policies = counts.iter().flat_map(|count| count.in_force.policy().in_both_modes());
    policies.filter(|policy| known.insert((policy.state_id(), policy.calendar().copied()))).collect()
}

/// Checks of these policies, of a cost of 0: those that share a count are not judged by their sum.
pub(crate) fn checks<'a>(policies: &'a [Policy], partition: &'a [u8]) -> Vec<Check<'a>> {
    policies.iter().map(|policy| Check::new(policy, partition).with_cost(0)).collect()
}

/// These checks in each window that may be present, if requests determine the day on which windows begin: the
/// last window of each first. The windows follow from the clock of the store, if it answers.
pub(crate) async fn in_present_windows<'a>(limiter: &RateLimiter, checks: &[Check<'a>]) -> Vec<Check<'a>> {
    let moving = checks.iter().find(|check| check.policy().has_moving_windows());
    let Some(moving) = moving else { return checks.to_vec() };
    let peeked = limiter.peek(moving.policy(), moving.partition()).await;
    let at = peeked.map_or_else(|_| wall_clock(), |outcome| outcome.at());
    checks.iter().flat_map(|check| check.in_present_windows(at)).collect()
}
