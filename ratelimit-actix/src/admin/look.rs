//! One caller under one limit: what is left, and forgetting it.

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use ratelimit_core::__private_0_1::help;
use ratelimit_core::overrides::Origin;
use ratelimit_core::{Check, GroupOutcome, MAX_GROUP, Outcome, RateLimiter, StoreError};
use serde::{Deserialize, Serialize};

use super::view::{Numbers, micros};
use crate::address::Ipv6Prefix;
use crate::caller::Caller;
use crate::caller::notation::{NotationError, notation};
use crate::caller::reset::{CallerCount, counts_of_name, distinct};
use crate::config::RateLimitConfig;
use crate::handler::computed::Computed;
use crate::handler::registry::declared_limits;

/// Largest number of rows that are shown for one caller.
const MAX_COUNTS: usize = 20;

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

/// One caller under one limit.
#[derive(Debug, Serialize)]
pub(super) struct LookView {
    pub(super) limit: String,
    pub(super) digest: String,
    /// `None` unless the application shows callers.
    pub(super) caller: Option<String>,
    /// Whether the counts were forgotten just now.
    pub(super) is_reset: bool,
    /// Whether anything is counted for the caller, or was before the reset. Also `true` if a reset forgot what could not be read.
    pub(super) was_counted: bool,
    /// One for each row that may decide about the caller, at most [`MAX_COUNTS`].
    pub(super) counts: Vec<CountView>,
}

/// The count of a caller by one row. Times are in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct CountView {
    pub(super) origin: NumbersFrom,
    /// The plan for whose requests they are.
    pub(super) plan: Option<String>,
    /// By how many bits the address of the caller is counted here, if the process has several prefixes for it. Of prefixes that
    /// give one network, the first.
    pub(super) ipv6_prefix: Option<u32>,
    #[serde(flatten)]
    pub(super) numbers: Numbers,
    /// `None` for a limit that is off.
    pub(super) counted: Option<CountedView>,
}

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NumbersFrom {
    /// An earlier decision, by numbers that nothing declares: they were made at run time, or overrides had them.
    Decision,
    #[serde(untagged)]
    Now(Origin),
}

/// What is counted, and what is left. Times are in microseconds.
#[derive(Debug, Serialize)]
pub(super) struct CountedView {
    /// Units that are counted. `None` if `max` is computed for each request and the caller is blocked.
    pub(super) units: Option<u64>,
    /// Units that can pass at one instant. `None` if `max` is computed for each request.
    pub(super) limit: Option<u64>,
    /// How many requests of one unit pass now.
    pub(super) remaining: Option<u64>,
    /// Whether a request of one unit passes now. `None` if it depends on the `max` of the request.
    pub(super) passes: Option<bool>,
    /// Time until a request of one unit passes; `None` if it passes now, depends on the `max` or the `anchor` of the request, or needs
    /// a slot.
    pub(super) retry_after_us: Option<u64>,
    /// Time until the full quota is back. `None` if it depends on the `anchor` of the request.
    pub(super) reset_after_us: Option<u64>,
    /// Whether this process answered, during an outage of the store.
    pub(super) is_degraded: bool,
}

/// The caller and the limit that the fields name.
pub(super) struct Subject {
    limit: String,
    /// One, or one for each prefix by which the IPv6 address of the caller may be counted: that of the nearest configuration first.
    candidates: Vec<Candidate>,
}

