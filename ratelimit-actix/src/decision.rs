//! Asking the nearest limiter about a request: at once when it counts in this process, otherwise apart from the request.

pub(crate) mod refund;

use std::future::Future;
use std::pin::Pin;

use actix_web::HttpRequest;
use ratelimit_core::{Check, GroupOutcome};
use smallvec::SmallVec;

use crate::decision::refund::Charge;
use crate::quotas::nearest_limiter;
use crate::quotas::request_deadline;
use crate::quotas::{Quotas, Rule};
use crate::response::rejection::{MissingCaller, RateLimited, Rejection, Unavailable};

/// What a limiter is asked about one request. Owns the callers.
pub(crate) trait Question {
    /// One check for each limit that takes part.
    fn checks(&self) -> SmallVec<[Check<'_>; 2]>;

    /// The rule of each check.
    fn rules(&self) -> impl Iterator<Item = Rule>;

    /// What was charged, if it may have to be given back. To be asked once: it takes the callers along.
    fn charged(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>>;
}

/// Whether a request may go on, and what may then have to be given back.
pub(crate) type Verdict = Result<Option<Box<Charge>>, Box<Rejection>>;

/// A question that was asked.
///
/// Not a future: one that may have to wait for a server is large, and whoever carries it around copies it with every
/// request, also where nothing ever waits.
pub(crate) enum Asked<'r> {
    Now(Verdict),
    Later(Pin<Box<dyn Future<Output = Verdict> + 'r>>),
}

impl<'r> Asked<'r> {
    /// Of a request that is not counted.
    pub(crate) const NOTHING: Self = Self::Now(Ok(None));

    /// Of a request without the caller that a limit insists on.
    #[cold]
    pub(crate) fn of_nobody(req: &HttpRequest) -> Self {
        Self::Now(Err(Box::new(Rejection::MissingCaller(MissingCaller::new(req)))))
    }

    /// Asks the nearest limiter, and leaves what it says in the request. Not at all when there is nothing to ask.
    #[inline]
    pub(crate) fn about<Q: Question + 'r>(req: &'r HttpRequest, mut question: Q) -> Self {
        let checks = question.checks();
        if checks.is_empty() {
            return Self::NOTHING;
        }
        let limiter = nearest_limiter::nearest(req);
        if let Some(outcome) = limiter.check_all_now(&checks) {
            Quotas::add(req, question.rules(), &checks, &outcome);
            drop(checks);
            return Self::Now(verdict(req, &mut question, outcome));
        }
        drop(checks);
        Self::Later(Box::pin(async move {
            let checks = question.checks();
            let asked =
                request_deadline::ask(req, limiter, async |limiter| limiter.check_all(&checks).await).await;
            let Ok(outcome) = asked else {
                // The limiter has logged why.
                return Err(Box::new(Rejection::Unavailable(Unavailable::new(req))));
            };
            Quotas::add(req, question.rules(), &checks, &outcome);
            drop(checks);
            verdict(req, &mut question, outcome)
        }))
    }

    /// Waits for the answer, if need be.
    pub(crate) async fn verdict(self) -> Verdict {
        match self {
            Self::Now(verdict) => verdict,
            Self::Later(verdict) => verdict.await,
        }
    }
}

#[inline]
fn verdict(req: &HttpRequest, question: &mut impl Question, outcome: GroupOutcome) -> Verdict {
    if outcome.is_allowed() {
        Ok(question.charged(outcome))
    } else {
        Err(Box::new(Rejection::RateLimited(RateLimited::new(req, outcome))))
    }
}
