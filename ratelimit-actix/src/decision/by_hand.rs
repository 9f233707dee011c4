//! The response of a handler after a check of its own.

use actix_web::{Error, HttpRequest};
use ratelimit_core::{Check, GroupOutcome, StoreError};

use super::respond::{denied, error, unavailable};
use crate::applied_limit::AppliedLimit;
use crate::quotas::Quotas;
use crate::response::Rejection;

impl Rejection {
    /// The response of a handler after a check of its own: none if `checked`, the result of `checks`, allows
    /// the request, and otherwise the error with which an attribute with these limits would reject it.
    ///
    /// The response has the header fields, the body and the [error handler] of the nearest
    /// [`RateLimitConfig`](crate::RateLimitConfig): 429 for a denial, 503 if the store did not answer. From
    /// then on a denial is among the [`Quotas`] of the request, so that the fields show it, also if the
    /// handler has an attribute.
    ///
    /// For the [`Outcome`](crate::Outcome) of a single check, pass `&checked.map(GroupOutcome::from)`. The
    /// slots of a concurrency limit are [in the outcome](GroupOutcome::take_slots): keep it while they are in
    /// use.
    ///
    /// # Errors
    ///
    /// The rejection, for `?`. With an error handler it is an `InternalError` of that function's error, with
    /// the completed response.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use actix_web::{HttpRequest, Result, post, web};
    /// use ratelimit_actix::{Check, Policy, RateLimiter, Rejection};
    ///
    /// static INVITATIONS: Policy = Policy::new("invitations", 5, Duration::from_secs(3600));
    ///
    /// #[post("/invitations")]
    /// async fn invite(req: HttpRequest, guest: String, limiter: web::Data<RateLimiter>) -> Result<String> {
    ///     let to_guest = [Check::new(&INVITATIONS, &guest)];
    ///     Rejection::unless_allowed(&req, &to_guest, &limiter.check_all(&to_guest).await)?;
    ///     Ok(format!("{guest} is invited"))
    /// }
    /// ```
    ///
    /// [error handler]: crate::RateLimitConfigBuilder::error_handler
    pub fn unless_allowed(
        req: &HttpRequest,
        checks: &[Check<'_>],
        checked: &Result<GroupOutcome, StoreError>,
    ) -> Result<(), Error> {
        let rejection = match checked {
            Ok(outcome) if outcome.is_allowed() => return Ok(()),
            Ok(outcome) => {
                let mut limits = checks.iter().map(AppliedLimit::of).collect();
                Quotas::add(req, &mut limits, outcome);
                denied(req, outcome.clone())
            }
            // The limiter has logged the reason.
            Err(_) => unavailable(req),
        };
        Err(error(req, *rejection))
    }
}
