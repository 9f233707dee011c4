//! What is counted for one caller under one limit, for the operator's page.

mod answer;
mod peek;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::{PrivateLimiter as _, PrivatePolicy as _, help};
use ratelimit_core::{Outcome, Policy, RateLimiter, StoreError};
use serde::Deserialize;

pub(super) use self::answer::LookView;
use self::answer::{CountView, CountedView, MAX_COUNTS, NumbersFrom, is_counted};
use self::peek::{is_whole, peek};
use super::view::NumbersView;
use crate::address::Ipv6Prefix;
use crate::caller::Caller;
use crate::caller::counts::{CallerCount, checks, counts_of_name, distinct};
use crate::caller::notation::{NotationError, notation};
use crate::caller::reset::reset_counts;
use crate::config::RateLimitConfig;
use crate::declared::declared_limits;

/// Longest text of a caller that is read, in bytes.
const MAX_CALLER: usize = 4096;

/// The fields of a request about one caller.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    pub(super) token: Option<String>,
    limit: String,
    /// The caller as text.
    caller: String,
    /// The digest of a caller in the table of denied callers, instead of `caller`.
    digest: String,
}

/// The caller and the limit that the fields name.
pub(super) struct Subject {
    limit: String,
    /// One candidate, or for an IPv6 address one for each prefix by which it may be counted, the prefix of
    /// the nearest configuration first.
    candidates: Vec<Candidate>,
}

