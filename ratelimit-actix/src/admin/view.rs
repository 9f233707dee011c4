//! What the operator's page shows, as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_core::__private_0_1::{PrivateInForce as _, PrivateLimiter as _};
use ratelimit_core::overrides::{Field, InForce, Origin};
use ratelimit_core::policy::Value as Setting;
use ratelimit_core::stats::{BAR_SECONDS, Bar, Totals};
use ratelimit_core::store::StoreStatus;
use ratelimit_core::{Mode, Policy, RateLimiter};
use serde::Serialize;
use serde_json::Value;

use crate::caller::notation::notation;
use crate::declared::{DeclaredLimit, declared_limits};
use crate::written_limit::computed::Computed;

/// Largest number of rows of plans and callers that JSON has of one limit.
const MAX_ROWS: usize = 100;

/// Largest number of callers that JSON has.
const MAX_CALLERS: usize = 100;

/// The limits with one name.
#[derive(Debug, Default, Serialize)]
pub(super) struct LimitView {
    name: String,
    /// The numbers of each policy or attribute with this name.
    numbers: Vec<LimitNumbers>,
    #[serde(flatten)]
    totals: Totals,
    /// The same counts of the last 55 to 60 seconds.
    last_minute: Totals,
    /// Slots of a concurrency limit that requests of this process hold; 0 for a rate.
    held: u64,
    /// Bars of `bar_seconds`, the last of them not ended.
    recent: Vec<Bar>,
    bar_seconds: u64,
}

/// A limit of the program, with what is in force for it.
#[derive(Debug, Serialize)]
pub(super) struct LimitNumbers {
    /// What declares the limit: an `attribute`, by its arguments or the policy that it names, or a `policy`
    /// of middleware or other code.
    source: &'static str,
    /// The numbers for callers without a row of their own.
    #[serde(flatten)]
    in_force: NumbersView,
    /// The numbers of the program, if overrides replace any of them.
    program: Option<NumbersView>,
    /// Rows of plans, and those of callers if the application shows callers.
    rows: Vec<RowView>,
    /// How many rows of plans there are, and of callers.
    plan_rows: usize,
    caller_rows: usize,
    /// `None` for a limit without an attribute.
    place: Option<AttributeView>,
}

/// The numbers of one row.
#[derive(Debug, Serialize)]
pub(super) struct NumbersView {
    /// Each setting by its name, or null. Times are in microseconds, with names such as `window_us`. `max` is
    /// null if it is computed for each request, `window_us` for a limit of requests at a time, `burst` if it
    /// equals `max`. `mode` may be `off`. `calendar` is a phrase such as "calendar month in Europe/Berlin
    /// from the 1st", and `window_us` then the longest of its windows.
    #[serde(flatten)]
    values: BTreeMap<String, Value>,
    key: String,
    /// The settings that overrides replace, and the row that does.
    overridden: BTreeMap<&'static str, Origin>,
}

/// The row of a plan or a caller.
#[derive(Debug, Serialize)]
pub(super) struct RowView {
    origin: Origin,
    name: String,
    #[serde(flatten)]
    numbers: NumbersView,
}

/// The attribute in the source.
#[derive(Debug, Serialize)]
pub(super) struct AttributeView {
    handler: &'static str,
    module: &'static str,
    file: &'static str,
    line: u32,
    by: &'static str,
    count: &'static str,
    /// `None` if it is computed for each request.
    cost: Option<u64>,
}

/// A caller that was denied often.
#[derive(Debug, Serialize)]
pub(super) struct CallerView {
    limit: String,
    digest: String,
    /// `None` unless the application shows callers.
    caller: Option<String>,
    denied: u64,
    /// How many of the denials may be those of other callers.
    error: u64,
    /// Whether the process keeps what identifies the caller: at most 256 bytes.
    can_look: bool,
}

/// The denied callers, and the number of denials that are not in the table.
#[derive(Debug, Serialize)]
pub(super) struct CallersView {
    callers: Vec<CallerView>,
    /// Denials whose callers were not counted.
    not_counted: u64,
}

/// The state of the store.
#[derive(Debug, Serialize)]
pub(super) struct StoreView {
    kind: &'static str,
    is_ready: bool,
    /// Seconds since the limiter was built.
    uptime: u64,
    #[serde(flatten)]
    status: StoreStatus,
}

