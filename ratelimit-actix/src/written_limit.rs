//! A limit as it is written, in an attribute or for middleware: what is the same for all requests.

pub(crate) mod by;
pub(crate) mod computed;
pub(crate) mod count;
pub(crate) mod sole_limiter;

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::panic::Location;

#[cfg(feature = "calendar")]
use ratelimit_core::__private_0_1::has_anchor;
use ratelimit_core::__private_0_1::{help, is_first};
#[cfg(feature = "calendar")]
use ratelimit_core::policy::Calendar;
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{Policy, PolicyBuilder};

use self::by::By;
use self::computed::Computed;
use self::count::{ChargeTime, Count, Show};
use self::sole_limiter::SoleLimiter;
use crate::caller::OnMissing;

/// The text of a limit under which every response counts.
pub(crate) const ALL: &str = "all";

/// Where in the source a limit stands.
pub(crate) type Place = &'static Location<'static>;

/// A limit as it is written. Expansions of the attributes build it in a `static`, and a
/// [`Limit`](crate::Limit) of middleware at run time.
#[derive(Clone)]
pub struct WrittenLimit {
    /// Of an attribute, it is written in the arguments, or in a `static` of the user, which several
    /// attributes may name.
    policy: Cow<'static, Policy>,
    /// The name in header fields and response bodies, if it is not the policy's.
    public_name: Option<&'static str>,
    /// Where in the source it stands.
    pub(crate) place: Place,
    pub(crate) by: By,
    /// What is computed for each request.
    pub(crate) computed: Computed,
    /// What a request costs, unless that is computed.
    pub(crate) cost: u64,
    pub(crate) on_missing: OnMissing,
    /// Which responses count.
    pub(crate) count: Count,
    /// Whether a response that counts is charged when it is known. Until then the request is looked at.
    pub(crate) charge: ChargeTime,
    /// Which responses show it; by default all, or, if it charges after, denials.
    pub(crate) show: Option<Show>,
    /// What distinguishes callers, as in the source of an attribute.
    pub(crate) by_text: &'static str,
    /// Which responses count, as in the source of an attribute.
    pub(crate) count_text: &'static str,
    /// Which limiters decided about the limit.
    pub(crate) limiter: SoleLimiter,
}

impl WrittenLimit {
    /// A limit by address with a cost of 1, under which every response counts.
    #[track_caller]
    pub const fn new(policy: Policy) -> Self {
        Self::of(Cow::Owned(policy))
    }

    /// As [`new`](Self::new), for a policy in a `static` that other limits may use, too.
    ///
    /// # Panics
    ///
    /// If it is that of a concurrency limit. In the attribute's `static` this is a compile error.
    #[track_caller]
    pub const fn shared(policy: &'static Policy) -> Self {
        assert!(
            !policy.is_concurrency(),
            "this policy is a concurrency limit; write #[concurrency_limit(policy = ..)]"
        );
        Self::of(Cow::Borrowed(policy))
    }

    /// As [`shared`](Self::shared), for the policy of a concurrency limit.
    ///
    /// # Panics
    ///
    /// If it is that of a rate. In the attribute's `static` this is a compile error.
    #[track_caller]
    pub const fn shared_concurrency(policy: &'static Policy) -> Self {
        assert!(
            policy.is_concurrency(),
            "this policy is a rate; write #[rate_limit(policy = ..)], or make it by Policy::concurrency"
        );
        Self::of(Cow::Borrowed(policy))
    }

    #[track_caller]
    const fn of(policy: Cow<'static, Policy>) -> Self {
        Self {
            policy,
            public_name: None,
            place: Location::caller(),
            by: By::Ip,
            computed: Computed::NONE,
            cost: 1,
            on_missing: OnMissing::Reject,
            count: Count::All,
            charge: ChargeTime::Before,
            show: None,
            by_text: "ip",
            count_text: ALL,
            limiter: SoleLimiter::new(),
        }
    }

