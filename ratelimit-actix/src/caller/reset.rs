//! The counts that a caller may have, to be shown or reset.

use std::collections::HashSet;

use ratelimit_core::__private_0_1::{PrivateInForce as _, PrivateLimiter as _, PrivatePolicy as _};
use ratelimit_core::__private_0_1::{in_both_modes, state_id, wall_clock};
use ratelimit_core::overrides::{InForce, Origin};
#[cfg(feature = "admin")]
use ratelimit_core::stats::LimitStats;
use ratelimit_core::{Check, MAX_GROUP, Outcome, Policy, RateLimiter, StoreError};

use super::IntoCaller;
use crate::declared::DeclaredLimit;
#[cfg(feature = "admin")]
use crate::declared::declared_limits;
use crate::written_limit::computed::Computed;

impl DeclaredLimit {
    /// What is left for one caller of this limit, and whether a request of cost 1 passes now. Charges
    /// nothing.
    ///
    /// `caller` is what `by` of the limit returns, as for [`reset_caller`](Self::reset_caller). With the
    /// feature `overrides`, the numbers are those of the row of this caller, or else of the row for all
    /// callers; requests of a plan may have others.
    ///
    /// `None` without a caller, if the limit is off for the caller, and if `max` or `anchor` is computed for
    /// each request.
    ///
    /// # Errors
    ///
    /// As with [`RateLimiter::peek`].
    pub async fn peek_caller(
        &self,
        limiter: &RateLimiter,
        caller: impl IntoCaller,
    ) -> Result<Option<Outcome>, StoreError> {
        let caller = caller.into_caller();
        let Some(partition) = caller.partition() else { return Ok(None) };
        let in_force = limiter.in_force_for(self.policy(), None, partition);
        let computed = self.computed();
        if in_force.is_off() || computed.anchor.is_computed() || !computed.has_max(&in_force) {
            return Ok(None);
        }
        limiter.peek(in_force.policy(), partition).await.map(Some)
    }

    /// Forgets what is counted for one caller of this limit, and ends its block: for a page of support, or
    /// after a payment.
    ///
    /// `caller` is what `by` of the limit returns. All counts that the caller may have are reset: those by
    /// the numbers of the program, and with the feature `overrides` those by the rows for all callers, for
    /// plans and for this caller, each also in the other [mode](ratelimit_core::Mode). Of numbers that are
    /// made at run time, such as a token bucket whose `max` is computed, it reaches those that this process
    /// has decided by, at most 8 for each name, with the feature `admin`; and none without it.
    ///
    /// An address stands for its network, an IPv6 address for its /64. Other processes may repeat a denial
    /// for up to 1 s, the TTL of the denial cache, and may use the unused units of their leases. Nothing
    /// happens without a caller, such as `None`.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or cannot remove the counts. Some of them may be reset then; calling
    /// again is safe.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_actix::{RateLimiter, StoreError, declared_limits, rate_limit};
    ///
    /// #[rate_limit(max = 1_000, window = "1h", name = "orders", by = header("x-account"))]
    /// #[actix_web::get("/orders")]
    /// async fn orders() -> &'static str {
    ///     "orders"
    /// }
    ///
    /// async fn forgive(limiter: &RateLimiter, account: &str) -> Result<(), StoreError> {
    ///     for limit in declared_limits().iter().filter(|limit| limit.policy().name() == "orders") {
    ///         limit.reset_caller(limiter, account).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn reset_caller(
        &self,
        limiter: &RateLimiter,
        caller: impl IntoCaller,
    ) -> Result<(), StoreError> {
        reset(limiter, self.policy(), self.computed(), caller).await
    }
}

/// The same as [`DeclaredLimit::reset_caller`] for a policy of middleware.
///
/// # Errors
///
/// As there.
pub async fn reset_caller(
    limiter: &RateLimiter,
    policy: &Policy,
    caller: impl IntoCaller,
) -> Result<(), StoreError> {
    reset(limiter, policy, &Computed::NONE, caller).await
}

async fn reset(
    limiter: &RateLimiter,
    policy: &Policy,
    computed: &'static Computed,
    caller: impl IntoCaller,
) -> Result<(), StoreError> {
    let caller = caller.into_caller();
    let Some(partition) = caller.partition() else { return Ok(()) };
    let mut counts = Counts { limiter, partition, found: Vec::new() };
    counts.add_limit(policy, computed);
    #[cfg(feature = "admin")]
    counts.add_decided(policy.name(), |decided| {
        decided.key() == policy.key() && decided.algorithm() == policy.algorithm()
    });
    let policies = distinct(limiter, partition, &counts.found).await;
    reset_counts(limiter, &policies, partition).await
}

/// Forgets what is counted for a caller under these policies.
pub(crate) async fn reset_counts(
    limiter: &RateLimiter,
    policies: &[Policy],
    partition: &[u8],
) -> Result<(), StoreError> {
    let checks: Vec<_> = policies.iter().map(|policy| Check::new(policy, partition)).collect();
    for group in checks.chunks(MAX_GROUP) {
        limiter.reset_all(group).await?;
    }
    Ok(())
}

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

/// The policies of a caller's counts in both modes, since overrides may have changed the mode meanwhile; of
/// policies that share a count, one.
pub(crate) async fn distinct(limiter: &RateLimiter, partition: &[u8], counts: &[CallerCount]) -> Vec<Policy> {
    let mut known = HashSet::new();
    let policies = counts.iter().flat_map(|count| in_both_modes(count.in_force.policy()));
    let policies = policies.filter(|policy| known.insert((state_id(policy), policy.calendar().copied())));
    in_present_windows(limiter, policies.collect(), partition).await
}

/// These policies in each window that may be present, if requests determine the day on which windows begin:
/// the last window of each policy first. The windows follow from the clock of the store, if it answers.
pub(crate) async fn in_present_windows(
    limiter: &RateLimiter,
    policies: Vec<Policy>,
    partition: &[u8],
) -> Vec<Policy> {
    let Some(moving) = policies.iter().find(|policy| policy.has_moving_windows()) else { return policies };
    let at = limiter.peek(moving, partition).await.map_or_else(|_| wall_clock(), |outcome| outcome.at());
    policies.iter().flat_map(|policy| policy.in_present_windows(at)).collect()
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
    counts.add_decided(name, |_| true);
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
    #[cfg(feature = "admin")]
    fn add_decided(&mut self, name: &str, is_of: impl Fn(&Policy) -> bool) {
        let now = self.found.iter().filter(|count| count.may_decide);
        let known: HashSet<_> = now.map(|count| state_id(count.in_force.policy())).collect();
        let limits = self.limiter.stats().limits();
        let decided = limits.iter().filter(|limit| limit.name() == name).flat_map(LimitStats::policies);
        for policy in decided.filter(|policy| is_of(policy) && !known.contains(&state_id(policy))) {
            self.found.push(CallerCount { is_undeclared: true, ..CallerCount::of(policy.into()) });
        }
    }
}
