//! What of a limit is computed for each request.

use actix_web::HttpRequest;
use ratelimit_core::overrides::{Field, Origin};
use ratelimit_core::policy::Calendar;
use ratelimit_core::{InForce, Policy};

use crate::caller::plan::Plan;
use crate::handler::extracted::{Extracted, LaterValue};
use crate::shared_fn::SharedFn;

/// A value of a limit that may be computed for each request.
#[derive(Clone, Debug)]
pub enum PerRequest<T> {
    /// It is not.
    Never,
    /// By a function over the request, in an attribute.
    Now(fn(&HttpRequest) -> T),
    /// By a function that is async, or that needs extractors, in an attribute.
    Later(for<'r> fn(&'r Extracted) -> LaterValue<'r, T>),
    /// By a closure over the request, for middleware.
    Shared(SharedFn<HttpRequest, T>),
}

impl<T> PerRequest<T> {
    /// A value that a closure of the application computes.
    pub(crate) fn shared(function: impl Fn(&HttpRequest) -> T + Send + Sync + 'static) -> Self {
        Self::Shared(SharedFn::new(function))
    }

    pub(crate) const fn is_computed(&self) -> bool {
        !matches!(self, Self::Never)
    }
}

/// The values of a limit that are computed for each request. A computed caller is one of
/// [`By`](crate::written_limit::by::By).
#[derive(Clone, Debug)]
pub struct Computed {
    /// Whether the limit does not apply to the request.
    pub skip: PerRequest<bool>,
    /// The plan of the request, for which overrides may have numbers.
    pub plan: PerRequest<Plan>,
    /// The calendar of the policy from the day on which its windows begin, in any zone.
    ///
    /// ```
    /// # use actix_web::{HttpRequest, get};
    /// # use ratelimit_actix::rate_limit;
    /// #[rate_limit(max = 100, window = "month", anchor = |_: &HttpRequest| 15)]
    /// #[get("/")]
    /// async fn handler() -> &'static str {
    ///     "ok"
    /// }
    /// ```
    ///
    /// ```compile_fail,E0308
    /// # use actix_web::{HttpRequest, get};
    /// # use ratelimit_actix::rate_limit;
    /// #[rate_limit(max = 100, window = "month", anchor = |_: &HttpRequest| "15")]
    /// #[get("/")]
    /// async fn handler() -> &'static str {
    ///     "ok"
    /// }
    /// ```
    pub anchor: PerRequest<Calendar>,
    /// Its `max`.
    pub max: PerRequest<u64>,
    /// What the request costs.
    pub cost: PerRequest<u64>,
}

impl Computed {
    /// Nothing.
    pub const NONE: Self = Self {
        skip: PerRequest::Never,
        plan: PerRequest::Never,
        anchor: PerRequest::Never,
        max: PerRequest::Never,
        cost: PerRequest::Never,
    };

    /// Whether a value has to be known before the decision begins. The plan is computed only where overrides
    /// have rows of plans.
    pub(crate) const fn precedes_decision(&self) -> bool {
        self.skip.is_computed()
            || self.anchor.is_computed()
            || self.max.is_computed()
            || self.cost.is_computed()
    }

    /// Whether `max` of the numbers in force means something: overrides may replace a computed one.
    pub(crate) fn has_max(&self, in_force: &InForce<'_>) -> bool {
        !self.max.is_computed() || in_force.origin_of(Field::Max) != Origin::Program
    }

    /// The calendar of the policy as a phrase, such as `calendar month in Europe/Berlin from the 15th`.
    #[cfg_attr(
        not(feature = "calendar"),
        allow(clippy::unused_self, reason = "without the feature no limit has a calendar")
    )]
    pub(crate) fn calendar_of(&self, policy: &Policy) -> Option<String> {
        let calendar = policy.calendar()?;
        #[cfg(feature = "calendar")]
        if self.anchor.is_computed() {
            let (unit, zone) = (calendar.unit(), calendar.zone());
            return Some(format!("calendar {unit} in {zone} from a day chosen for each request"));
        }
        Some(calendar.to_string())
    }
}

/// The calendar of years that begin on this day of this month.
#[cfg(feature = "calendar")]
pub const fn calendar_year((month, day): (u8, u8)) -> Calendar {
    Calendar::year(month, day)
}