/// Every limit: those that are declared by attributes, those that overrides may name, and those that were
/// decided, in the order of their names.
pub(super) fn limits(limiter: &RateLimiter, show_callers: bool) -> Vec<LimitView> {
    let mut views: BTreeMap<String, LimitView> = BTreeMap::new();
    for declared in declared_limits() {
        let numbers = LimitNumbers::new(declared.policy(), declared.computed(), limiter, show_callers);
        let numbers =
            LimitNumbers { source: "attribute", place: Some(AttributeView::of(&declared)), ..numbers };
        view_of(&mut views, declared.policy().name()).numbers.push(numbers);
    }
    for policy in limiter.builder_policies() {
        let numbers = LimitNumbers::new(&policy, &Computed::NONE, limiter, show_callers);
        view_of(&mut views, policy.name()).numbers.push(numbers);
    }
    for stats in limiter.stats().limits() {
        let view = view_of(&mut views, stats.name());
        view.totals = stats.totals();
        view.last_minute = stats.last_minute();
        view.held = stats.held();
        view.recent = stats.recent().to_vec();
        // A limit of middleware or other code has the policies by which it was decided.
        if view.numbers.is_empty() {
            let numbers = |policy| LimitNumbers::new(policy, &Computed::NONE, limiter, show_callers);
            view.numbers = stats.policies().iter().map(numbers).collect();
        }
    }
    views.into_values().collect()
}

fn view_of<'v>(views: &'v mut BTreeMap<String, LimitView>, name: &str) -> &'v mut LimitView {
    views.entry(name.to_owned()).or_insert_with(|| LimitView {
        name: name.to_owned(),
        bar_seconds: BAR_SECONDS,
        ..LimitView::default()
    })
}

impl LimitNumbers {
    /// The numbers of a limit without an attribute.
    fn new(policy: &Policy, computed: &Computed, limiter: &RateLimiter, show_callers: bool) -> Self {
        let numbers = |row: &InForce<'_>| NumbersView::of(row, computed, limiter);
        let limit = limiter.in_force(policy);
        let in_force = numbers(&limit);
        let program = (!in_force.overridden.is_empty()).then(|| numbers(&policy.into()));
        let (plan_rows, caller_rows) = limit.row_counts();
        let shown = if show_callers { MAX_ROWS } else { MAX_ROWS.min(plan_rows) };
        let row = |(name, row): (&str, InForce<'_>)| RowView {
            origin: row.origin(),
            name: name.to_owned(),
            numbers: numbers(&row),
        };
        let rows = limit.rows().take(shown).map(row).collect();
        Self { source: "policy", in_force, program, rows, plan_rows, caller_rows, place: None }
    }
}

impl AttributeView {
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

impl NumbersView {
    /// The numbers of a row. A limiter in shadow mode enforces none.
    pub(super) fn of(in_force: &InForce<'_>, computed: &Computed, limiter: &RateLimiter) -> Self {
        let policy = in_force.policy();
        let max = computed.has_max(in_force).then(|| policy.max());
        let mut values = BTreeMap::new();
        for (field, value) in policy.settings().values() {
            let value: Value = match (field, value) {
                (Field::Max | Field::Burst, _) if max.is_none() => Value::Null,
                (Field::Burst, Some(Setting::Number(burst))) if Some(burst) == max => Value::Null,
                (Field::Mode, _) if in_force.is_off() => "off".into(),
                (Field::Mode, _) if limiter.is_shadow() => Mode::Shadow.as_str().into(),
                (_, Some(Setting::Number(number))) => number.into(),
                (_, Some(Setting::Time(time))) => micros(time).into(),
                (_, Some(Setting::Name(name))) => name.into(),
                (_, Some(Setting::Calendar(_))) => micros(policy.window()).into(),
                _ => Value::Null,
            };
            let unit = if field.is_time() { "_us" } else { "" };
            values.insert(format!("{}{unit}", field.as_str()), value);
        }
        let calendar = computed.calendar_of(policy);
        values.extend(calendar.map(|calendar| ("calendar".to_owned(), calendar.into())));
        let overridden = Field::ALL.iter().map(|field| (field.as_str(), in_force.origin_of(*field)));
        let overridden = overridden.filter(|(_, origin)| *origin != Origin::Program).collect();
        Self { values, key: policy.key().to_owned(), overridden }
    }
}

/// The callers that were denied most, by name if the application shows callers.
pub(super) fn callers(limiter: &RateLimiter, show_callers: bool) -> CallersView {
    let callers = limiter.stats().denied_callers(MAX_CALLERS).into_iter().map(|denied| CallerView {
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
