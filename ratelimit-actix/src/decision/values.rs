//! The values that are computed for one request, for all limits of a handler or of middleware, before any
//! limit is checked.

use std::sync::Arc;

use actix_web::{Error, HttpRequest};
use ratelimit_core::__private_0_1::{PrivateInForce as _, PrivateLimiter as _, PrivatePolicy as _, help};
use ratelimit_core::policy::MAX_UNITS;
use ratelimit_core::{InForce, Policy, RateLimiter, Settings};
use smallvec::SmallVec;

use crate::applied_limit::AppliedLimit;
use crate::caller::Caller;
use crate::caller::of_request::is_known;
use crate::caller::plan::Plan;
use crate::config::RateLimitConfig;
use crate::handler::extracted::{Extracted, Failure};
use crate::request::nearest_limiter;
use crate::written_limit::WrittenLimit;
use crate::written_limit::computed::PerRequest;

/// A cost that no limit admits.
const NEVER: u64 = MAX_UNITS + 1;

/// The values of one limit for one request.
#[derive(Default)]
pub(crate) struct Values {
    /// Whether the limit does not apply to the request.
    pub(super) is_skipped: bool,
    /// The caller, if it had to be awaited.
    pub(super) caller: Option<Caller>,
    /// The plan, if it had to be awaited.
    pub(super) plan: Plan,
    /// The numbers of the policy that are computed.
    settings: Settings,
    /// Also in `settings`; here for the log.
    max: Option<u64>,
    cost: Option<u64>,
}

/// The values of several limits, in their order.
pub(crate) type AllValues = SmallVec<[Values; 2]>;

/// The value for one request, if it is computed. An async function would be one more future to poll.
macro_rules! value {
    ($value:expr, $extracted:expr) => {
        match &$value {
            PerRequest::Never => None,
            PerRequest::Now(value) => Some(value($extracted.request())),
            PerRequest::Shared(value) => Some(value.call($extracted.request())),
            PerRequest::Later(value) => Some(value($extracted).await?),
        }
    };
}

impl Values {
    /// Computes the values in this order: `skip`, `by` and `plan` if they have to be awaited, `anchor`,
    /// `max`, `cost`. A limit that is skipped needs no other value.
    async fn compute(&mut self, limit: &WrittenLimit, extracted: &Extracted) -> Result<(), Failure> {
        let computed = &limit.computed;
        self.is_skipped = value!(computed.skip, extracted).unwrap_or_default();
        if self.is_skipped {
            return Ok(());
        }
        if limit.by.waits() {
            self.caller = Some(limit.by.computed(extracted).await?);
        }
        if let PerRequest::Later(plan) = &computed.plan {
            self.plan = plan(extracted).await?;
        }
        #[cfg(feature = "calendar")]
        if let Some(calendar) = value!(computed.anchor, extracted) {
            self.settings = self.settings.calendar(limit.nearest_calendar(calendar));
        }
        self.max = value!(computed.max, extracted);
        if let Some(max) = self.max {
            self.settings = self.settings.max(max);
        }
        self.cost = value!(computed.cost, extracted);
        Ok(())
    }

    /// Skips a limit of a request that an extractor rejects, unless its caller holds the client's address or
    /// its principal: strangers could use it up.
    pub(crate) fn skip_unless_known(&mut self, limit: &WrittenLimit, req: &HttpRequest) {
        if self.is_skipped {
            return;
        }
        let find = || limit.by.caller(req, RateLimitConfig::nearest(req));
        let caller = self.caller.get_or_insert_with(find);
        self.is_skipped = !is_known(caller, req);
        if self.is_skipped && caller.partition().is_some() && limit.is_first("left-out") {
            tracing::warn!(
                policy = limit.policy().name(),
                help = help("left-out"),
                "a limit is left out of a request that an extractor of another limit rejects; strangers could use it up, \
                 so only limits whose caller holds the client's address or its principal are charged"
            );
        }
    }
}

