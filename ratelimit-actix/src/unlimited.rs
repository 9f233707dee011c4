//! A store that admits every request, for tests and tools of an application that are not about its limits.

use ratelimit_core::__private_0_1::wall_clock;
use ratelimit_core::store::toolkit::Operation;
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome, Reservation, StoreError};

/// A store that counts nothing: it admits every request and reports a full quota.
///
/// It turns off all limits of a program, for tests and tools that are not about them. Two kinds of requests
/// are still rejected: one without the caller that a limit requires gets 400, and one for which a `max` of 0
/// is computed gets 429.
///
/// ```
/// use actix_web::App;
/// use ratelimit_actix::{RateLimiter, Unlimited};
///
/// let app = App::new().app_data(RateLimiter::new(Unlimited));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Unlimited {
    fn admit(group: &[Check<'_>]) -> GroupOutcome {
        let outcome = |check: &Check<'_>| {
            let limit = check.policy().capacity();
            Outcome::new(limit, Decision::Allowed).with_cost(check.cost()).with_remaining(limit)
        };
        GroupOutcome::new(wall_clock(), group.iter().map(outcome))
    }
}

impl Store for Unlimited {
    async fn decide(
        &self,
        group: &[Check<'_>],
        _: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        Ok(Self::admit(group))
    }

    async fn reset(&self, _: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    async fn refund(&self, _: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        Ok(())
    }

    fn try_decide(&self, group: &[Check<'_>], _: Operation) -> Option<GroupOutcome> {
        Some(Self::admit(group))
    }

    fn kind(&self) -> &'static str {
        "unlimited"
    }
}
