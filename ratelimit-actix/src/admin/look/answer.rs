//! What is shown of one caller under one limit.

use ratelimit_core::Outcome;
use ratelimit_core::overrides::Origin;
use serde::Serialize;

use crate::admin::view::{NumbersView, micros};
use crate::caller::counts::CallerCount;

/// Largest number of rows that are shown for one caller.
pub(super) const MAX_COUNTS: usize = 20;

/// One caller under one limit.
#[derive(Debug, Serialize)]
pub(crate) struct LookView {
    pub(crate) limit: String,
    pub(crate) digest: String,
    /// `None` unless the application shows callers.
    pub(crate) caller: Option<String>,
    /// Whether the counts were forgotten just now.
    pub(crate) is_reset: bool,
    /// Whether anything is counted for the caller, or was before the reset. Also `true` if a reset forgot
    /// what could not be read.
    pub(crate) was_counted: bool,
    /// A count for each row that may decide about the caller, at most [`MAX_COUNTS`].
    pub(crate) counts: Vec<CountView>,
}

/// The count of a caller by one row. Times are in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct CountView {
    pub(crate) origin: NumbersFrom,
    /// The plan to whose requests the numbers apply.
    pub(crate) plan: Option<String>,
    /// By how many bits the address of the caller is counted here, if the process has several prefixes that
    /// make different networks of it.
    pub(crate) ipv6_prefix: Option<u32>,
    #[serde(flatten)]
    pub(crate) numbers: NumbersView,
    /// `None` for a limit that is off.
    pub(crate) counted: Option<CountedView>,
}

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NumbersFrom {
    /// An earlier decision. Nothing declares the numbers: they were made at run time, or overrides had them.
    Decision,
    #[serde(untagged)]
    Now(Origin),
}

/// What is counted, and what is left. Times are in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct CountedView {
    /// Units that are counted. `None` if `max` is computed for each request and the caller is blocked.
    pub(crate) units: Option<u64>,
    /// Units that can pass at one instant. `None` if `max` is computed for each request.
    pub(crate) limit: Option<u64>,
    /// How many requests of one unit pass now.
    pub(crate) remaining: Option<u64>,
    /// Whether a request of one unit passes now. `None` if it depends on the `max` of the request.
    pub(crate) passes: Option<bool>,
    /// Time until a request of one unit passes; `None` if it passes now, depends on the `max` or the `anchor`
    /// of the request, or needs a slot.
    pub(crate) retry_after_us: Option<u64>,
    /// Time until the full quota is back. `None` if it depends on the `anchor` of the request.
    pub(crate) reset_after_us: Option<u64>,
    /// Whether this process answered, during an outage of the store.
    pub(crate) is_degraded: bool,
}

/// Whether anything is counted. Slots are counted without a time at which they end.
pub(super) fn is_counted(counts: &[CountView]) -> bool {
    let is_counted = |counted: &CountedView| counted.reset_after_us > Some(0) || counted.units > Some(0);
    counts.iter().filter_map(|count| count.counted.as_ref()).any(is_counted)
}

impl CountedView {
    pub(super) fn new(outcome: &Outcome, count: &CallerCount) -> Self {
        let CallerCount { in_force, computed, .. } = count;
        let has_max = computed.has_max(in_force);
        let is_rate = !in_force.policy().is_concurrency();
        // Where no `max` is known, a peek uses the largest one, under which only a block denies a cost of 0.
        let is_blocked = outcome.would_deny() || !outcome.is_allowed();
        let passes = (has_max || is_blocked).then_some(!is_blocked && outcome.remaining() > 0);
        Self {
            units: (has_max || !is_blocked).then(|| outcome.capacity().saturating_sub(outcome.remaining())),
            limit: has_max.then(|| outcome.capacity()),
            remaining: has_max.then(|| outcome.remaining()),
            passes,
            retry_after_us: (passes == Some(false) && is_rate && !computed.anchor.is_computed())
                .then(|| micros(outcome.available_after())),
            reset_after_us: (!computed.anchor.is_computed()).then(|| micros(outcome.reset_after())),
            is_degraded: outcome.is_degraded(),
        }
    }
}