/// Computes the values of all limits, one limit after another.
///
/// If an extractor fails, its limit is skipped. If that limit is enforced, the first such error is returned,
/// too: the request is rejected with it, unless another limit denies the request.
pub(crate) async fn compute<'l>(
    limits: impl Iterator<Item = &'l WrittenLimit> + Clone,
    extracted: &Extracted,
    skips_all: bool,
) -> (AllValues, Option<Box<Error>>) {
    let req = extracted.request();
    let mut all = AllValues::new();
    {
        // The guard must not live across an `await`.
        let overrides = nearest_limiter(req).overrides_guard();
        let is_off = |limit: &WrittenLimit| {
            overrides.limit(limit.policy()).is_some_and(|overridden| overridden.is_off_for_all())
        };
        let start = |limit| Values { is_skipped: skips_all || is_off(limit), ..Values::default() };
        all.extend(limits.clone().map(start));
    }
    let mut failed = None;
    for (limit, values) in limits.zip(&mut all).filter(|(_, values)| !values.is_skipped) {
        if let Err(failure) = values.compute(limit, extracted).await {
            values.is_skipped = true;
            if failed.is_none() && rejects_without_value(nearest_limiter(req), limit.policy()) {
                failed = failure.take().map(Box::new);
            }
        }
    }
    (all, failed)
}

impl Values {
    /// Puts the computed numbers into a limit. Returns false if the request is to be denied, because no
    /// policy can have these numbers.
    pub(super) fn adjust(
        &self,
        applied: &mut AppliedLimit,
        row: Option<&InForce<'_>>,
        req: &HttpRequest,
    ) -> bool {
        let limit: &WrittenLimit = &applied.written;
        if let Some(cost) = self.cost {
            limit.warn_about_cost(cost, applied.policy());
            applied.cost = cost;
        }
        if self.settings == Settings::new() {
            return true;
        }
        // Overrides may replace what is computed.
        let replaced = row.map_or_else(Settings::new, InForce::replaced);
        if let Some(policy) = self.policy(limit, replaced.over(self.settings)) {
            applied.in_force = Some(Arc::new(policy));
            return true;
        }
        if nearest_limiter(req).enforces(applied.policy()) {
            return false;
        }
        // A shadow limit reports a denial: no policy admits the cost `NEVER`. First by the overrides, whose
        // `mode` may make it a shadow limit.
        let least = self.settings.max(1);
        let mut policies = [replaced.over(least), least].into_iter();
        if let Some(policy) = policies.find_map(|settings| limit.policy().with_settings(settings).ok()) {
            applied.in_force = Some(Arc::new(policy));
        }
        applied.cost = NEVER;
        true
    }

    /// The policy with the numbers of one request. `None` if no policy can have them, which is logged once;
    /// a `max` of 0 is not logged, because it is a way to deny.
    fn policy(&self, limit: &WrittenLimit, settings: Settings) -> Option<Policy> {
        let policy = limit.policy().with_settings(settings);
        if let Err(error) = &policy
            && self.max != Some(0)
            && limit.is_first("computed-max")
        {
            tracing::error!(
                policy = limit.policy().name(),
                max = self.max,
                %error,
                help = help("computed-max"),
                "the `max` that was computed for a request is out of its bounds; such requests are denied"
            );
        }
        policy.ok()
    }
}

