//! Checks overrides as a whole against the limits that they can name: those that crates declare at link time,
//! and policies that are passed to the builder.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::error::Problems;
use super::set::{LimitOverride, Overrides};
use super::table::{LimitRows, Origin, OverrideTable, Row, SharedPolicies, WrittenRow};
use crate::policy::Policy;
use crate::policy::suggest::nearest;

/// The table for requests, or the mistakes.
pub(super) fn check(overrides: &Overrides, known: &[KnownLimit]) -> Result<OverrideTable, Problems> {
    let mut by_name: BTreeMap<&str, Vec<&KnownLimit>> = BTreeMap::new();
    for limit in known {
        let limits = by_name.entry(limit.policy.name()).or_default();
        // Handlers may share a policy by its path. One of them is enough.
        if !limits.iter().any(|other| other.has_rows_of(limit)) {
            limits.push(limit);
        }
    }
    let mut checker = Checker { problems: Problems::default(), table: OverrideTable::default() };
    for (name, written) in &overrides.limits {
        if checker.problems.is_enough() {
            break;
        }
        match by_name.get(name.as_str()) {
            Some(limits) => checker.limit(name, written, limits),
            None => checker.problem(&written.row, unknown(name, by_name.keys().copied())),
        }
    }
    checker.problems.or(checker.table)
}

/// A name that no limit has.
fn unknown<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    // The name of a handler without its module is the likely mistake.
    let end = |known: &&str| known.rsplit("::").next() == Some(name);
    let meant = known.clone().find(end).or_else(|| nearest(name, known.clone()));
    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let expected = match known.count() {
        0 => "this program has no limits",
        _ => "expected the name of an attribute's limit or of a policy that the builder has",
    };
    format!("unknown limit `{name}`, {expected}{hint}")
}

struct Checker {
    problems: Problems,
    table: OverrideTable,
}

impl Checker {
    fn problem(&mut self, row: &WrittenRow, text: impl Into<String>) {
        self.problems.push(row.line, text);
    }

    /// Checks the overrides of one name against each limit of that name.
    fn limit(&mut self, name: &str, written: &LimitOverride, limits: &[&KnownLimit]) {
        let LimitOverride { row: for_all, plans, callers } = written;
        if !plans.is_empty() && !limits.iter().any(|limit| limit.has_plan) {
            let text = format!("limit `{name}` has no `plan` in its attribute, so no request has a plan");
            self.problem(plans.values().next().unwrap_or(for_all), text);
        }
        for limit in limits {
            if self.problems.is_enough() {
                return;
            }
            match LimitRows::new(&limit.policy, *for_all, callers.len()) {
                Ok(rows) => self.rows(name, written, limit, rows),
                Err(error) => self.problem(for_all, format!("limit `{name}`: {error}")),
            }
        }
    }

    /// Checks the rows of a limit, and adds them to the table.
    fn rows(&mut self, name: &str, written: &LimitOverride, limit: &KnownLimit, mut rows: LimitRows) {
        if let Err(fault) = fits(limit, &rows, rows.limit()) {
            self.problem(&written.row, format!("limit `{name}`: {fault}"));
        }
        let plans = written.plans.iter().map(|(plan, row)| (Origin::Plan, plan, row));
        let callers = written.callers.iter().map(|(caller, row)| (Origin::Caller, caller, row));
        let mut policies = SharedPolicies::new();
        for (origin, text, row) in plans.chain(callers) {
            if self.problems.is_enough() {
                return;
            }
            if let Err(fault) = add(&mut rows, limit, (origin, text, row), &mut policies) {
                let of =
                    if origin == Origin::Plan { format!("plan `{text}`") } else { "a caller".to_owned() };
                self.problem(row, format!("{of} of limit `{name}`: {fault}"));
            }
        }
        self.table.insert(rows);
    }
}

/// Adds the row of a plan or a caller, unless it has a mistake.
fn add(
    rows: &mut LimitRows,
    limit: &KnownLimit,
    (origin, text, row): (Origin, &str, &WrittenRow),
    policies: &mut SharedPolicies,
) -> Result<(), String> {
    let partition = if origin == Origin::Caller { Some(partition(text, limit)?) } else { None };
    if let Some(other) = partition.as_deref().and_then(|partition| rows.row_of_caller(partition)) {
        let place = other.written.line.map_or_else(String::new, |line| format!(", in line {line},"));
        return Err(format!("another row{place} stands for the same caller"));
    }
    let position = rows.add(text, partition, *row, policies).map_err(|error| error.to_string())?;
    fits(limit, rows, rows.row(position))
}

