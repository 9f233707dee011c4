//! What is done after the handler when only some answers count: giving back, and telling the truth about it.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use actix_web::rt::time::{Instant, timeout};
use ratelimit_core::{Check, GroupOutcome, Policy};
use smallvec::SmallVec;

use crate::key::Key;
use crate::limit::Limit;
use crate::limiter;

/// How long an answer waits at most, from the beginning of a refund, for what is left after it.
const PATIENCE: Duration = Duration::from_millis(100);

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
    /// One attempt, within the store's own deadline. When it fails the charge stays, and the log says so.
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
        let limiter = limiter::nearest(req);
        let begun = Instant::now();
        if let Err(error) = limiter.refund(reservation).await {
            tracing::warn!(
                store = limiter.store_kind(),
                %error,
                "a request that should not count could not be given back, and stays charged"
            );
            return Settled::AsCharged;
        }
        let looks: SmallVec<[Check<'_>; 2]> = refunds.iter().map(|check| check.cost(0)).collect();
        let left = timeout(PATIENCE.saturating_sub(begun.elapsed()), limiter.peek_all(&looks)).await;
        Settled::Refunded(left.ok().and_then(Result::ok))
    }
}
