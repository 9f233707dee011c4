//! What was decided about one request, by all limits around its handler: kept in the request, told to the client.

pub(crate) mod nearest_limiter;
pub(crate) mod request_deadline;
mod request_extension;

use std::cell::RefCell;
use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::{FromRequest, HttpRequest};
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome, Policy, RateLimiter, StoreError};
use smallvec::SmallVec;

use crate::config::RateLimitConfig;
use crate::handler::limit::Limit;
use crate::quotas::nearest_limiter;
use crate::quotas::request_deadline::Waited;
use crate::response::headers;

/// What one limit said about the request.
#[derive(Clone, Debug)]
pub struct Quota {
    rule: Rule,
    caller: Caller,
    outcome: Outcome,
}

/// The policy of a quota, which is not copied with every request.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// By an attribute, as it is in the program.
    Written(&'static Limit),
    /// By an attribute, with a `max` of its own.
    Chosen(&'static Limit, Arc<Policy>),
    /// Of middleware.
    Shared(Arc<Policy>),
}

/// Whose count it is, hidden from logs.
#[derive(Clone)]
struct Caller(SmallVec<[u8; 40]>);

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl Quota {
    pub(crate) fn new(rule: Rule, check: &Check<'_>, outcome: Outcome) -> Self {
        let caller = Caller(SmallVec::from_slice(check.partition()));
        Self { rule, caller, outcome }
    }

    /// The rule.
    pub fn policy(&self) -> &Policy {
        match &self.rule {
            Rule::Written(limit) => limit.policy(),
            Rule::Chosen(_, policy) | Rule::Shared(policy) => policy,
        }
    }

    /// What clients are told the limit is called: the policy's name, and for an attribute without `key` and `name` the
    /// function's. Limits of one answer that have the same get `-2`, `-3` after it there.
    pub fn name(&self) -> &str {
        match &self.rule {
            Rule::Written(limit) | Rule::Chosen(limit, _) => limit.shown(),
            Rule::Shared(policy) => policy.name(),
        }
    }

    /// What was decided, and what is left.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The wait that is told as `Reset`, as an instant in Unix seconds, rounded up.
    pub(crate) fn reset_unix_seconds(&self) -> u64 {
        self.outcome.at().unix_seconds_after(self.outcome.available_after())
    }

    /// Whether one more request of cost 1, or this very one, has to wait.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.outcome.is_allowed() || self.outcome.remaining() == 0
    }

    /// The instant from which at least one unit passes, in microseconds.
    pub(crate) fn available_at(&self) -> u64 {
        self.outcome.at().as_micros().saturating_add(micros(self.outcome.available_after()))
    }

    /// Time in which the whole quota comes back: the window, and for a token bucket what it takes to fill it.
    pub(crate) fn effective_window(&self) -> Duration {
        let policy = self.policy();
        let max = u128::from(policy.max());
        let micros = policy.window().as_micros() * u128::from(policy.capacity());
        Duration::from_micros(u64::try_from(micros.div_ceil(max)).unwrap_or(u64::MAX))
    }

    /// Larger for what a client has to wait longer for; by what is left where it need not wait.
    fn rank(&self) -> (bool, bool, u64, u64) {
        let is_never = self.outcome.decision() == Decision::Never;
        let left = if self.is_blocked() { 0 } else { self.outcome.remaining() };
        (is_never, self.is_blocked(), u64::MAX - left, self.available_at())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The quota that a client should look at: of those that were violated or have nothing left the one with the longest wait,
/// so that the next request passes all of them; otherwise the one with the least remaining, and of equals the one that takes
/// longer to reset.
pub(crate) fn tightest<'a>(quotas: &[&'a Quota]) -> Option<&'a Quota> {
    // Of equals `max_by_key` takes the last; the first is what was written first.
    quotas.iter().rev().copied().max_by_key(|quota| quota.rank())
}

/// The answer to one question.
type Group = SmallVec<[Quota; 1]>;

/// How often a limiter is asked at most to take what is left; the last time for nothing, which tells what is left.
const CHARGE_QUESTIONS: u32 = 8;

/// One question to a limiter, and its answer.
#[derive(Clone, Debug)]
struct Decided {
    limiter: RateLimiter,
    quotas: Group,
}

