//! What is done after the handler when only some answers count: giving back, and telling the truth about it.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::{Check, GroupOutcome, Policy};
use smallvec::SmallVec;

use crate::caller::Key;
use crate::handler::limit::Limit;
use crate::quotas::nearest_limiter;
use crate::quotas::request_deadline;

/// A limit as it holds for one request.
pub(crate) struct Applied {
    pub(crate) limit: &'static Limit,
    /// The rule, if its `max` was chosen for the request.
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) key: Key,
    pub(crate) cost: u64,
}

impl Applied {
    /// The question to the store.
    pub(crate) fn check(&self) -> Check<'_> {
        let policy = self.policy.as_deref().unwrap_or(self.limit.policy());
        Check::new(policy, self.key.partition().unwrap_or_default()).cost(self.cost)
    }
}

/// What a request was charged, kept until its answer is known.
pub(crate) struct Charge {
    applied: SmallVec<[Applied; 2]>,
    outcome: GroupOutcome,
}

/// What a client is to be told about its quota.
pub(crate) enum Settled {
    /// What it was told already.
    AsCharged,
    /// This, since something was given back; nothing if the store did not say in time what is left.
    Refunded(Option<GroupOutcome>),
}

impl Charge {
    pub(crate) const fn new(applied: SmallVec<[Applied; 2]>, outcome: GroupOutcome) -> Self {
        Self { applied, outcome }
    }

    /// Gives back what limits took that do not count an answer of this status.
    ///
    /// One attempt, in the time that the request has left. A refund for which it has none goes on without the request; what
    /// the client is told is then what was charged.
    pub(crate) async fn settle(self, req: &HttpRequest, status: StatusCode) -> Settled {
        let counts = |applied: &Applied| applied.limit.counts(status);
        if self.applied.iter().all(counts) {
            return Settled::AsCharged;
        }
        // A reservation is about the whole group; what is to stay charged is refunded with 0 units.
        let refunds: SmallVec<[Check<'_>; 2]> = self
            .applied
            .iter()
            .map(|applied| if counts(applied) { applied.check().cost(0) } else { applied.check() })
            .collect();
        let Some(reservation) = self.outcome.reservation(&refunds) else {
            return Settled::AsCharged;
        };
        let limiter = nearest_limiter::nearest(req);
        let looks: SmallVec<[Check<'_>; 2]> = refunds.iter().map(|check| check.cost(0)).collect();
        // The limiter logs what fails.
        if request_deadline::ask(req, limiter, async |limiter| limiter.refund(reservation).await)
            .await
            .is_err()
        {
            return Settled::AsCharged;
        }
        let left = request_deadline::ask(req, limiter, async |limiter| limiter.peek_all(&looks).await).await;
        // What this process counts by itself says nothing about what the store holds.
        Settled::Refunded(left.ok().filter(|left| left.is_degraded() == self.outcome.is_degraded()))
    }
}
