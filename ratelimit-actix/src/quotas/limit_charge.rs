//! What one limit was charged for a request, selected by the limit's name: for settling it to the true cost.

use std::panic::Location;

use ratelimit_core::__private_0_1::{OfProcess, concurrency_limit, too_many_units};
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{GroupOutcome, RateLimiter};
use smallvec::smallvec;

use super::Quotas;
use super::group::DecidedGroup;
use super::quota::{Closed, Quota};
use super::quota_error::QuotaError;
use super::settlement::{SettleOnDrop, UsageCounter};

/// What one limit was charged for this request. [`Quotas::limit`] selects it.
///
/// The attribute charges an estimate before the handler runs, and the handler settles it to the true cost.
/// The other limits of the request keep their charges.
///
/// * If the true cost is lower, the surplus is given back, as far as it still counts. If it is higher, the
///   rest is charged even if the limit does not admit it: later requests are denied until time has paid the
///   debt.
/// * Units of [`Quotas::charge_up_to`] are part of what is settled.
/// * A limit is settled at most once for a request. If settling fails, the result is unknown, and another
///   attempt is an error.
/// * A settled limit is not refunded after the response, whatever its `count` says.
/// * A concurrency limit cannot be settled: its slot is freed when the response has been sent. A limit that
///   charges after the response cannot either: nothing is charged yet.
#[derive(Debug)]
#[must_use = "a limit is settled by `settle` or `settle_on_drop`"]
pub struct LimitCharge {
    quotas: Quotas,
    /// For errors.
    name: String,
    /// Its group and its position there. `None` if the limit does not apply to the request.
    position: Option<(usize, usize)>,
}

impl Quotas {
    /// Selects a limit of this request by its [name](Quota::name), or by the name of its policy.
    ///
    /// The limits of the handler are searched before those of the middleware around it, and of several with
    /// one name the first in the source is selected.
    ///
    /// A limit that does not apply to this request is selected as well, and settling it has no effect: `skip`
    /// or `on_missing` left it out, the client is [exempt](crate::RateLimitConfigBuilder::exempt), or
    /// `OPTIONS` is not counted.
    ///
    /// # Errors
    ///
    /// [`QuotaError::UnknownLimit`] with the names of all limits of the request. One error is logged for
    /// each place in the source that gives a wrong name, with the names that exist.
    ///
    /// # Examples
    ///
    /// ```
    /// use actix_web::{Responder, Result, post};
    /// use ratelimit_actix::{Quotas, rate_limit};
    ///
    /// /// 60 requests per minute, and 100,000 tokens, of which an answer is expected to take 2000.
    /// #[rate_limit(max = 60, window = "1m", name = "requests")]
    /// #[rate_limit(max = 100_000, window = "1m", name = "tokens", cost = 2000, algorithm = "token_bucket")]
    /// #[post("/chat")]
    /// async fn chat(prompt: String, quotas: Quotas) -> Result<impl Responder> {
    ///     let answer = format!("You said: {prompt}");
    ///     let used = answer.split(' ').count() as u64;
    ///     quotas.limit("tokens")?.settle(used).await?;
    ///     Ok(answer)
    /// }
    /// ```
    #[track_caller]
    pub fn limit(&self, name: &str) -> Result<LimitCharge, QuotaError> {
        let decisions = self.decisions.borrow();
        let mut groups = decisions.groups.iter().enumerate().rev();
        let position = groups.find_map(|(group, decided)| {
            Some((group, decided.quotas.iter().position(|quota| quota.limit.written.is_named(name))?))
        });
        if position.is_none() && !decisions.left_out.includes(name) {
            let checked = decisions.groups.iter().flat_map(|group| &group.quotas).map(Quota::name);
            let names = checked.chain(decisions.left_out.names()).map(str::to_owned).collect();
            return Err(QuotaError::unknown_limit(name, names, Location::caller()));
        }
        Ok(LimitCharge { quotas: self.clone(), name: name.to_owned(), position })
    }
}

impl LimitCharge {
    /// The quota of the limit. `None` if the limit does not apply to this request.
    pub fn quota(&self) -> Option<Quota> {
        self.with_quota(|_, quota| quota.clone())
    }