/// One way to read the form: the caller that it may mean.
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
            || limiter.given_policies().iter().any(|known| known.name() == limit)
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
            // As the application gave it to `check`.
            one(partition.as_bytes().to_vec())
        } else {
            Candidate::all(&fields.caller, RateLimitConfig::nearest(req).ipv6_prefix())?
        };
        Ok(Self { limit: limit.to_owned(), candidates })
    }

    /// What is left to the caller.
    pub(super) async fn look(
        &self,
        limiter: &RateLimiter,
        show_callers: bool,
    ) -> Result<LookView, LookError> {
        let mut looked = Vec::new();
        for candidate in &self.candidates {
            looked.push((candidate, self.counts(candidate, limiter).await?));
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

    async fn counts(
        &self,
        candidate: &Candidate,
        limiter: &RateLimiter,
    ) -> Result<Vec<CountView>, LookError> {
        let mut shown: Vec<CallerCount> = Vec::new();
        for count in counts_of_name(limiter, &candidate.partition, &self.limit) {
            if count.may_decide
                && shown.len() < MAX_COUNTS
                && !shown.iter().any(|other| other.has_numbers_of(&count))
            {
                shown.push(count);
            }
        }
        let mut counts = Vec::with_capacity(shown.len());
        for count in shown {
            let numbers = Numbers::of(&count.in_force, count.computed, limiter.is_shadow());
            let counted = if count.in_force.is_off() {
                None
            } else {
                let policy = count.in_force.policy();
                // Without a `max` the largest one, so that a peek counts exactly.
                let policy = if numbers.max.is_some() { policy.clone() } else { policy.largest() };
                let mut outcome =
                    limiter.peek(&policy, &candidate.partition).await.map_err(LookError::Look)?;
                if count.computed.anchor {
                    // Without an `anchor` the window that began first, so that a peek finds the count of every other one.
                    let policy = policy.with_earliest_window(outcome.at());
                    outcome = limiter.peek(&policy, &candidate.partition).await.map_err(LookError::Look)?;
                }
                Some(CountedView::new(&outcome, &numbers, count.computed))
            };
            let now = NumbersFrom::Now(count.in_force.origin());
            let origin = if count.is_undeclared { NumbersFrom::Decision } else { now };
            let (plan, ipv6_prefix) = (count.plan, candidate.ipv6_prefix);
            counts.push(CountView { origin, plan, ipv6_prefix, numbers, counted });
        }
        Ok(counts)
    }

    /// Forgets what is counted for the caller. Returns whether anything was; then only those candidates are left.
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
            let partition = &candidate.partition;
            let counts = counts_of_name(limiter, partition, &self.limit);
            let has_own_anchors = counts.iter().any(|count| count.computed.anchor);
            let policies = distinct(&counts);
            let checks: Vec<Check<'_>> =
                policies.iter().map(|policy| Check::new(policy, partition).with_cost(0)).collect();
            let mut was_counted = false;
            for group in checks.chunks(MAX_GROUP) {
                was_counted |= !is_free(limiter, group, has_own_anchors).await;
                limiter.reset_all(group).await.map_err(LookError::Reset)?;
            }
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

impl Candidate {
    /// Every caller that the text is by one of the prefixes in use.
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
}

/// Whether anything is counted. Slots are counted without a time at which they end.
fn is_counted(counts: &[CountView]) -> bool {
    let is_counted = |counted: &CountedView| counted.reset_after_us > Some(0) || counted.units > Some(0);
    counts.iter().filter_map(|count| count.counted.as_ref()).any(is_counted)
}

/// Whether the store tells that nothing is counted. Without an answer something may be. A corrupt state has none until it is reset.
async fn is_free(limiter: &RateLimiter, group: &[Check<'_>], has_own_anchors: bool) -> bool {
    match limiter.peek_all(group).await {
        Ok(outcome) if has_own_anchors && is_whole(&outcome) => {
            // From the declared day nothing may be counted that is counted from another one.
            let earliest = |check: &Check<'_>| check.policy().with_earliest_window(outcome.at());
            let policies: Vec<_> = group.iter().map(earliest).collect();
            let checks = policies.iter().zip(group);
            let group: Vec<_> =
                checks.map(|(policy, check)| Check::new(policy, check.partition()).with_cost(0)).collect();
            limiter.peek_all(&group).await.is_ok_and(|outcome| is_whole(&outcome))
        }
        outcome => outcome.is_ok_and(|outcome| is_whole(&outcome)),
    }
}

/// Whether an answer of the store tells that nothing is counted.
fn is_whole(group: &GroupOutcome) -> bool {
    let is_whole =
        |outcome: &Outcome| outcome.reset_after().is_zero() && outcome.remaining() >= outcome.limit();
    !group.is_degraded() && group.outcomes().iter().all(is_whole)
}

impl CountedView {
    fn new(outcome: &Outcome, numbers: &Numbers, computed: Computed) -> Self {
        let has_max = numbers.max.is_some();
        let fits = outcome.is_allowed() && !outcome.would_deny();
        // Without a `max` the peek was made by the largest one, which only a block exceeds.
        let passes = (has_max || !fits).then_some(fits);
        Self {
            units: (has_max || fits).then(|| outcome.limit().saturating_sub(outcome.remaining())),
            limit: has_max.then(|| outcome.limit()),
            remaining: has_max.then(|| outcome.remaining()),
            passes,
            retry_after_us: (passes == Some(false) && numbers.window_us.is_some() && !computed.anchor)
                .then(|| micros(outcome.available_after())),
            reset_after_us: (!computed.anchor).then(|| micros(outcome.reset_after())),
            is_degraded: outcome.is_degraded(),
        }
    }
}
