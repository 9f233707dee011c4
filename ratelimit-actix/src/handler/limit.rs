//! One limit of a handler, as the attribute writes it into a `static`.

use std::sync::Once;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{Check, Policy, PolicyBuilder};

use crate::caller::Key;
use crate::caller::client_ip;
use crate::caller::path_param::path_key;
use crate::config::RateLimitConfig;

/// One limit of a handler: the rule, whose count, what a request costs, and which answers count.
#[derive(Debug)]
pub struct Limit {
    policy: Policy,
    /// The rule without its `max`, where that is chosen for each request.
    rule: Option<PolicyBuilder>,
    by: By,
    cost: u64,
    on_missing: OnMissing,
    count: Count,
    /// The name that clients are told, where it is not the policy's.
    shown: Option<&'static str>,
    /// Whether a `max` out of its bounds has been reported.
    reported: Once,
    /// The same for a cost.
    reported_cost: Once,
}

impl Limit {
    /// A limit by address, at a cost of 1, that counts every request.
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            rule: None,
            by: By::Ip,
            cost: 1,
            on_missing: OnMissing::Reject,
            count: Count::All,
            shown: None,
            reported: Once::new(),
            reported_cost: Once::new(),
        }
    }

    /// A limit whose `max` is chosen for each request.
    pub const fn choosing(rule: PolicyBuilder) -> Self {
        // Whatever else is wrong is found here, when it is compiled: with the largest `max` no product is too large.
        let mut limit = Self::new(rule.max(MAX_UNITS).build());
        limit.rule = Some(rule);
        limit
    }

    /// Counts for other callers than addresses.
    #[must_use]
    pub const fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    /// Another cost than 1.
    ///
    /// # Panics
    ///
    /// When it takes nothing or could never pass; in the attribute's `static` that is a compile error.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        assert!(
            cost >= 1 && cost <= self.policy.capacity(),
            "cost must be from 1 to max, or to burst for a token bucket"
        );
        self.cost = cost;
        self
    }

    /// Does something else than to reject requests without a caller.
    #[must_use]
    pub const fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// Counts only some answers.
    #[must_use]
    pub const fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }

    /// Another name for clients than the policy's: that of the function, where the policy's is its path. Metrics keep the
    /// latter, which no other limit has.
    #[must_use]
    pub const fn shown_as(mut self, name: &'static str) -> Self {
        self.shown = Some(name);
        self
    }

    /// The name that clients are told.
    pub(crate) fn shown(&self) -> &str {
        self.shown.unwrap_or(self.policy.name())
    }

    /// The rule; its `max` means nothing when [that is chosen](Self::chooses_max) for each request.
    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether `max` is chosen for each request.
    pub(crate) const fn chooses_max(&self) -> bool {
        self.rule.is_some()
    }

    /// What a request costs.
    pub(crate) const fn units(&self) -> u64 {
        self.cost
    }

    /// Whether an answer with this status counts.
    pub(crate) fn counts(&self, status: StatusCode) -> bool {
        match self.count {
            Count::All => true,
            Count::Failures => is_failure(status),
            Count::Successes => !is_failure(status),
            Count::When(counts) => counts(status),
        }
    }

    /// Whether a request may turn out not to count.
    pub(crate) const fn may_refund(&self) -> bool {
        !matches!(self.count, Count::All)
    }

    /// Whom a request counts for under this limit; `None` when it is not checked for want of a caller.
    pub(crate) fn caller(&self, req: &HttpRequest, config: &RateLimitConfig) -> Result<Option<Key>, Nobody> {
        self.known(self.by.caller(req, config))
    }

    /// The same for a caller that was found in another way.
    pub(crate) fn known(&self, caller: Key) -> Result<Option<Key>, Nobody> {
        self.on_missing.known(caller)
    }

    /// The rule with the `max` of one request; `None` when it lets nobody pass.
    pub(crate) fn with_max(&self, max: u64) -> Option<Policy> {
        if max == 0 {
            return None;
        }
        let policy = self.rule?.max(max).try_build();
        if let Err(error) = &policy {
            self.reported.call_once(|| {
                tracing::error!(
                    policy = self.policy.name(),
                    max,
                    %error,
                    "the `max` that was chosen for a request is out of its bounds; such requests are denied"
                );
            });
        }
        policy.ok()
    }

    /// Says in the log that no limit is as large as the cost of one request, when that is so for the first time.
    pub(crate) fn note_cost(&self, cost: u64) {
        if cost > MAX_UNITS {
            self.reported_cost.call_once(|| {
                tracing::error!(
                    policy = self.policy.name(),
                    cost,
                    "the `cost` that was chosen for a request is above 10^12, more than any limit; such requests are denied"
                );
            });
        }
    }

    /// The question to the store.
    pub(crate) fn check<'a>(&'a self, partition: &'a [u8]) -> Check<'a> {
        Check::new(&self.policy, partition).cost(self.cost)
    }
}

/// What tells the callers of a limit apart.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// The client's address.
    Ip,
    /// Nothing: all share one count.
    Global,
    /// A parameter of the path, as extractors decode it.
    Path(&'static str),
    /// A header field, of which anybody can send any; of several the first, as `headers().get` gives it to the handler.
    Header(&'static str),
    /// What a function finds in the request.
    Function(fn(&HttpRequest) -> Key),
    /// Several of these together.
    Parts(&'static [Self]),
}

impl By {
    /// Whom a request counts for, under the settings that are nearest to it.
    pub(crate) fn caller(&self, req: &HttpRequest, config: &RateLimitConfig) -> Key {
        match self {
            Self::Ip => client_ip::caller(req, config),
            Self::Global => Key::global(),
            Self::Path(name) => path_key(req, name),
            Self::Header(name) => match req.headers().get(*name) {
                Some(value) if !value.is_empty() => Key::text(value.as_bytes()),
                _ => Key::nobody(),
            },
            Self::Function(key) => key(req),
            Self::Parts(parts) => Key::join(parts.iter().map(|part| part.caller(req, config))),
        }
    }
}

/// There is nobody to count a request for, and the limit insists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nobody;

/// What becomes of a request for which a limit finds no caller, such as one without the header that it counts by. By address
/// there is always one: all requests without an address are the same caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is answered with 400, and not counted.
    #[default]
    Reject,
    /// It is not counted under this limit.
    Skip,
    /// All such requests are one caller.
    Anonymous,
}

impl OnMissing {
    /// Whom a request counts for whose caller is `caller`; `None` when it does not.
    pub(crate) fn known(self, caller: Key) -> Result<Option<Key>, Nobody> {
        match self {
            _ if !caller.is_nobody() => Ok(Some(caller)),
            Self::Reject => Err(Nobody),
            Self::Skip => Ok(None),
            Self::Anonymous => Ok(Some(Key::anonymous())),
        }
    }
}

/// Which answers count.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Every one.
    All,
    /// Those with a status of 400 or more.
    Failures,
    /// Those with a lower status.
    Successes,
    /// Those for which a function says so.
    When(fn(StatusCode) -> bool),
}

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_limit_that_lets_nobody_pass_is_refused() {
        let _ = Limit::new(Policy::builder("k").max(10).build()).cost(11);
    }

    #[test]
    #[should_panic(expected = "cost must be from 1 to max")]
    fn a_limit_that_counts_nothing_is_refused() {
        let _ = Limit::new(Policy::builder("k").max(10).build()).cost(0);
    }
}