    /// Corrects what the limit was charged to `actual` units. The header fields of the response then report
    /// what is left.
    ///
    /// With Redis this takes two round trips, each with a deadline of its own: one to settle, which is left
    /// out if `actual` is what was charged, and one to look at what is left. If [`Quotas::charge_up_to`] has
    /// charged the limit as well, giving back takes one for each charge that changes.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the limit is settled already, its charge was refunded, `actual` is above 10^12, the
    /// limit is a concurrency limit, turns behind the charge are not due, or the store does not answer within
    /// its deadline.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped has settled the limit, or not, or in part if it was charged more than once.
    /// It cannot be settled again.
    pub async fn settle(self, actual: u64) -> Result<(), QuotaError> {
        if actual > MAX_UNITS {
            return Err(too_many_units(actual).into());
        }
        let Some(settled) = self.claim()? else { return Ok(()) };
        settled.settle(actual).await?;
        let was_degraded = settled.quotas.iter().any(|quota| quota.outcome().is_degraded());
        if let Some([left]) = settled.peek(was_degraded).await.as_ref().map(GroupOutcome::outcomes) {
            self.with_quota(|_, quota| quota.set_left(left.clone()));
        }
        Ok(())
    }

    /// Settles the limit to what `counter` says when the returned value is dropped: the true cost of a
    /// streaming response, also if the client goes away. Move the returned value into the stream.
    ///
    /// * From now on the limit counts as settled.
    /// * In memory the limit is settled while the value is dropped. With Redis the store's own thread does
    ///   it, within the deadline of the store, also if the worker ends, or there is no runtime. If it fails,
    ///   what was charged stays charged, and a warning is logged. A process that ends does not wait for it: a
    ///   server of Actix-web ends 300 ms after its workers.
    /// * A counter above 10^12 counts as 10^12.
    /// * If the handler returns before the stream begins, the counter is 0 and everything is given back. A
    ///   counter of [`UsageCounter::or_estimate`] keeps the charge then: call this when the work has begun.
    /// * By default Actix-web notices that a client has gone away when it sends the next part of the body. A
    ///   stream with long pauses is settled at once with `HttpServer::h1_allow_half_closed(false)`.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the limit is settled already, its charge was refunded, or the limit is a
    /// concurrency limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use actix_web::web::Bytes;
    /// use actix_web::{HttpResponse, Responder, Result, post};
    /// use futures_util::stream::{self, StreamExt};
    /// use ratelimit_actix::{Quotas, UsageCounter, rate_limit};
    ///
    /// #[rate_limit(max = 100_000, window = "1m", name = "tokens", cost = 2000, algorithm = "token_bucket")]
    /// #[post("/chat")]
    /// async fn chat(quotas: Quotas) -> Result<impl Responder> {
    ///     let used = UsageCounter::default();
    ///     let settle = quotas.limit("tokens")?.settle_on_drop(&used)?;
    ///     let answer = stream::iter(["one ", "two ", "three"]).map(move |token| {
    ///         // Owned by the stream, and dropped with it.
    ///         let _settle = &settle;
    ///         used.add(1);
    ///         Ok::<_, Infallible>(Bytes::from(token))
    ///     });
    ///     Ok(HttpResponse::Ok().streaming(answer))
    /// }
    /// ```
    pub fn settle_on_drop(self, counter: impl Into<UsageCounter>) -> Result<SettleOnDrop, QuotaError> {
        Ok(SettleOnDrop { settled: self.claim()?.map(OfProcess::new), counter: counter.into() })
    }

    /// The limit as a group of one. No other call settles or refunds it from now on. `None` if it does not
    /// apply.
    fn claim(&self) -> Result<Option<DecidedGroup>, QuotaError> {
        if self.position.is_none() {
            return Ok(None);
        }
        let limit = || self.name.clone();
        let claimed = self.with_quota(|limiter, quota| {
            if !quota.is_rate() {
                return Err(concurrency_limit(limit()).into());
            }
            if !quota.is_charged() {
                return Err(QuotaError::ChargedAfter { limit: limit() });
            }
            match quota.close(Closed::Settled) {
                Ok(()) => {
                    Ok(Some(DecidedGroup { limiter: limiter.clone(), quotas: smallvec![quota.clone()] }))
                }
                Err(Closed::Settled) => Err(QuotaError::AlreadySettled { limit: limit() }),
                Err(Closed::Refunded) => Err(QuotaError::Refunded { limit: limit() }),
            }
        });
        // A refund that leaves the rest unknown has removed the quotas.
        claimed.unwrap_or_else(|| Err(QuotaError::Refunded { limit: limit() }))
    }

    fn with_quota<R>(&self, read: impl FnOnce(&RateLimiter, &mut Quota) -> R) -> Option<R> {
        let (group, position) = self.position?;
        let with_quota =
            |group: &mut DecidedGroup| Some(read(&group.limiter, group.quotas.get_mut(position)?));
        self.quotas.with_group(group, with_quota).flatten()
    }
}
