//! A limit that applies to a request: the limit as it is written, with what one request makes of it.

use std::borrow::Cow;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use actix_web::http::StatusCode;
use ratelimit_core::{Check, Policy};
use smallvec::SmallVec;

use crate::caller::{OnMissing, Partition};

/// A limit as it is written, in an attribute or for middleware: what is the same for all requests.
#[derive(Clone, Debug)]
pub(crate) struct WrittenLimit {
    /// Of an attribute, it is written in the arguments, or in a `static` of the user, which several
    /// attributes may name.
    pub(crate) policy: Cow<'static, Policy>,
    /// The name in header fields and response bodies, if it is not the policy's.
    pub(crate) public_name: Option<&'static str>,
    /// Where in the source it stands.
    pub(crate) place: Place,
    /// What a request costs, unless that is computed.
    pub(crate) cost: u64,
    pub(crate) on_missing: OnMissing,
    /// The condition on responses that count; without one, all count.
    pub(crate) count: Option<Condition>,
    /// Whether a response that counts is charged when it is known. Until then the request is looked at.
    pub(crate) charge: ChargeTime,
    /// Which responses show it; by default all, or, if it charges after, denials.
    pub(crate) show: Option<Show>,
}

/// Where in the source a limit stands.
pub(crate) type Place = &'static Location<'static>;

impl WrittenLimit {
    /// A limit with a cost of 1 that requires a caller, and under which every response counts.
    #[track_caller]
    pub(crate) const fn new(policy: Cow<'static, Policy>) -> Self {
        Self {
            policy,
            public_name: None,
            place: Location::caller(),
            cost: 1,
            on_missing: OnMissing::Reject,
            count: None,
            charge: ChargeTime::Before,
            show: None,
        }
    }

    pub(crate) const fn policy(&self) -> &Policy {
        match &self.policy {
            Cow::Owned(policy) => policy,
            Cow::Borrowed(policy) => policy,
        }
    }

    pub(crate) fn public_name(&self) -> &str {
        self.public_name.unwrap_or_else(|| self.policy().name())
    }

    /// Whether requests are charged after their response, under a policy in force: only responses that count
    /// may begin its block.
    pub(crate) const fn charges_after(&self, policy: &Policy) -> bool {
        self.count.is_some() && (matches!(self.charge, ChargeTime::After) || policy.block().is_some())
    }

    /// What contradicts a charge after the response, if the limit has one.
    pub(crate) const fn charge_fault(&self) -> Option<&'static str> {
        let is_after = matches!(self.charge, ChargeTime::After);
        if is_after && self.policy().is_concurrency() {
            Some("a request holds its slot while it runs, so nothing is charged after it; remove the charge")
        } else if is_after && self.count.is_none() {
            Some("only a limit with a count charges after the response; add the count, or remove the charge")
        } else if self.charges_after(self.policy()) && self.policy().lease().is_some() {
            Some(
                "a limit that charges after the response has no lease, whose units are charged ahead; remove the lease",
            )
        } else {
            None
        }
    }

    /// Whether this is the name of the limit in responses, or of its policy.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.public_name() == name || self.policy().name() == name
    }
}

/// Which responses count: what `count` of the attribute says, for a [`Limit`](crate::Limit) of middleware.
///
/// Each request is charged before its response is known. If the response does not count, the charge is
/// refunded. So `max` is also the number of requests that may be in flight. A limit with
/// [`Limit::charge_after`](crate::Limit::charge_after), or with a block, charges the responses that count,
/// and nothing before.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Count {
    /// Every response.
    #[default]
    All,
    /// Responses with a status of 400 or more.
    Failures,
    /// Responses with a status below 400.
    Successes,
    /// Responses for whose status the function returns true; a closure that captures nothing is one.
    When(fn(StatusCode) -> bool),
}

impl Count {
    /// The condition on the status. `None` if every response counts.
    pub(crate) const fn condition(self) -> Option<Condition> {
        match self {
            Self::All => None,
            Self::Failures => Some(is_failure),
            Self::Successes => Some(is_success),
            Self::When(condition) => Some(condition),
        }
    }
}

/// When a request is charged under a limit of which some responses do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeTime {
    /// Before its response is known; the charge is refunded if the response does not count.
    Before,
    /// When its response is known, and counts.
    After,
}

/// Which responses show a limit, in header fields and as the [tightest](crate::Quotas::tightest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Show {
    /// Every response.
    Always,
    /// Only where the limit denies the request.
    Denied,
}

/// Whether a response with this status counts.
pub(crate) type Condition = fn(StatusCode) -> bool;

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

fn is_success(status: StatusCode) -> bool {
    !is_failure(status)
}

/// Where a written limit is kept.
#[derive(Clone, Debug)]
pub(crate) enum LimitRef {
    /// In the `static` of an attribute.
    Attribute(&'static WrittenLimit),
    /// Of middleware, or of a check by hand.
    Middleware(Arc<WrittenLimit>),
}

impl Deref for LimitRef {
    type Target = WrittenLimit;

    #[inline]
    fn deref(&self) -> &WrittenLimit {
        match self {
            Self::Attribute(limit) => limit,
            Self::Middleware(limit) => limit,
        }
    }
}

/// One limit that applies to a request.
#[derive(Clone, Debug)]
pub(crate) struct AppliedLimit {
    pub(crate) written: LimitRef,
    /// The policy with the numbers of this request, such as those of overrides. Without it, the policy as it
    /// is written.
    pub(crate) in_force: Option<Arc<Policy>>,
    pub(crate) caller: Partition,
    pub(crate) cost: u64,
}

/// The limits that are checked together, in the order of the source.
pub(crate) type AppliedLimits = SmallVec<[AppliedLimit; 2]>;

impl AppliedLimit {
    /// A limit that a check describes, under which every response counts.
    #[track_caller]
    pub(crate) fn of(check: &Check<'_>) -> Self {
        let written = LimitRef::Middleware(Arc::new(WrittenLimit::new(Cow::Owned(check.policy().clone()))));
        Self { written, in_force: None, caller: check.partition().into(), cost: check.cost() }
    }

    #[inline]
    pub(crate) fn policy(&self) -> &Policy {
        self.in_force.as_deref().unwrap_or_else(|| self.written.policy())
    }

    #[inline]
    pub(crate) fn check(&self) -> Check<'_> {
        Check::new(self.policy(), &*self.caller).with_cost(self.cost)
    }

    /// The check that admits or denies the request.
    #[inline]
    pub(crate) fn first_check(&self) -> Check<'_> {
        let check = self.check();
        if self.charges_after() { check.uncharged() } else { check }
    }

    /// Whether the request is charged after its response.
    #[inline]
    pub(crate) fn charges_after(&self) -> bool {
        self.written.charges_after(self.policy())
    }

    /// Which responses show the limit.
    #[inline]
    pub(crate) fn show(&self) -> Show {
        let default = || if self.charges_after() { Show::Denied } else { Show::Always };
        self.written.show.unwrap_or_else(default)
    }
}