/// Checks that a request can pass under a row.
fn fits(limit: &KnownLimit, rows: &LimitRows, row: &Row) -> Result<(), String> {
    let (replaced, capacity) = (rows.replaced(row), row.policy.capacity());
    match limit.cost {
        Some(cost)
            if cost > capacity && !replaced.is_off() && (!limit.computes_max || replaced.max.is_some()) =>
        {
            let place = limit.place.as_ref().map_or_else(String::new, |place| format!(" of {place}"));
            Err(format!(
                "a request{place} costs {cost} units, more than the {capacity} that can pass at once"
            ))
        }
        _ => Ok(()),
    }
}

/// A limit of the program, as overrides are checked against it.
#[derive(Clone, Debug)]
pub struct KnownLimit {
    /// Its policy as the program has it.
    pub policy: Policy,
    /// Where it is in the source; for messages.
    pub place: Option<String>,
    /// Units that a request costs. `None` if that is computed for each request.
    pub cost: Option<u64>,
    /// Whether `max` is computed for each request.
    pub computes_max: bool,
    /// Whether requests have plans.
    pub has_plan: bool,
    /// Whether callers are encoded by the crate that declares it, and not the partition as it is.
    pub encodes_callers: bool,
}

impl KnownLimit {
    /// A policy that is passed to the builder.
    pub(crate) fn of_policy(policy: impl Borrow<Policy>) -> Self {
        Self {
            policy: policy.borrow().clone(),
            place: None,
            cost: None,
            computes_max: false,
            has_plan: true,
            encodes_callers: false,
        }
    }

    /// Whether overrides make the same rows and the same mistakes of both.
    pub(super) fn has_rows_of(&self, other: &Self) -> bool {
        let numbers = |limit: &Self| (limit.cost, limit.computes_max, limit.has_plan, limit.encodes_callers);
        self.policy == other.policy && numbers(self) == numbers(other)
    }
}

/// A crate that declares limits.
#[derive(Debug)]
pub struct DeclaredLimits {
    /// Lists its limits.
    pub limits: fn() -> Vec<KnownLimit>,
    /// The partition of the caller that a row names. The error says what was expected, and does not have the
    /// name.
    pub caller: fn(&str) -> Result<Vec<u8>, String>,
}

inventory::collect!(DeclaredLimits);

/// Every declared limit, and the policies of the builder.
pub(super) fn known_limits(policies: &[KnownLimit]) -> Vec<KnownLimit> {
    let declared = inventory::iter::<DeclaredLimits>().flat_map(|crate_| (crate_.limits)());
    declared.chain(policies.iter().cloned()).collect()
}

/// The kind of a caller that is a partition, as it is passed to `check`.
const PARTITION: &str = "partition ";

/// What a program without other kinds expects.
const EXPECTED: &str = "expected `partition` before what is passed to `check`, such as `partition tenant-42`";

/// What a program with other kinds expects as well, for a policy of the builder.
const OR_PARTITION: &str = "`partition tenant-42` for a policy that the application checks itself";

/// The partition of the caller that a row names, or what was expected.
///
/// A policy of the builder may be one of middleware, one that the application checks itself, or
/// both. So it has rows of every kind.
pub(super) fn partition(caller: &str, limit: &KnownLimit) -> Result<Vec<u8>, String> {
    match caller.strip_prefix(PARTITION) {
        Some(_) if limit.encodes_callers => Err(
            "`partition` is for policies that the application checks; expected the kind that `by` returns"
                .to_owned(),
        ),
        Some(partition) => Ok(partition.into()),
        None => {
            let mut expected = EXPECTED.to_owned();
            for crate_ in inventory::iter::<DeclaredLimits> {
                match (crate_.caller)(caller) {
                    Ok(partition) => return Ok(partition),
                    Err(error) if limit.encodes_callers => expected = error,
                    Err(error) => expected = format!("{error}; {OR_PARTITION}"),
                }
            }
            Err(expected)
        }
    }
}
