//! One limit that applies to a request: its policy in force, the caller, the cost, and which responses count.

use std::fmt;
use std::ops::Deref;

use actix_web::http::StatusCode;
use ratelimit_core::Check;
use smallvec::SmallVec;

use super::policy_ref::PolicyRef;

/// One limit that applies to a request.
#[derive(Clone, Debug)]
pub(crate) struct AppliedLimit {
    pub(crate) policy: PolicyRef,
    pub(crate) caller: Partition,
    pub(crate) cost: u64,
    pub(crate) count: &'static Count,
}

/// The limits that are checked together, in the order of the source.
pub(crate) type AppliedLimits = SmallVec<[AppliedLimit; 2]>;

impl AppliedLimit {
    /// A limit that a check describes, under which every response counts.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn of(check: &Check<'_>) -> Self {
        Self {
            policy: PolicyRef::Shared(check.policy().clone().into()),
            caller: Partition(check.partition().into()),
            cost: check.cost(),
            count: &Count::All,
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

/// Which responses count. Requests with any other response get a refund.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// Every response.
    All,
    /// Responses with a status of 400 or more.
    Failures,
    /// Responses with a status below 400.
    Successes,
    /// Responses for whose status the function returns true.
    When(fn(StatusCode) -> bool),
}

impl Count {
    /// Whether a response with this status counts.
    pub(crate) fn includes(self, status: StatusCode) -> bool {
        match self {
            Self::All => true,
            Self::Failures => is_failure(status),
            Self::Successes => !is_failure(status),
            Self::When(includes) => includes(status),
        }
    }
}

fn is_failure(status: StatusCode) -> bool {
    status.as_u16() >= 400
}