    /// As [`new`](Self::new), for a policy that the argument may leave without a `max`, because values are
    /// computed for each request.
    #[track_caller]
    pub const fn with_computed(template: PolicyBuilder, computed: Computed) -> Self {
        // Checks everything else at compile time: the largest `max` gives the largest products.
        let largest = if computed.max.is_computed() { template.max(MAX_UNITS) } else { template };
        Self::new(largest.build()).computed(computed)
    }

    /// Sets what is computed for each request, of a policy that is in a `static`.
    #[must_use]
    pub const fn computed(mut self, computed: Computed) -> Self {
        // A constant function cannot drop the value before.
        mem::forget(mem::replace(&mut self.computed, computed));
        self
    }

    /// Sets what distinguishes callers.
    #[must_use]
    pub const fn by(mut self, by: By) -> Self {
        mem::forget(mem::replace(&mut self.by, by));
        self
    }

    /// Sets the cost of a request.
    ///
    /// # Panics
    ///
    /// If no request is ever denied, or none ever passes. In the attribute's `static` this is a compile
    /// error.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        assert!(
            cost >= 1 && cost <= self.policy().capacity(),
            "cost must be from 1 to max, or to burst for a token bucket"
        );
        self.cost = cost;
        self
    }

    /// Sets what to do with requests without a caller.
    #[must_use]
    pub const fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// Sets which responses count.
    ///
    /// # Panics
    ///
    /// If the policy has a block and a lease. In the attribute's `static` this is a compile error.
    #[must_use]
    pub const fn count(mut self, count: Count) -> Self {
        mem::forget(mem::replace(&mut self.count, count));
        self.without_fault()
    }

    /// Sets when a request is charged.
    ///
    /// # Panics
    ///
    /// If that contradicts the policy or `count`. In the attribute's `static` this is a compile error.
    #[must_use]
    pub const fn charge(mut self, charge: ChargeTime) -> Self {
        assert!(
            matches!(charge, ChargeTime::After) || self.policy().block().is_none(),
            "a request that is refunded later could begin the block; remove `charge`, or write two limits: one with \
             `block`, and one without it that charges before"
        );
        self.charge = charge;
        self.without_fault()
    }

    const fn without_fault(self) -> Self {
        if let Some(fault) = self.fault() {
            panic!("{}", fault);
        }
        self
    }

    /// Sets which responses show the limit.
    #[must_use]
    pub const fn show(mut self, show: Show) -> Self {
        self.show = Some(show);
        self
    }

    /// Sets the name that clients see: the function's, where the policy's name is its path. Metrics keep the
    /// policy's name, which is unique.
    #[must_use]
    pub const fn with_public_name(mut self, name: &'static str) -> Self {
        self.public_name = Some(name);
        self
    }

    /// Sets what operators see of the caller and of `count`.
    #[must_use]
    pub const fn with_text(mut self, by: &'static str, count: &'static str) -> Self {
        (self.by_text, self.count_text) = (by, count);
        self
    }

    /// The calendar from the nearest day on which its windows can begin, in the zone of the program. Logs
    /// once that it is another day.
    #[cfg(feature = "calendar")]
    pub(crate) fn nearest_calendar(&self, computed: Calendar) -> Calendar {
        let own = self.policy().calendar().copied().unwrap_or(computed);
        let computed = computed.in_zone(own.zone());
        // Only a closure of middleware can return a calendar of another unit.
        let is_fitting = computed.unit() == own.unit();
        let nearest = if is_fitting { computed } else { own };
        let used = nearest.clamped();
        if !(is_fitting && has_anchor(&computed)) && self.is_first("computed-anchor") {
            tracing::error!(
                policy = self.policy().name(),
                %computed,
                %used,
                help = help("computed-anchor"),
                "the `anchor` that was computed for a request is no day on which a window begins; the nearest one is used"
            );
        }
        used
    }

    /// The policy. What of it is [`Computed`] means nothing.
    pub(crate) const fn policy(&self) -> &Policy {
        match &self.policy {
            Cow::Owned(policy) => policy,
            Cow::Borrowed(policy) => policy,
        }
    }

    pub(crate) fn public_name(&self) -> &str {
        self.public_name.unwrap_or_else(|| self.policy().name())
    }

    /// Whether this is the name of the limit in responses, or of its policy.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.public_name() == name || self.policy().name() == name
    }

    /// Whether requests are charged after their response, under a policy in force: only responses that count
    /// may begin its block.
    pub(crate) const fn charges_after(&self, policy: &Policy) -> bool {
        !self.count.is_all() && (matches!(self.charge, ChargeTime::After) || policy.block().is_some())
    }

    /// What of the limit contradicts its policy, or another part of it.
    pub(crate) const fn fault(&self) -> Option<&'static str> {
        let is_after = matches!(self.charge, ChargeTime::After);
        let is_concurrency = self.policy().is_concurrency();
        let has_lease = self.policy().lease().is_some();
        if is_concurrency && self.computed.cost.is_computed() {
            Some("a request holds one slot of a concurrency limit; remove the cost")
        } else if is_concurrency && !self.count.is_all() {
            Some("a concurrency limit counts what runs, whatever the response; remove the count")
        } else if is_after && is_concurrency {
            Some("a request holds its slot while it runs, so nothing is charged after it; remove the charge")
        } else if is_after && self.count.is_all() {
            Some("only a limit with a count charges after the response; add the count, or remove the charge")
        } else if has_lease && (self.computed.max.is_computed() || self.computed.anchor.is_computed()) {
            Some(
                "the units of a lease are charged under one max, and end with one window; remove the lease, or what is computed",
            )
        } else if has_lease && self.charges_after(self.policy()) {
            Some(
                "a limit that charges after the response has no lease, whose units are charged ahead; remove the lease",
            )
        } else {
            None
        }
    }

    /// Whether a request without a caller is rejected.
    #[cfg(feature = "utoipa")]
    pub(crate) fn rejects_missing(&self) -> bool {
        self.on_missing == OnMissing::Reject && self.policy().mode() != ratelimit_core::Mode::Shadow
    }

    /// Logs, once, a cost that is larger than any limit, or larger than what only overrides allow.
    pub(crate) fn warn_about_cost(&self, cost: u64, in_force: &Policy) {
        let (capacity, own) = (in_force.capacity(), self.policy().capacity());
        if capacity < cost && cost <= own && self.is_first("override-without-effect") {
            tracing::error!(
                policy = self.policy().name(),
                cost,
                capacity,
                help = help("override-without-effect"),
                "the overrides allow less than the `cost` that was computed for a request; such requests are denied"
            );
        }
        if cost > MAX_UNITS && self.is_first("computed-cost") {
            tracing::error!(
                policy = self.policy().name(),
                cost,
                help = help("computed-cost"),
                "the `cost` that was computed for a request is above 10^12, more than any limit; such requests are denied"
            );
        }
    }

    /// Whether no line about this limit names this section so far.
    pub(crate) fn is_first(&self, section: &'static str) -> bool {
        is_first(section, (self.place, self.policy().name()))
    }
}

impl fmt::Debug for WrittenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = (self.policy().key(), self.policy().max());
        f.debug_struct("Limit").field("policy", &policy).field("by", &self.by).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_cost_above_max_panics() {
        let _ = WrittenLimit::new(Policy::builder("k").max(10).build()).cost(11);
    }

    #[test]
    #[should_panic(expected = "this policy is a concurrency limit; write #[concurrency_limit(policy = ..)]")]
    fn a_concurrency_limit_is_no_policy_of_a_rate() {
        static STREAMS: Policy = Policy::concurrency("k", 3);
        let _ = WrittenLimit::shared(&STREAMS);
    }

    #[test]
    #[should_panic(expected = "this policy is a rate; write #[rate_limit(policy = ..)]")]
    fn a_rate_is_no_policy_of_a_concurrency_limit() {
        static REQUESTS: Policy = Policy::new("k", 3, Duration::from_secs(60));
        let _ = WrittenLimit::shared_concurrency(&REQUESTS);
    }

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_cost_of_zero_panics() {
        let _ = WrittenLimit::new(Policy::builder("k").max(10).build()).cost(0);
    }
}