/// A caller that the form may mean.
struct Candidate {
    partition: Vec<u8>,
    ipv6_prefix: Option<u32>,
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
    Look(#[source] StoreError),
    #[error("the store cannot forget all counts of the caller; some may be forgotten already")]
    Reset(#[source] StoreError),
    #[error("this process knows no count of this caller, so nothing was reset")]
    NothingToReset,
}

impl LookError {
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::UnknownLimit | Self::UnknownDigest | Self::NothingToReset => StatusCode::NOT_FOUND,
            Self::LongCaller | Self::Caller(_) | Self::Form => StatusCode::BAD_REQUEST,
            Self::Token => StatusCode::FORBIDDEN,
            Self::Look(_) | Self::Reset(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Subject {
    /// Finds the limit and the caller.
    pub(super) fn find(req: &HttpRequest, fields: &Fields, limiter: &RateLimiter) -> Result<Self, LookError> {
        let Fields { limit, digest, .. } = fields;
        let is_known = declared_limits().iter().any(|known| known.policy().name() == limit)
            || limiter.builder_policies().iter().any(|known| known.name() == limit)
            || limiter.stats().limits().iter().any(|known| known.name() == limit);
        if !is_known {
            return Err(LookError::UnknownLimit);
        }
        let one = |partition| vec![Candidate { partition, ipv6_prefix: None }];
        let candidates = if !digest.is_empty() {
            let digest = digest.parse().map_err(|_| LookError::UnknownDigest)?;
            one(limiter.stats().partition_of(digest).ok_or(LookError::UnknownDigest)?)
        } else if fields.caller.len() > MAX_CALLER {
            return Err(LookError::LongCaller);
        } else if let Some(partition) = fields.caller.strip_prefix("partition ") {
            // As the application passes it to `check`.
            one(partition.as_bytes().to_vec())
        } else {
            Candidate::all(&fields.caller, RateLimitConfig::nearest(req).ipv6_prefix())?
        };
        Ok(Self { limit: limit.to_owned(), candidates })
    }

    /// What is left to the caller. All counts are read together.
    pub(super) async fn look(
        &self,
        limiter: &RateLimiter,
        show_callers: bool,
    ) -> Result<LookView, LookError> {
        let known = self.candidates.iter().map(|candidate| {
            let counts = self.shown(candidate, limiter);
            let peeked: Vec<_> = counts.iter().filter_map(peeked).collect();
            (candidate, counts, peeked)
        });
        let known: Vec<_> = known.collect();
        let checks = known.iter().flat_map(|(candidate, _, peeked)| checks(peeked, &candidate.partition));
        let checks: Vec<_> = checks.collect();
        let mut outcomes = peek(limiter, &checks).await.map_err(LookError::Look)?.into_iter();
        let mut looked = Vec::with_capacity(known.len());
        for (candidate, counts, _) in known {
            let views = counts.into_iter().map(|count| {
                let outcome = if count.in_force.is_off() { None } else { outcomes.next() };
                candidate.view(count, outcome, limiter)
            });
            looked.push((candidate, views.collect::<Vec<_>>()));
        }
        let was_counted = looked.iter().any(|(_, counts)| is_counted(counts));
        // Where nothing is counted, one candidate stands for all.
        looked.retain(|(_, counts)| !was_counted || is_counted(counts));
        looked.truncate(if was_counted { looked.len() } else { 1 });
        let partition = looked.first().map(|(candidate, _)| &candidate.partition[..]).unwrap_or_default();
        Ok(LookView {
            limit: self.limit.clone(),
            digest: limiter.stats().digest_of(partition).to_string(),
            caller: Some(partition).filter(|_| show_callers).and_then(notation),
            is_reset: false,
            was_counted,
            counts: looked.into_iter().flat_map(|(_, counts)| counts).take(MAX_COUNTS).collect(),
        })
    }

    /// The counts that may decide about a candidate, without those that repeat the numbers of another.
    fn shown(&self, candidate: &Candidate, limiter: &RateLimiter) -> Vec<CallerCount> {
        let mut shown: Vec<CallerCount> = Vec::new();
        for count in counts_of_name(limiter, &candidate.partition, &self.limit) {
            if count.may_decide
                && shown.len() < MAX_COUNTS
                && !shown.iter().any(|other| other.has_numbers_of(&count))
            {
                shown.push(count);
            }
        }
        shown
    }

    /// Forgets what is counted for the caller. Returns whether anything was counted; then only the candidates
    /// for which it was are left.
    pub(super) async fn reset(&mut self, limiter: &RateLimiter) -> Result<bool, LookError> {
        let result = self.reset_all(limiter).await;
        // Where nothing was counted, or is known to be forgotten, one candidate stands for all.
        let logged = if matches!(result, Ok(true)) { self.candidates.len() } else { 1 };
        for candidate in self.candidates.iter().take(logged) {
            let (limit, caller) = (&*self.limit, limiter.stats().digest_of(&candidate.partition).to_string());
            // Warnings, because a reset changes what limits admit, and has to be found later.
            match &result {
                Ok(was_counted) => tracing::warn!(
                    limit,
                    caller,
                    was_counted,
                    help = help("caller-reset"),
                    "an operator reset a caller"
                ),
                Err(error) => tracing::warn!(
                    limit,
                    caller,
                    %error,
                    help = help("caller-not-reset"),
                    "an operator could not reset a caller"
                ),
            }
        }
        result
    }

    async fn reset_all(&mut self, limiter: &RateLimiter) -> Result<bool, LookError> {
        let (mut is_known, mut counted) = (false, Vec::new());
        for candidate in &self.candidates {
            let counts = counts_of_name(limiter, &candidate.partition, &self.limit);
            let policies = distinct(&counts);
            let checks = checks(&policies, &candidate.partition);
            // Without an answer something may be counted. There is no answer about a corrupt state until it
            // is reset.
            let was_counted =
                !peek(limiter, &checks).await.is_ok_and(|outcomes| outcomes.iter().all(is_whole));
            reset_counts(limiter, &checks).await.map_err(LookError::Reset)?;
            is_known |= !checks.is_empty();
            counted.push(was_counted);
        }
        if !is_known {
            return Err(LookError::NothingToReset);
        }
        let was_counted = counted.contains(&true);
        if was_counted {
            let mut counted = counted.into_iter();
            self.candidates.retain(|_| counted.next() == Some(true));
        }
        Ok(was_counted)
    }
}

/// The policy by which a count is peeked; `None` if its limit is off.
fn peeked(count: &CallerCount) -> Option<Policy> {
    let policy = count.in_force.policy();
    // Without a known `max`, a peek counts exactly under the largest one.
    let policy = if count.computed.has_max(&count.in_force) { policy.clone() } else { policy.largest() };
    (!count.in_force.is_off()).then_some(policy)
}

impl Candidate {
    /// The callers that the text may mean, by each prefix in use.
    fn all(text: &str, nearest: Ipv6Prefix) -> Result<Vec<Self>, LookError> {
        let mut candidates: Vec<Self> = Vec::new();
        for prefix in [nearest].into_iter().chain(Ipv6Prefix::in_use()) {
            let caller = Caller::from_form(text, |address| prefix.group(address))?;
            let partition = caller.partition().ok_or(NotationError::Empty)?.to_vec();
            if candidates.iter().all(|candidate| candidate.partition != partition) {
                candidates.push(Self { partition, ipv6_prefix: Some(prefix.bits()) });
            }
        }
        if let [only] = &mut candidates[..] {
            only.ipv6_prefix = None;
        }
        Ok(candidates)
    }

    fn view(&self, count: CallerCount, outcome: Option<Outcome>, limiter: &RateLimiter) -> CountView {
        let numbers = NumbersView::of(&count.in_force, count.computed, limiter);
        let counted = outcome.map(|outcome| CountedView::new(&outcome, &count));
        let now = NumbersFrom::Now(count.in_force.origin());
        let origin = if count.is_undeclared { NumbersFrom::Decision } else { now };
        CountView { origin, plan: count.plan, ipv6_prefix: self.ipv6_prefix, numbers, counted }
    }
}