/// What is left for the caller of this request, under each of its limits: those of the middleware around the handler
/// and those of the handler.
///
/// An extractor, for handlers that say or use what is left, or that know only afterwards what a request costs. Without
/// a limit, and for a request that is not counted, it is empty.
///
/// # Examples
///
/// ```
/// use actix_web::{Responder, Result, error, get};
/// use ratelimit_actix::{Quotas, rate_limit};
///
/// /// A thousand rows per hour; nobody knows beforehand how many a query finds.
/// #[rate_limit(max = 1000, window = "1h")]
/// #[get("/query")]
/// async fn query(quotas: Quotas) -> Result<impl Responder> {
///     let rows = vec!["row"; 20];
///     // One was taken before the handler ran.
///     quotas.charge(rows.len() as u64 - 1).await.map_err(error::ErrorServiceUnavailable)?;
///     Ok(rows.join("\n"))
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    decided: Rc<RefCell<SmallVec<[Decided; 1]>>>,
    /// The time that the request has waited for stores, charges included.
    waited: Waited,
}

impl Quotas {
    /// Those of a request, if anything was decided about it.
    pub(crate) fn known(req: &HttpRequest) -> Option<Self> {
        request_extension::share(req)
    }

    /// Adds what the nearest limiter has decided about a group to those of a request.
    pub(crate) fn add(
        req: &HttpRequest,
        rules: impl Iterator<Item = Rule>,
        checks: &[Check<'_>],
        outcome: &GroupOutcome,
    ) {
        request_extension::add(req, group(rules, checks, outcome));
    }

    /// Sets the header fields that say what was decided about a request, if anything was.
    pub(crate) fn tell_of(req: &HttpRequest, headers: &mut HeaderMap) {
        let config = RateLimitConfig::nearest(req);
        if !config.header_styles().is_empty() {
            request_extension::look(req, |quotas| tell(quotas, config, headers));
        }
    }

    /// Nothing yet, of a request that has waited this long.
    fn new(waited: Waited) -> Self {
        Self { waited, ..Self::default() }
    }

    fn push(&self, decided: Decided) {
        self.decided.borrow_mut().push(decided);
    }

    /// Puts what is left after a refund in the place of what was decided last, about the same group; without it, forgets
    /// that, since nobody knows.
    pub(crate) fn settle(&self, left: Option<&GroupOutcome>) {
        let mut decided = self.decided.borrow_mut();
        match (left, decided.last_mut()) {
            (Some(left), Some(last)) => last.update(left),
            _ => drop(decided.pop()),
        }
    }

    /// Calls `look` with all of them, the outermost limits first.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&[&Quota]) -> R) -> R {
        let decided = self.decided.borrow();
        let quotas: SmallVec<[&Quota; 4]> = decided.iter().flat_map(|decided| &decided.quotas).collect();
        look(&quotas)
    }

    /// Sets the header fields that say so.
    pub(crate) fn tell(&self, config: &RateLimitConfig, headers: &mut HeaderMap) {
        self.with(|quotas| tell(quotas, config, headers));
    }

    /// One for each limit, the outermost first, in the order in which they are written.
    pub fn to_vec(&self) -> Vec<Quota> {
        self.with(|quotas| quotas.iter().copied().cloned().collect())
    }

    /// The quota that the caller will first run out of.
    pub fn tightest(&self) -> Option<Quota> {
        self.with(|quotas| tightest(quotas).cloned())
    }

    /// How many requests of cost 1 would still pass under all limits; `None` when nothing limits this request.
    pub fn remaining(&self) -> Option<u64> {
        self.with(|quotas| quotas.iter().map(|quota| quota.outcome.remaining()).min())
    }

    /// Takes `units` more from every limit of this request, or all that are left where these are fewer, and has the
    /// answer say what is left then. Returns how many could be taken of the limit that had the least. Limits that share a
    /// count take `units` each from it.
    ///
    /// A limiter is asked once when `units` are left, twice when fewer are, and at most eight times when other requests take
    /// what is left in between; then fewer units are taken than were left, down to none.
    ///
    /// # Errors
    ///
    /// When the store cannot answer in the time that the request has left: the store's deadline (100 ms with Redis) covers
    /// all that one HTTP request asks. Limits of another [`RateLimiter`] may then have been charged.
    pub async fn charge(&self, units: u64) -> Result<u64, StoreError> {
        let groups = self.decided.borrow().clone();
        let mut least = units;
        for (position, group) in groups.iter().enumerate() {
            let (taken, outcome) = group.charge(units, &self.waited).await?;
            least = least.min(taken);
            if let Some(decided) = self.decided.borrow_mut().get_mut(position) {
                decided.update(&outcome);
            }
        }
        Ok(least)
    }
}