/// Whether a limit rejects a request of which a value is missing, such as its caller. A shadow limit does
/// not, and neither does one that is off.
#[cold]
pub(super) fn rejects_without_value(limiter: &RateLimiter, policy: &Policy) -> bool {
    let in_force = limiter.in_force(policy);
    !in_force.is_off() && limiter.enforces(in_force.policy())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;

    use actix_web::error::ErrorUnauthorized;
    use actix_web::test::TestRequest;
    use ratelimit_core::Mode;

    use super::*;
    use crate::caller::IntoCaller;
    use crate::caller::plan::IntoPlan;
    use crate::handler::extracted::later;
    use crate::written_limit::by::By;
    use crate::written_limit::computed::Computed;

    thread_local! {
        static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    /// Notes a call, and returns what the header field of this name has.
    fn called(req: &HttpRequest, name: &'static str) -> Option<u64> {
        CALLS.with_borrow_mut(|calls| calls.push(name));
        req.headers().get(name)?.to_str().ok()?.parse().ok()
    }

    fn extract(extracted: &Extracted, name: &'static str) -> Result<u64, Failure> {
        let value = called(extracted.request(), name);
        value.ok_or_else(|| Failure::new(Some(ErrorUnauthorized(format!("no {name}"))).into()))
    }

    const ALL: Computed = Computed {
        skip: PerRequest::Now(|req| called(req, "skip") == Some(1)),
        plan: PerRequest::Later(|extracted| {
            let plan = called(extracted.request(), "plan");
            later(ready(Ok(plan.map(|plan| plan.to_string()).into_plan())))
        }),
        max: PerRequest::Later(|extracted| later(ready(extract(extracted, "max")))),
        cost: PerRequest::Later(|extracted| later(ready(extract(extracted, "cost")))),
        ..Computed::NONE
    };

    static LIMITS: [WrittenLimit; 3] = [
        WrittenLimit::with_computed(Policy::builder("values").mode(Mode::Enforce), ALL).by(By::Parts(&[
            By::Global,
            By::Later(|extracted| later(async { Ok(extract(extracted, "by")?.into_caller()) })),
        ])),
        WrittenLimit::with_computed(
            Policy::builder("values-shadow").mode(Mode::Shadow),
            Computed { max: ALL.max, ..Computed::NONE },
        ),
        WrittenLimit::new(Policy::builder("values-constant").max(10).build()),
    ];

    /// The functions that were called, and the values.
    async fn compute_for(fields: &[(&'static str, &str)]) -> (Vec<&'static str>, AllValues, Option<String>) {
        let req = fields.iter().fold(TestRequest::default(), |req, field| req.insert_header(*field));
        CALLS.take();
        let (values, failed) = compute(LIMITS.iter(), &Extracted::new(req.to_http_request()), false).await;
        (CALLS.take(), values, failed.map(|error| error.to_string()))
    }

    #[actix_web::test]
    async fn values_are_computed_in_one_order_limit_by_limit() {
        let fields = [("by", "5"), ("plan", "6"), ("max", "7"), ("cost", "2")];
        let (calls, values, failed) = compute_for(&fields).await;
        // The last is of the shadow limit.
        assert_eq!(calls, ["skip", "by", "plan", "max", "cost", "max"]);
        assert!(failed.is_none());
        let [first, second, constant] = &values[..] else { panic!("three limits") };
        assert_eq!(first.caller, Some(Caller::join([Caller::global(), 5.into_caller()])));
        assert_eq!((first.plan.name(), first.max, first.cost), (Some("6"), Some(7), Some(2)));
        assert_eq!(first.settings, Settings::new().max(7));
        assert_eq!((second.max, second.cost, &second.caller), (Some(7), None, &None));
        assert_eq!((constant.max, constant.is_skipped), (None, false));
    }

    #[actix_web::test]
    async fn a_skipped_limit_needs_no_other_value() {
        let (calls, values, failed) = compute_for(&[("skip", "1"), ("max", "7")]).await;
        assert_eq!(calls, ["skip", "max"]);
        assert_eq!((values[0].is_skipped, values[1].is_skipped, failed), (true, false, None));
    }

    #[actix_web::test]
    async fn the_first_error_of_an_enforced_limit_is_kept_and_ends_its_values() {
        let (calls, values, failed) = compute_for(&[("by", "5")]).await;
        assert_eq!(calls, ["skip", "by", "plan", "max", "max"]);
        assert_eq!(values.iter().map(|values| values.is_skipped).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(failed.as_deref(), Some("no max"));
        // Only the shadow limit lacks its value.
        let (_, values, failed) = compute_for(&[("skip", "1")]).await;
        assert_eq!((values[1].is_skipped, failed), (true, None));
    }
}
