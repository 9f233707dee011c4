//! One limit of a handler, as the attribute writes it into a `static`.

use std::borrow::Cow;

#[cfg(feature = "calendar")]
use ratelimit_core::__private_0_1::has_anchor;
use ratelimit_core::__private_0_1::{help, is_first};
#[cfg(feature = "calendar")]
use ratelimit_core::policy::Calendar;
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{Policy, PolicyBuilder};

use super::computed::Computed;
use super::sole_limiter::SoleLimiter;
use crate::applied_limit::{ChargeTime, Count, Show, WrittenLimit};
use crate::caller::OnMissing;
use crate::caller::of_request::By;

/// The text of a limit under which every response counts.
pub(crate) const ALL: &str = "all";

/// One limit of a handler: its policy, its callers, the cost of a request, and which responses count.
#[derive(Debug)]
pub struct HandlerLimit {
    pub(crate) written: WrittenLimit,
    /// What is computed for each request.
    pub(crate) computed: Computed,
    pub(crate) by: By,
    /// What distinguishes callers, as in the source.
    pub(crate) by_text: &'static str,
    /// Which responses count, as in the source.
    pub(crate) count_text: &'static str,
    /// Which limiters decided about the limit.
    pub(crate) limiter: SoleLimiter,
}

impl HandlerLimit {
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
            written: WrittenLimit::new(policy),
            computed: Computed::NONE,
            by: By::Ip,
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
        self.computed = computed;
        self
    }

    /// Sets what distinguishes callers.
    #[must_use]
    pub const fn by(mut self, by: By) -> Self {
        self.by = by;
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
        self.written.cost = cost;
        self
    }

    /// Sets what to do with requests without a caller.
    #[must_use]
    pub const fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.written.on_missing = on_missing;
        self
    }

    /// Sets which responses count.
    ///
    /// # Panics
    ///
    /// If the policy has a block and a lease. In the attribute's `static` this is a compile error.
    #[must_use]
    pub const fn count(mut self, count: Count) -> Self {
        self.written.count = count.condition();
        self.with_possible_charge()
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
        self.written.charge = charge;
        self.with_possible_charge()
    }

    const fn with_possible_charge(self) -> Self {
        if let Some(fault) = self.written.charge_fault() {
            panic!("{}", fault);
        }
        self
    }

    /// Sets which responses show the limit.
    #[must_use]
    pub const fn show(mut self, show: Show) -> Self {
        self.written.show = Some(show);
        self
    }

    /// Sets the name that clients see: the function's, where the policy's name is its path. Metrics keep the
    /// policy's name, which is unique.
    #[must_use]
    pub const fn with_public_name(mut self, name: &'static str) -> Self {
        self.written.public_name = Some(name);
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
    pub(super) fn nearest_calendar(&self, computed: Calendar) -> Calendar {
        let zone = self.policy().calendar().map_or(computed.zone(), Calendar::zone);
        let (computed, used) = (computed.in_zone(zone), computed.clamped().in_zone(zone));
        if !has_anchor(&computed) && self.is_first("computed-anchor") {
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
        self.written.policy()
    }

    /// Whether a request without a caller is rejected.
    #[cfg(feature = "utoipa")]
    pub(crate) fn rejects_missing(&self) -> bool {
        self.written.on_missing == OnMissing::Reject && self.policy().mode() != ratelimit_core::Mode::Shadow
    }

    /// Logs, once, a cost that is larger than any limit.
    pub(crate) fn warn_about_cost(&self, cost: u64) {
        if cost > MAX_UNITS && self.is_first("computed-cost") {
            tracing::error!(
                policy = self.policy().name(),
                cost,
                help = help("computed-cost"),
                "the `cost` that was computed for a request is above 10^12, more than any limit; such requests are denied"
            );
        }
    }

    /// Whether no line about this limit, which is in a `static`, names this section so far.
    pub(super) fn is_first(&self, section: &'static str) -> bool {
        is_first(section, std::ptr::from_ref(self))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_cost_above_max_panics() {
        let _ = HandlerLimit::new(Policy::builder("k").max(10).build()).cost(11);
    }

    #[test]
    #[should_panic(expected = "this policy is a concurrency limit; write #[concurrency_limit(policy = ..)]")]
    fn a_concurrency_limit_is_no_policy_of_a_rate() {
        static STREAMS: Policy = Policy::concurrency("k", 3);
        let _ = HandlerLimit::shared(&STREAMS);
    }

    #[test]
    #[should_panic(expected = "this policy is a rate; write #[rate_limit(policy = ..)]")]
    fn a_rate_is_no_policy_of_a_concurrency_limit() {
        static REQUESTS: Policy = Policy::new("k", 3, Duration::from_secs(60));
        let _ = HandlerLimit::shared_concurrency(&REQUESTS);
    }

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_cost_of_zero_panics() {
        let _ = HandlerLimit::new(Policy::builder("k").max(10).build()).cost(0);
    }
}
