//! The numbers by which a limit is decided, and where they come from.

use std::collections::BTreeMap;
use std::time::Duration;

use ratelimit_core::{Mode, Policy, RateLimiter};
use serde::Serialize;

use super::row::{Origin, Row};
use super::rows;
use crate::handler::registry::DeclaredLimit;

/// Largest number of rows of plans and callers that JSON has of one limit.
const MAX_ROWS: usize = 100;

/// A limit of the program, with what is in force for it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LimitNumbers {
    /// What of the program has the limit.
    pub(super) source: Source,
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
    /// Length of the window, in microseconds.
    pub(super) window_us: u64,
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

/// What of the program has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// The arguments of the attribute, or the policy that it names.
    Attribute,
    /// A policy that middleware or other code uses.
    Policy,
}

impl Source {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::Policy => "policy",
        }
    }
}

/// The attribute in the source.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Place {
    pub(super) handler: &'static str,
    pub(super) module: &'static str,
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) by: &'static str,
    pub(super) count: &'static str,
    /// `None` if it is computed for each request.
    pub(super) cost: Option<u64>,
}

impl LimitNumbers {
    /// The numbers of a limit that an attribute declares.
    pub(super) fn declared(limit: &DeclaredLimit, limiter: &RateLimiter, show_callers: bool) -> Self {
        let place = Place {
            handler: limit.handler(),
            module: limit.module(),
            file: limit.file(),
            line: limit.line(),
            by: limit.by(),
            count: limit.count(),
            cost: limit.cost(),
        };
        let numbers =
            Self::new(Source::Attribute, limit.policy(), limit.max().is_none(), limiter, show_callers);
        Self { place: Some(place), ..numbers }
    }

    /// The numbers of a limit without an attribute.
    pub(super) fn policy(policy: &Policy, limiter: &RateLimiter, show_callers: bool) -> Self {
        Self::new(Source::Policy, policy, false, limiter, show_callers)
    }

    fn new(
        source: Source,
        policy: &Policy,
        is_computed: bool,
        limiter: &RateLimiter,
        show_callers: bool,
    ) -> Self {
        let numbers = |row: &Row| Numbers::of(row, is_computed, limiter.is_shadow());
        let in_force = numbers(&rows::for_all(limiter, policy));
        let program = (!in_force.overridden.is_empty()).then(|| numbers(&Row::new(Origin::Program, policy)));
        let (plan_rows, caller_rows) = rows::counts(limiter, policy);
        let shown = if show_callers { MAX_ROWS } else { MAX_ROWS.min(plan_rows) };
        let rows = rows::named(limiter, policy, shown).into_iter();
        let rows = rows.map(|row| RowView {
            origin: row.origin,
            numbers: numbers(&row),
            name: row.name.unwrap_or_default(),
        });
        Self { source, in_force, program, rows: rows.collect(), plan_rows, caller_rows, place: None }
    }
}

impl Numbers {
    /// The numbers of a row. A limiter in shadow mode enforces none.
    pub(super) fn of(row: &Row, is_computed: bool, is_shadow: bool) -> Self {
        let Row { policy, .. } = row;
        let has_max = row.has_max(is_computed);
        let mode = match (row.is_off, is_shadow) {
            (true, _) => "off",
            (false, true) => Mode::Shadow.as_str(),
            (false, false) => policy.mode().as_str(),
        };
        Self {
            max: has_max.then(|| policy.max()),
            window_us: micros(policy.window()),
            burst: (has_max && policy.capacity() != policy.max()).then(|| policy.capacity()),
            block_us: policy.block().map(micros),
            algorithm: policy.algorithm().as_str(),
            mode,
            on_error: policy.on_error().as_str(),
            key: policy.key().to_owned(),
            overridden: row.overridden.clone(),
        }
    }
}

/// Whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
