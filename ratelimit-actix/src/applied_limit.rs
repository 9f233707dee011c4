//! A limit that applies to a request: the limit as it is written, with what one request makes of it.

use std::ops::Deref;
use std::sync::Arc;

use ratelimit_core::{Check, Policy};
use smallvec::SmallVec;

use crate::caller::Partition;
use crate::written_limit::WrittenLimit;
use crate::written_limit::count::{ChargeTime, Count, Show};

/// Where a written limit is kept.
#[derive(Clone, Debug)]
pub(crate) enum LimitRef {
    /// In the `static` of an attribute.
    Attribute(&'static WrittenLimit),
    /// Of middleware, or of a check by hand.
    Shared(Arc<WrittenLimit>),
}

impl Deref for LimitRef {
    type Target = WrittenLimit;

    #[inline]
    fn deref(&self) -> &WrittenLimit {
        match self {
            Self::Attribute(limit) => limit,
            Self::Shared(limit) => limit,
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
pub(crate) type AppliedLimits = SmallVec<[AppliedLimit; 1]>;

impl AppliedLimit {
    /// A limit that a check describes, under which every response counts. A look is charged later.
    #[track_caller]
    pub(crate) fn of(check: &Check<'_>) -> Self {
        let mut written = WrittenLimit::new(check.policy().clone());
        if check.is_uncharged() {
            written.count = Count::When(|_| true);
            written.charge = ChargeTime::After;
        }
        let written = LimitRef::Shared(Arc::new(written));
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
