//! The limits of one request while their parts are being chosen: what an expansion fills in when not all is constant.

use std::sync::Arc;
use std::{iter, mem};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use ratelimit_core::clock::{Clock, SystemClock};
use ratelimit_core::{Check, Decision, GroupOutcome, Outcome};
use smallvec::SmallVec;

use crate::caller::Key;
use crate::config::RateLimitConfig;
use crate::decision::refund::{Applied, Charge};
use crate::decision::{Asked, Question};
use crate::handler::limit::{By, Limit};
use crate::handler::request_fn::{self, Source};
use crate::handler::{self, Pass};
use crate::quotas::{Quotas, Rule};
use crate::response::rejection::{RateLimited, Rejection};

/// The limits of a handler and what has been chosen for one request. Made before the store is asked.
#[allow(
    missing_debug_implementations,
    reason = "a payload has none, and a request's shows what the client sent"
)]
pub struct Group {
    req: HttpRequest,
    payload: Payload,
    choices: SmallVec<[Choice; 2]>,
}

/// One limit, and what was chosen for it so far.
struct Choice {
    limit: &'static Limit,
    skipped: bool,
    caller: Option<Key>,
    max: Option<u64>,
    cost: u64,
}

impl Group {
    /// Nothing is chosen yet; nor will be for a method that is not counted.
    pub fn new(req: HttpRequest, payload: web::Payload, limits: &'static [Limit]) -> Self {
        let skipped = !RateLimitConfig::nearest(&req).counts(req.method());
        let choice =
            |limit: &'static Limit| Choice { limit, skipped, caller: None, max: None, cost: limit.units() };
        Self { choices: limits.iter().map(choice).collect(), req, payload: payload.into_inner() }
    }

    /// Whether the limit at this position still takes part.
    pub fn applies(&self, position: usize) -> bool {
        !self.choices[position].skipped
    }

    /// The request, for functions over it.
    pub const fn request(&self) -> &HttpRequest {
        &self.req
    }

    /// Runs the extractors of a closure, without the body.
    ///
    /// # Errors
    ///
    /// The extractor's own answer.
    pub async fn extract<A: FromRequest>(&self) -> Result<A, HttpResponse> {
        request_fn::extract(&self.req).await.map_err(HttpResponse::from_error)
    }

    /// Asks a function.
    ///
    /// # Errors
    ///
    /// The answer of an extractor of its that failed.
    pub async fn ask<T, K, F: Source<T, K>>(&self, function: F) -> Result<T, HttpResponse> {
        function.choose(&self.req).await.map_err(HttpResponse::from_error)
    }

    /// A part of a caller that needs no closure.
    pub fn part(&self, by: By) -> Key {
        by.caller(&self.req, RateLimitConfig::nearest(&self.req))
    }

    /// `skip`.
    pub fn skip(&mut self, position: usize, skip: bool) {
        self.choices[position].skipped = skip;
    }

    /// `by`.
    pub fn by(&mut self, position: usize, caller: Key) {
        self.choices[position].caller = Some(caller);
    }

    /// `max`.
    pub fn max(&mut self, position: usize, max: u64) {
        self.choices[position].max = Some(max);
    }

    /// `cost`.
    pub fn cost(&mut self, position: usize, cost: u64) {
        self.choices[position].cost = cost;
    }

    /// Asks the limiter about all limits that take part, at once.
    ///
    /// # Errors
    ///
    /// The answer for a request that may not go on.
    pub async fn decide(self) -> Result<Pass, HttpResponse> {
        let Self { req, payload, choices } = self;
        match decide(&req, choices).verdict().await {
            Ok(charge) => Ok(Pass { req, payload, charge }),
            Err(rejection) => Err(handler::refuse(&req, payload, rejection).await),
        }
    }
}

fn decide(req: &HttpRequest, choices: SmallVec<[Choice; 2]>) -> Asked<'_> {
    let config = RateLimitConfig::nearest(req);
    let mut applied: SmallVec<[Applied; 2]> = SmallVec::new();
    for Choice { limit, skipped, caller, max, cost } in choices {
        if skipped {
            continue;
        }
        let caller = caller.map_or_else(|| limit.caller(req, config), |caller| limit.known(caller));
        let Ok(caller) = caller else { return Asked::of_nobody(req) };
        let Some(key) = caller else { continue };
        limit.note_cost(cost);
        let policy = match max.map(|max| limit.with_max(max)) {
            None => None,
            Some(Some(policy)) => Some(Arc::new(policy)),
            Some(None) => return Asked::Now(Err(closed(req, limit, cost))),
        };
        applied.push(Applied { limit, policy, key, cost });
    }
    Asked::about(req, Choices(applied))
}

/// Limits with what was chosen for them.
struct Choices(SmallVec<[Applied; 2]>);

impl Question for Choices {
    fn checks(&self) -> SmallVec<[Check<'_>; 2]> {
        self.0.iter().map(Applied::check).collect()
    }

    fn rules(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().map(|applied| match &applied.policy {
            Some(policy) => Rule::Chosen(applied.limit, Arc::clone(policy)),
            None => Rule::Written(applied.limit),
        })
    }

    fn charged(&mut self, outcome: GroupOutcome) -> Option<Box<Charge>> {
        let may_refund = self.0.iter().any(|applied| applied.limit.may_refund());
        may_refund.then(|| Box::new(Charge::new(mem::take(&mut self.0), outcome)))
    }
}

/// The answer to a request for which a `max` of 0 was chosen: nothing passes, and no wait helps.
fn closed(req: &HttpRequest, limit: &'static Limit, cost: u64) -> Box<Rejection> {
    let outcome = Outcome::new(0, cost, 0, 0, Decision::Never);
    let now = SystemClock::new().now();
    let outcome = GroupOutcome::new(now, false, iter::once(outcome).collect());
    Quotas::add(req, iter::once(Rule::Written(limit)), &[limit.check(&[])], &outcome);
    Box::new(Rejection::RateLimited(RateLimited::new(req, outcome)))
}

/// A caller that is made of several parts.
pub fn join<const N: usize>(parts: [Key; N]) -> Key {
    Key::join(parts)
}
