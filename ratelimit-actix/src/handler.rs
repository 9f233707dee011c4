//! The run-time half of the attribute: the way of a request around its handler.

pub(crate) mod bounds;
pub(crate) mod default_key;
pub(crate) mod extracted;

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::Slots;

use self::bounds::Answer;
use self::extracted::Extracted;
use crate::applied_limit::LimitRef;
use crate::config::RateLimitConfig;
use crate::decision::values::{AllValues, compute};
use crate::decision::{Decision, begin, end, is_counted, reject, write_quotas, write_quotas_of};
use crate::quotas::{Quotas, has_corrections};
use crate::response::{HeaderStyle, hold};
use crate::written_limit::WrittenLimit;

/// A request that all limits of its handler admit.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct AdmittedRequest {
    req: HttpRequest,
    payload: Payload,
    /// The slots of the request, until its response has been sent, or until this is dropped without one.
    held: Cell<Slots>,
}

/// The admitted request, or the response to a rejected one.
type Admitted = Result<AdmittedRequest, HttpResponse>;

/// A decision that is made, or that needs a round trip.
///
/// This is an enum and not an async function: a future that may wait for a server is large, and every request
/// would copy it, also where none ever waits. The future of a decision that is made is no larger than the
/// decision.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
#[must_use = "a request is admitted only by awaiting it"]
pub enum Admission {
    /// The decision is made; `None` once it was returned.
    Ready(Option<Admitted>),
    /// The request needs a round trip, or is rejected.
    Pending(Pin<Box<dyn Future<Output = Admitted>>>),
}

impl Future for Admission {
    type Output = Admitted;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Admitted> {
        match self.get_mut() {
            // A future must not be polled after it was ready.
            Self::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Self::Pending(pending) => pending.as_mut().poll(context),
        }
    }
}

/// Checks all limits of a handler at once, before anything reads the body. The future returns the response to
/// a rejected request as its error.
#[inline]
pub fn admit(req: HttpRequest, payload: web::Payload, limits: &'static [WrittenLimit]) -> Admission {
    let config = RateLimitConfig::nearest(&req);
    let decision = if is_counted(&req, config) {
        begin(&req, config, limits.iter().map(|limit| (LimitRef::Attribute(limit), None)))
    } else {
        Decision::Made(Ok(Slots::default()))
    };
    admission(req, payload.into_inner(), decision)
}

/// As [`admit`], for limits with values that are computed for each request.
///
/// # Errors
///
/// The response to a rejected request.
pub async fn admit_computed(
    req: HttpRequest,
    payload: web::Payload,
    limits: &'static [WrittenLimit],
) -> Admitted {
    // A configuration skips only `OPTIONS` and exempt networks. Otherwise the look-up is saved.
    let may_skip = *req.method() == Method::OPTIONS || RateLimitConfig::any_exempt();
    let skips_all = may_skip && !is_counted(&req, RateLimitConfig::nearest(&req));
    let extracted = Extracted::new(req);
    let computed = compute(limits.iter(), &extracted, skips_all).await;
    admit_with(extracted.into_request(), payload.into_inner(), limits, computed).await
}

fn admit_with(
    req: HttpRequest,
    payload: Payload,
    limits: &'static [WrittenLimit],
    (mut values, failed): (AllValues, Option<Box<Error>>),
) -> Admission {
    if let Some(error) = failed {
        return Admission::Pending(Box::pin(async move {
            Err(reject_failed(req, payload, limits, values, error).await)
        }));
    }
    let config = RateLimitConfig::nearest(&req);
    let limits = limits.iter().map(LimitRef::Attribute).zip(values.iter_mut().map(Some));
    let decision = begin(&req, config, limits);
    admission(req, payload, decision)
}

/// Rejects a request for which an extractor of a limit failed. The other limits by address or principal are
/// checked first, as a group of their own, so that guesses of a token, which fail in the extractor, are
/// limited all the same.
async fn reject_failed(
    req: HttpRequest,
    payload: Payload,
    limits: &'static [WrittenLimit],
    mut values: AllValues,
    error: Box<Error>,
) -> HttpResponse {
    for (limit, values) in limits.iter().zip(&mut values) {
        values.skip_unless_known(limit, &req);
    }
    match admit_with(req, payload, limits, (values, None)).await {
        Ok(admitted) => admitted.fail(*error).await,
        Err(denied) => denied,
    }
}

/// The rest of the way of a request, on which only what has to wait is boxed.
#[inline]
pub(crate) fn admission(req: HttpRequest, payload: Payload, decision: Decision) -> Admission {
    let admitted = move |req, payload, held| AdmittedRequest { req, payload, held: Cell::new(held) };
    match decision {
        Decision::Made(Ok(held)) => Admission::Ready(Some(Ok(admitted(req, payload, held)))),
        Decision::Made(Err(rejection)) => {
            Admission::Pending(Box::pin(async move { Err(reject(&req, payload, rejection).await) }))
        }
        Decision::Waits(mut limits, mut waiting) => Admission::Pending(Box::pin(async move {
            match end(&req, &mut limits, &mut waiting).await {
                Ok(held) => Ok(admitted(req, payload, held)),
                // Boxed, because it is rare and its future is large.
                Err(rejection) => Err(Box::pin(reject(&req, payload, rejection)).await),
            }
        })),
    }
}

/// Awaits the decision, and runs the extractors of the handler together, as Actix does. One function does
/// both, because each `await` in an expansion is code of its own in every handler.
///
/// # Errors
///
/// The response to a rejected request; or that of the extractor that failed, with the quotas: the request was
/// charged, which is refunded if the response does not count.
pub async fn extract<T: FromRequest>(
    admission: impl Future<Output = Admitted>,
) -> Result<(AdmittedRequest, T), HttpResponse> {
    let mut admitted = admission.await?;
    match T::from_request(&admitted.req, &mut admitted.payload).await {
        Ok(arguments) => Ok((admitted, arguments)),
        // Boxed, because it is rare and its future is large.
        Err(error) => Err(Box::pin(admitted.fail(error.into())).await),
    }
}

impl AdmittedRequest {
    /// Turns the value that the handler returned, also an error, into its response, and adds the quotas.
    pub fn respond<R: Answer>(&self, returned: R) -> HttpResponse {
        self.sent(returned.respond_to(&self.req).map_into_boxed_body())
    }

    /// The configuration is looked up once before the handler and once here: the request moves in between,
    /// and a clone would touch a reference count that all threads share.
    fn styles(&self) -> &[HeaderStyle] {
        RateLimitConfig::nearest(&self.req).header_styles()
    }

    /// A response with the quotas, which holds the slots from now on.
    fn sent(&self, mut response: HttpResponse) -> HttpResponse {
        write_quotas_of(&self.req, self.styles(), response.headers_mut());
        hold(response, self.held.take())
    }

    /// The response to a request that was charged and whose extractor failed.
    pub(crate) async fn fail(self, error: Error) -> HttpResponse {
        let response = self.sent(HttpResponse::from_error(error));
        self.finish(response).await
    }

    /// Refunds the limits that do not count a response with this status, charges those that charge after it,
    /// and updates the quotas in it.
    ///
    /// Expansions of handlers with `count` call it with the response of [`respond`](Self::respond).
    pub async fn finish(self, mut response: HttpResponse) -> HttpResponse {
        if has_corrections(&self.req, response.status())
            && let Some(quotas) = Quotas::of(&self.req)
            && let Some(group) = quotas.group_of_attributes()
            && quotas.correct(group, response.status()).await
        {
            write_quotas(&quotas, true, self.styles(), response.headers_mut());
        }
        response
    }
}
