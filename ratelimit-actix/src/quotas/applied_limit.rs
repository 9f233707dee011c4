//! The limits of a request: each that applies, with its policy in force, the caller, the cost, and which responses count; and the
//! names of those that were not checked.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use actix_web::dev::Extensions;
use actix_web::http::StatusCode;
use actix_web::{HttpMessage, HttpRequest};
use ratelimit_core::{Check, Policy};
use smallvec::SmallVec;

/// One limit that applies to a request.
#[derive(Clone, Debug)]
pub(crate) struct AppliedLimit {
    pub(crate) policy: PolicyRef,
    pub(crate) caller: Partition,
    pub(crate) cost: u64,
    /// The condition on responses that count; without one, all count.
    pub(crate) count: Option<Condition>,
}

/// The limits that are checked together, in the order of the source.
pub(crate) type AppliedLimits = SmallVec<[AppliedLimit; 2]>;

impl AppliedLimit {
    /// A limit that a check describes, under which every response counts.
    #[cfg(any(test, feature = "test-util"))]
    #[track_caller]
    pub(crate) fn of(check: &Check<'_>) -> Self {
        Self {
            policy: PolicyRef::Shared(check.policy().clone().into(), Location::caller()),
            caller: Partition(check.partition().into()),
            cost: check.cost(),
            count: None,
        }
    }

    #[inline]
    pub(crate) fn check(&self) -> Check<'_> {
        Check::new(self.policy.policy(), &*self.caller).with_cost(self.cost)
    }
}

/// The bytes of the caller whose count it is; `Debug` hides them from logs.
#[derive(Clone)]
pub(crate) struct Partition(pub(crate) SmallVec<[u8; Self::INLINE]>);

impl Partition {
    /// Partitions up to this many bytes need no allocation.
    pub(crate) const INLINE: usize = 40;
}

impl Deref for Partition {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Which responses count: what `count` of the attribute says, for a [`Limit`](crate::Limit) of middleware.
///
/// Each request is charged before its response is known. If the response does not count, the charge is refunded.
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

/// Whether a response with this status counts.
pub(crate) type Condition = fn(StatusCode) -> bool;

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

fn is_success(status: StatusCode) -> bool {
    !is_failure(status)
}

/// The policy of an attribute.
#[derive(Debug)]
pub(crate) struct NamedPolicy {
    /// Written in the arguments of the attribute, or in a `static` of the user, which several attributes may name.
    policy: Cow<'static, Policy>,
    /// The name that clients see, if it is not the policy's.
    pub(crate) public_name: Option<&'static str>,
    place: Place,
}

/// Where in the source a limit stands.
pub(crate) type Place = &'static Location<'static>;

impl NamedPolicy {
    /// A policy under its own name. Its place is that of the attribute.
    #[track_caller]
    pub(crate) const fn new(policy: Cow<'static, Policy>) -> Self {
        Self { policy, public_name: None, place: Location::caller() }
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
}

/// Where a policy is kept.
#[derive(Clone, Debug)]
pub(crate) enum PolicyRef {
    /// In a `static` of the program.
    Static(&'static NamedPolicy),
    /// In a `static`, but with the numbers of this request: a computed `max`, or overrides.
    Dynamic(&'static NamedPolicy, Arc<Policy>),
    /// In middleware.
    Shared(Arc<Policy>, Place),
}

impl PolicyRef {
    pub(crate) fn policy(&self) -> &Policy {
        match self {
            Self::Static(named) => named.policy(),
            Self::Dynamic(_, policy) | Self::Shared(policy, _) => policy,
        }
    }

    /// Replaces the policy, such as by that of overrides. The limit keeps its name.
    pub(crate) fn replace(&mut self, policy: Arc<Policy>) {
        *self = match self {
            Self::Static(named) | Self::Dynamic(named, _) => Self::Dynamic(named, policy),
            Self::Shared(_, place) => Self::Shared(policy, place),
        };
    }

    /// Where the limit stands.
    pub(crate) const fn place(&self) -> Place {
        match self {
            Self::Static(named) | Self::Dynamic(named, _) => named.place,
            Self::Shared(_, place) => place,
        }
    }

    /// Whether it is a limit of middleware.
    pub(super) const fn is_of_middleware(&self) -> bool {
        matches!(self, Self::Shared(..))
    }

    /// The name in header fields and response bodies.
    pub(crate) fn public_name(&self) -> &str {
        match self {
            Self::Static(named) | Self::Dynamic(named, _) => named.public_name(),
            Self::Shared(policy, _) => policy.name(),
        }
    }

    /// Whether this is the name of the limit in responses, or of its policy.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.public_name() == name || self.policy().name() == name
    }
}

/// No limit is checked: the method is not counted, or the client is exempt.
struct NotCounted;

/// Limits that `skip` or a missing caller has left out.
#[derive(Default)]
struct Skipped(SmallVec<[PolicyRef; 1]>);

/// What was left out of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut {
    all: bool,
    limits: SmallVec<[PolicyRef; 1]>,
}

/// Notes that no limit is checked.
#[cold]
pub(crate) fn note_not_counted(req: &HttpRequest) {
    req.extensions_mut().insert(NotCounted);
}

/// Notes that one limit is not checked.
#[cold]
pub(crate) fn note_skipped(req: &HttpRequest, policy: PolicyRef) {
    req.extensions_mut().get_or_insert_with(Skipped::default).0.push(policy);
}

impl LeftOut {
    pub(super) fn of(extensions: &Extensions) -> Self {
        let limits = extensions.get::<Skipped>().map(|Skipped(limits)| limits.clone()).unwrap_or_default();
        Self { all: extensions.contains::<NotCounted>(), limits }
    }

    /// Whether a limit of this name may have been left out.
    pub(super) fn includes(&self, name: &str) -> bool {
        self.all || self.limits.iter().any(|policy| policy.is_named(name))
    }

    /// The names of the limits, as far as they are known.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(PolicyRef::public_name)
    }
}
