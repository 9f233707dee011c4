//! What the page and the JSON show: every limit with the numbers in force, the store, and the callers that were denied most.

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_core::overrides::{Field, InForce, Origin};
use ratelimit_core::stats::{BAR_SECONDS, Bar, Totals};
use ratelimit_core::store::StoreStatus;
use ratelimit_core::{Mode, Policy, RateLimiter};
use serde::Serialize;

use crate::caller::notation::notation;
use crate::handler::computed::Computed;
use crate::handler::registry::{DeclaredLimit, declared_limits};
use crate::overrides::LimitRows;

/// Largest number of rows of plans and callers that JSON has of one limit.
const MAX_ROWS: usize = 100;

/// The limits with one name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LimitView {
    pub(super) name: String,
    /// The numbers of each policy or attribute with this name.
    pub(super) numbers: Vec<LimitNumbers>,
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// Slots of a concurrency limit that requests of this process hold; 0 for a rate.
    pub(super) held: u64,
    /// Bars of `bar_seconds`, the last of them not ended.
    pub(super) recent: Vec<Bar>,
    pub(super) bar_seconds: u64,
}

/// A limit of the program, with what is in force for it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LimitNumbers {
    /// What of the program has the limit: an `attribute`, with its arguments or the policy that it names, or a `policy` of middleware
    /// or other code.
    pub(super) source: &'static str,
    /// For callers without a row of their own.
    #[serde(flatten)]
    pub(super) in_force: Numbers,
    /// What the program has, if overrides replace any of it.
    pub(super) program: Option<Numbers>,
    /// Rows of plans, and those of callers if the application shows callers.
    pub(super) rows: Vec<RowView>,
    /// Numbers of all rows of plans, and of callers.
    pub(super) plan_rows: usize,
    pub(super) caller_rows: usize,
    /// `None` for a limit without an attribute.
    pub(super) place: Option<Place>,
}

/// The numbers of one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Numbers {
    /// `None` if it is computed for each request.
    pub(super) max: Option<u64>,
    /// Length of the window, in microseconds. `None` for a concurrency limit, whose `max` is that of requests at a time.
    pub(super) window_us: Option<u64>,
    /// Windows of a calendar, such as "calendar month in Europe/Berlin from the 1st"; `window_us` is the longest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calendar: Option<String>,
    /// Units that a full token bucket holds, if they differ from `max`.
    pub(super) burst: Option<u64>,
    /// Time for which the first denial blocks a caller, in microseconds.
    pub(super) block_us: Option<u64>,
    pub(super) algorithm: &'static str,
    /// `enforce`, `shadow` or `off`.
    pub(super) mode: &'static str,
    pub(super) on_error: &'static str,
    pub(super) key: String,
    /// The numbers that are those of overrides, and of which row.
    pub(super) overridden: BTreeMap<&'static str, Origin>,
}

/// The row of a plan or a caller.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RowView {
    pub(super) origin: Origin,
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) numbers: Numbers,
}

/// The attribute in the source.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Place {
    pub(super) handler: &'static str,
    module: &'static str,
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) by: &'static str,
    count: &'static str,
    /// `None` if it is computed for each request.
    cost: Option<u64>,
}

/// A caller that was denied often.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallerView {
    pub(super) limit: String,
    pub(super) digest: String,
    /// `None` unless the application shows callers.
    pub(super) caller: Option<String>,
    pub(super) denied: u64,
    /// How many of the denials may be those of other callers.
    pub(super) error: u64,
    /// Whether the process keeps what identifies the caller: at most 256 bytes.
    pub(super) can_look: bool,
}

/// The denied callers, and what is not in the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CallersView {
    pub(super) callers: Vec<CallerView>,
    /// Denials whose callers were not counted.
    pub(super) not_counted: u64,
}

/// The state of the store.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StoreView {
    pub(super) kind: &'static str,
    pub(super) is_ready: bool,
    /// Seconds since the limiter was built.
    pub(super) uptime: u64,
    #[serde(flatten)]
    pub(super) status: StoreStatus,
}