fn group(rules: impl Iterator<Item = Rule>, checks: &[Check<'_>], outcome: &GroupOutcome) -> Group {
    let told = rules.zip(checks).zip(outcome.outcomes());
    let mut quotas = told.map(|((rule, check), told)| Quota::new(rule, check, told.clone()));
    match (checks, quotas.next()) {
        // Made in its place, since it is large.
        ([_], Some(quota)) => SmallVec::from_buf([quota]),
        (_, first) => first.into_iter().chain(quotas).collect(),
    }
}

fn tell(quotas: &[&Quota], config: &RateLimitConfig, headers: &mut HeaderMap) {
    headers::write(config.header_styles(), quotas, headers);
}

impl Decided {
    fn new(req: &HttpRequest, quotas: Group) -> Self {
        Self { limiter: nearest_limiter::nearest(req).clone(), quotas }
    }

    fn update(&mut self, outcome: &GroupOutcome) {
        for (quota, told) in self.quotas.iter_mut().zip(outcome.outcomes()) {
            quota.outcome = told.clone();
        }
    }

    /// Takes as many of `units` as are left. Others may come in between, so it is asked until it fits, for ever fewer.
    async fn charge(&self, mut units: u64, waited: &Waited) -> Result<(u64, GroupOutcome), StoreError> {
        let mut question = 1;
        loop {
            let checks = self.quotas.iter();
            let checks: SmallVec<[Check<'_>; 2]> =
                checks.map(|quota| Check::new(quota.policy(), &quota.caller.0[..]).cost(units)).collect();
            let outcome = waited.ask(&self.limiter, async |limiter| limiter.check_all(&checks).await).await?;
            // A cost of 0 takes nothing, so whatever is said about it is what is left.
            if outcome.is_allowed() || units == 0 {
                return Ok((units, outcome));
            }
            question += 1;
            let less = match question {
                2 => units - 1,
                ..CHARGE_QUESTIONS => units / 2,
                _ => 0,
            };
            // A count that several limits share is charged the sum of what they take.
            let count = |check: &Check<'_>| check.digest(&[0; 16]);
            let sharing =
                |check: &Check<'_>| checks.iter().filter(|other| count(other) == count(check)).count();
            let fits = |(check, outcome): (&Check<'_>, &Outcome)| outcome.remaining() / sharing(check) as u64;
            units = checks.iter().zip(outcome.outcomes()).map(fits).min().unwrap_or(0).min(less);
        }
    }
}

impl FromRequest for Quotas {
    type Error = actix_web::Error;
    type Future = Ready<Result<Self, Self::Error>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::known(req).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_caller() {
        let policy = Policy::new("policy", 1, Duration::from_secs(1));
        let check = Check::new(&policy, "AAAA");
        let quota = Quota::new(
            Rule::Shared(Arc::new(policy.clone())),
            &check,
            Outcome::new(1, 1, 0, 0, Decision::Allowed),
        );
        let shown = format!("{quota:?}");
        assert!(!shown.contains("AAAA") && !shown.contains("65, 65"), "{shown}");
    }

    #[test]
    fn a_token_bucket_is_full_again_after_more_than_its_window() {
        let bucket = |max, burst| {
            Policy::builder("b")
                .algorithm(ratelimit_core::Algorithm::TokenBucket)
                .max(max)
                .burst(burst)
                .window(Duration::from_secs(1))
                .build()
        };
        let window = |policy: &Policy| {
            let check = Check::new(policy, "");
            let outcome = Outcome::new(1, 1, 0, 0, Decision::Allowed);
            Quota::new(Rule::Shared(Arc::new(policy.clone())), &check, outcome).effective_window()
        };
        assert_eq!(window(&bucket(5, 20)), Duration::from_secs(4));
        assert_eq!(window(&bucket(5, 5)), Duration::from_secs(1));
        assert_eq!(window(&bucket(3, 1)), Duration::from_micros(333_334));
    }
}
