//! One caller under one limit: what is left, and forgetting it.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::stats::{CallerDigest, LimitStats};
use ratelimit_core::{Algorithm, Policy, RateLimiter, StoreError};
use serde::{Deserialize, Serialize};

use super::in_force::micros;
use crate::caller::Caller;
use crate::caller::notation::{NotationError, notation};
use crate::config::RateLimitConfig;
use crate::handler::registry::declared_limits;
use crate::quotas::share_count;

/// Longest text of a caller that is read, in bytes.
const MAX_CALLER: usize = 4096;

/// The fields of a request about one caller.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    pub(super) token: Option<String>,
    limit: String,
    /// The caller as text.
    pub(super) caller: String,
    /// The digest of a caller in the table of denied callers, instead of `caller`.
    digest: String,
    /// The digest and the limit of a row of that table, with a blank between them, instead of the other fields.
    listed: String,
}

impl Fields {
    /// The digest of the caller; empty if the caller is a text.
    pub(super) fn digest(&self) -> &str {
        self.listed.split_once(' ').map_or(&self.digest, |(digest, _)| digest)
    }

    fn limit(&self) -> &str {
        self.listed.split_once(' ').map_or(&self.limit, |(_, limit)| limit)
    }
}

/// One caller under one limit.
#[derive(Debug, Serialize)]
pub(super) struct LookView {
    pub(super) limit: String,
    pub(super) digest: String,
    /// `None` unless the application shows callers.
    pub(super) caller: Option<String>,
    /// Whether the counts were forgotten just now.
    pub(super) is_reset: bool,
    /// One for each count of the limit: policies with this name may count apart.
    pub(super) counts: Vec<CountView>,
}

/// The count of a caller. Times are in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct CountView {
    pub(super) key: String,
    pub(super) algorithm: &'static str,
    pub(super) window_us: u64,
    /// Whether a request of one unit passes now.
    pub(super) passes: bool,
    /// Units that can pass at one instant. `None` if `max` is computed for each request, and none was seen.
    pub(super) limit: Option<u64>,
    /// How many requests of one unit pass now.
    pub(super) remaining: Option<u64>,
    /// The limit less what remains.
    pub(super) counted: u64,
    /// Time until a request of one unit passes; `None` if it passes now.
    pub(super) retry_after_us: Option<u64>,
    /// Time until the full quota is back.
    pub(super) reset_after_us: u64,
    /// Whether this process answered, during an outage of the store.
    pub(super) is_degraded: bool,
}

/// The caller and the limit that the fields name.
pub(super) struct Subject {
    limit: String,
    policies: Vec<NamedCount>,
    partition: Vec<u8>,
    digest: CallerDigest,
}

/// A policy, and whether its `max` means something.
struct NamedCount {
    policy: Policy,
    has_max: bool,
}

/// Why a request about a caller has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    #[error("this process has no limit with this name; the page lists them")]
    UnknownLimit,
    #[error("this caller is no longer among those that were denied most")]
    UnknownDigest,
    #[error("the caller has more than {MAX_CALLER} bytes")]
    LongCaller,
    #[error(transparent)]
    Caller(#[from] NotationError),
    #[error("the token is missing or of another process; load the page again")]
    Token,
    #[error("expected the fields of a form, as `application/x-www-form-urlencoded`")]
    Form,
    #[error("the store does not answer, and the limit fails closed")]
    Store(#[from] StoreError),
}

impl LookError {
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::UnknownLimit | Self::UnknownDigest => StatusCode::NOT_FOUND,
            Self::LongCaller | Self::Caller(_) | Self::Form => StatusCode::BAD_REQUEST,
            Self::Token => StatusCode::FORBIDDEN,
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Subject {
    /// Finds the limit and the caller.
    pub(super) fn find(req: &HttpRequest, fields: &Fields, limiter: &RateLimiter) -> Result<Self, LookError> {
        let (digest, limit) = (fields.digest(), fields.limit());
        let policies = policies(limit, limiter);
        if policies.is_empty() {
            return Err(LookError::UnknownLimit);
        }
        let stats = limiter.stats();
        let partition = if digest.is_empty() {
            if fields.caller.len() > MAX_CALLER {
                return Err(LookError::LongCaller);
            }
            let prefix = RateLimitConfig::nearest(req).ipv6_prefix();
            let caller = Caller::from_notation(&fields.caller, |address| prefix.group(address))?;
            caller.partition().ok_or(NotationError::Empty)?.to_vec()
        } else {
            let digest = digest.parse().map_err(|_| LookError::UnknownDigest)?;
            stats.partition_of(digest).ok_or(LookError::UnknownDigest)?
        };
        let digest = stats.digest_of(&partition);
        Ok(Self { limit: limit.to_owned(), policies, partition, digest })
    }

    /// What is left to the caller.
    pub(super) async fn look(
        &self,
        limiter: &RateLimiter,
        show_callers: bool,
    ) -> Result<LookView, LookError> {
        let mut counts = Vec::with_capacity(self.policies.len());
        for NamedCount { policy, has_max } in &self.policies {
            let outcome = limiter.peek(policy, &self.partition).await?;
            let passes = outcome.is_allowed() && !outcome.would_deny();
            counts.push(CountView {
                key: policy.key().to_owned(),
                algorithm: policy.algorithm().as_str(),
                window_us: micros(policy.window()),
                passes,
                limit: has_max.then(|| outcome.limit()),
                remaining: has_max.then(|| outcome.remaining()),
                counted: outcome.limit().saturating_sub(outcome.remaining()),
                retry_after_us: (!passes).then(|| outcome.available_after()).map(micros),
                reset_after_us: micros(outcome.reset_after()),
                is_degraded: outcome.is_degraded(),
            });
        }
        Ok(LookView {
            limit: self.limit.clone(),
            digest: self.digest.to_string(),
            caller: Some(&self.partition).filter(|_| show_callers).and_then(|bytes| notation(bytes)),
            is_reset: false,
            counts,
        })
    }

    /// Forgets what is counted for the caller.
    pub(super) async fn reset(&self, limiter: &RateLimiter) -> Result<(), LookError> {
        for NamedCount { policy, .. } in &self.policies {
            let result = limiter.reset(policy, &self.partition).await;
            let (limit, caller) = (&*self.limit, self.digest.to_string());
            match &result {
                // A warning, because it changes what limits admit, and has to be found later.
                Ok(()) => tracing::warn!(limit, caller, "an operator reset a caller"),
                Err(error) => tracing::warn!(limit, caller, %error, "an operator failed to reset a caller"),
            }
            result?;
        }
        Ok(())
    }
}

/// The policies with this name that do not share their counts: those that were decided, then those that are declared.
fn policies(name: &str, limiter: &RateLimiter) -> Vec<NamedCount> {
    let stats = limiter.stats().limits();
    let seen = stats.iter().filter(|limit| limit.name() == name).flat_map(LimitStats::policies);
    let mut found: Vec<NamedCount> =
        seen.map(|policy| NamedCount { policy: policy.clone(), has_max: true }).collect();
    for declared in declared_limits().into_iter().filter(|declared| declared.name() == name) {
        let (policy, has_max) = (declared.policy(), declared.max().is_some());
        // The counts of a bucket depend on its `max`.
        let is_countable = has_max || policy.algorithm() != Algorithm::TokenBucket;
        if is_countable && !found.iter().any(|other| share_count(&other.policy, policy)) {
            found.push(NamedCount { policy: policy.clone(), has_max });
        }
    }
    found
}