/// Every limit: those that are declared by attributes, those that overrides may name, and those that were decided, in the order of
/// their names.
pub(super) fn limits(limiter: &RateLimiter, show_callers: bool) -> Vec<LimitView> {
    let mut views: BTreeMap<String, LimitView> = BTreeMap::new();
    for declared in declared_limits() {
        let numbers = LimitNumbers::new(declared.policy(), declared.computed(), limiter, show_callers);
        let numbers = LimitNumbers { source: "attribute", place: Some(Place::of(&declared)), ..numbers };
        view_of(&mut views, declared.policy().name()).numbers.push(numbers);
    }
    for policy in limiter.given_policies() {
        let numbers = LimitNumbers::new(&policy, Computed::NONE, limiter, show_callers);
        view_of(&mut views, policy.name()).numbers.push(numbers);
    }
    for stats in limiter.stats().limits() {
        let view = view_of(&mut views, stats.name());
        view.totals = stats.totals();
        view.held = stats.held();
        view.recent = stats.recent().to_vec();
        // A limit of middleware or of code: what it was decided with.
        if view.numbers.is_empty() {
            let numbers = |policy| LimitNumbers::new(policy, Computed::NONE, limiter, show_callers);
            view.numbers = stats.policies().iter().map(numbers).collect();
        }
    }
    views.into_values().collect()
}

fn view_of<'v>(views: &'v mut BTreeMap<String, LimitView>, name: &str) -> &'v mut LimitView {
    views.entry(name.to_owned()).or_insert_with(|| LimitView::new(name))
}

impl LimitView {
    pub(super) fn new(name: &str) -> Self {
        let (numbers, recent) = (Vec::new(), Vec::new());
        let (name, totals) = (name.to_owned(), Totals::default());
        Self { name, numbers, totals, held: 0, recent, bar_seconds: BAR_SECONDS }
    }
}

impl LimitNumbers {
    /// The numbers of a limit without an attribute.
    fn new(policy: &Policy, computed: Computed, limiter: &RateLimiter, show_callers: bool) -> Self {
        let numbers = |row: &InForce<'_>| Numbers::of(row, computed, limiter.is_shadow());
        let in_force = numbers(&limiter.in_force(policy));
        let program = (!in_force.overridden.is_empty()).then(|| numbers(&policy.into()));
        let overrides = limiter.overrides_guard();
        let limit = overrides.limit(policy);
        let (plan_rows, caller_rows) = limit.map_or((0, 0), LimitRows::row_counts);
        let shown = if show_callers { MAX_ROWS } else { MAX_ROWS.min(plan_rows) };
        let rows = limit.into_iter().flat_map(LimitRows::named_rows).take(shown);
        let row = |(name, row): (&str, &InForce<'_>)| RowView {
            origin: row.origin(),
            name: name.to_owned(),
            numbers: numbers(row),
        };
        let rows = rows.map(row).collect();
        Self { source: "policy", in_force, program, rows, plan_rows, caller_rows, place: None }
    }
}

impl Place {
    fn of(limit: &DeclaredLimit) -> Self {
        Self {
            handler: limit.handler(),
            module: limit.module(),
            file: limit.file(),
            line: limit.line(),
            by: limit.by(),
            count: limit.count(),
            cost: limit.cost(),
        }
    }
}

impl Numbers {
    /// The numbers of a row. A limiter in shadow mode enforces none.
    pub(super) fn of(in_force: &InForce<'_>, computed: Computed, is_shadow: bool) -> Self {
        let policy = in_force.policy();
        let has_max = computed.has_max(in_force);
        let mode = match (in_force.is_off(), is_shadow) {
            (true, _) => "off",
            (false, true) => Mode::Shadow.as_str(),
            (false, false) => policy.mode().as_str(),
        };
        let overridden = Field::ALL.iter().map(|field| (field.as_str(), in_force.origin_of(*field)));
        Self {
            max: has_max.then(|| policy.max()),
            window_us: policy.rate_window().map(micros),
            calendar: computed.calendar_of(policy),
            burst: (has_max && policy.capacity() != policy.max()).then(|| policy.capacity()),
            block_us: policy.block().map(micros),
            algorithm: policy.algorithm().as_str(),
            mode,
            on_error: policy.on_error().as_str(),
            key: policy.key().to_owned(),
            overridden: overridden.filter(|(_, origin)| *origin != Origin::Program).collect(),
        }
    }
}

/// The callers that were denied most; shown by name if the application says so.
pub(super) fn callers(limiter: &RateLimiter, max: usize, show_callers: bool) -> CallersView {
    let callers = limiter.stats().denied_callers(max).into_iter().map(|denied| CallerView {
        limit: denied.limit().to_owned(),
        digest: denied.digest().to_string(),
        caller: denied.partition().filter(|_| show_callers).and_then(notation),
        denied: denied.count(),
        error: denied.error(),
        can_look: denied.partition().is_some(),
    });
    CallersView { callers: callers.collect(), not_counted: limiter.stats().denials_without_caller() }
}

/// The state of the store.
pub(super) fn store(limiter: &RateLimiter) -> StoreView {
    StoreView {
        kind: limiter.store_kind(),
        is_ready: limiter.is_ready(),
        uptime: limiter.stats().uptime().as_secs(),
        status: limiter.store_status(),
    }
}

/// Whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
