//! Checks that a handler makes itself, with the response of an attribute to a denial.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::{PrivateInForce, PrivateLimiter as _, help, wall_clock};
use ratelimit_core::{Check, GroupOutcome, InForce, Slots, StoreError};

use super::respond::{denied, rejected, unavailable};
use super::{checks, is_counted};
use crate::applied_limit::{AppliedLimit, AppliedLimits};
use crate::config::RateLimitConfig;
use crate::quotas::Quotas;
use crate::request::nearest_limiter;
use crate::response::Rejected;

/// Checks limits by hand: for a caller or a cost that is in the body, which an attribute cannot read.
///
/// The [nearest limiter](nearest_limiter) charges all checks or none, as for an attribute: by the numbers of
/// [overrides](ratelimit_core::RateLimiterBuilder), and not for
/// [exempt](crate::RateLimitConfigBuilder::exempt) clients. From then on the limits are among the [`Quotas`]
/// of the request. The fields of an attribute or middleware around show them, and [`Quotas::limit`] settles
/// them.
///
/// **Slots of concurrency limits are free when what this returns is dropped**: keep
/// [`into_slots`](Admitted::into_slots) while the work runs.
///
/// # Errors
///
/// [`Rejected`], which every `?` takes: 429 for a denial, 503 if the store did not answer and a limit fails
/// closed, or for more than [`MAX_GROUP`](crate::MAX_GROUP) checks, which is logged. The response is that of
/// the nearest [`RateLimitConfig`], its error handler included.
///
/// # Panics
///
/// If the handler still borrows the extensions of the request: copy out of them what the checks need.
///
/// # Cancel safety
///
/// As [`check_all`](crate::RateLimiter::check_all). A request that is charged but not admitted, because the
/// future was dropped, is not among its quotas.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::{HttpRequest, Result, post, web};
/// use ratelimit_actix::{Check, Policy, admit, caller};
///
/// static VIDEOS: Policy = Policy::new("videos", 1000, Duration::from_secs(3600));
///
/// #[post("/import")]
/// async fn import(req: HttpRequest, videos: web::Json<Vec<String>>) -> Result<String> {
///     let by = caller::principal_or_ip(&req);
///     admit(&req, [Check::new(&VIDEOS, &by).with_cost(videos.len() as u64)]).await?;
///     Ok(format!("{} videos", videos.len()))
/// }
/// ```
#[track_caller]
pub fn admit<'c>(
    req: &HttpRequest,
    checks: impl AsRef<[Check<'c>]>,
) -> impl Future<Output = Result<Admitted, Rejected>> {
    // Not in the future, where the place of the call is unknown.
    let limits = applied(req, checks.as_ref());
    async move {
        match check(req, &limits).await {
            Ok(outcome) => {
                let (quotas, group) = Quotas::add_by_hand(req, limits, &outcome);
                if outcome.is_allowed() {
                    return Ok(Admitted { outcome, quotas, group });
                }
                Err(rejected(req, denied(req, outcome)).await)
            }
            // The limiter has logged any other reason.
            Err(error) => {
                if let StoreError::GroupTooLarge { .. } = error {
                    tracing::error!(%error, help = help("too-many-checks"), "checks by hand are rejected");
                }
                Err(rejected(req, unavailable(req)).await)
            }
        }
    }
}

/// The limits of checks that apply to a request, with the numbers in force.
#[track_caller]
fn applied(req: &HttpRequest, checks: &[Check<'_>]) -> AppliedLimits {
    let mut limits = AppliedLimits::new();
    if !is_counted(req, RateLimitConfig::nearest(req)) {
        return limits;
    }
    let overrides = nearest_limiter(req).overrides_guard();
    for check in checks {
        let mut limit = AppliedLimit::of(check);
        let row = overrides.limit(check.policy()).map(|rows| rows.of_request(None, check.partition()));
        if row.as_ref().is_some_and(InForce::is_off) {
            Quotas::leave_out(req, limit.written);
            continue;
        }
        limit.in_force = row.as_ref().map(InForce::shared_policy);
        limits.push(limit);
    }
    limits
}

/// A request is no `Send`, so its handler is on a worker.
async fn check(req: &HttpRequest, limits: &AppliedLimits) -> Result<GroupOutcome, StoreError> {
    if limits.is_empty() {
        return Ok(GroupOutcome::new(wall_clock(), []));
    }
    let (limiter, checks) = (nearest_limiter(req), checks(limits));
    limiter.check_all_on_worker(&checks).await
}

/// A request that [limits checked by hand](admit) admit. Dropping it frees the slots of concurrency limits.
#[derive(Debug)]
pub struct Admitted {
    outcome: GroupOutcome,
    quotas: Quotas,
    /// The position of the limits in `quotas`.
    group: usize,
}

impl Admitted {
    /// The outcomes of the checks, in their order. Limits that are off by overrides have none, and neither
    /// has a request that is not counted.
    pub fn outcome(&self) -> &GroupOutcome {
        &self.outcome
    }

    /// The slots of concurrency limits, which are freed when this is dropped. A handler keeps them in a
    /// variable, a stream in what it owns.
    ///
    /// # Examples
    ///
    /// ```
    /// use actix_web::{HttpRequest, Result, post};
    /// use ratelimit_actix::{Check, Policy, admit};
    ///
    /// static EXPORTS: Policy = Policy::concurrency("exports", 2);
    ///
    /// #[post("/exports")]
    /// async fn export(req: HttpRequest, tenant: String) -> Result<String> {
    ///     let _slot = admit(&req, [Check::new(&EXPORTS, &tenant)]).await?.into_slots();
    ///     Ok(format!("all of {tenant}"))
    /// }
    /// ```
    pub fn into_slots(mut self) -> Slots {
        self.outcome.take_slots()
    }

    /// Charges the [looks](Check::uncharged) of the group, each by itself, if its cost still fits: for a
    /// limit that counts failures, such as wrong passwords. The header fields show such a limit only if it
    /// denies.
    ///
    /// The limiter logs a charge that fails. Frees the slots of the group.
    pub async fn charge(self) {
        // Checks that are no looks are charged, and count every response.
        self.quotas.correct(self.group, StatusCode::OK).await;
    }
}
