//! Checks overrides as a whole against the limits that they can name: those that crates declare at link time, and policies that are
//! given to the builder.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use super::error::Problems;
use super::set::{LimitOverride, Overrides};
use super::table::{GivenRow, LimitRows, OverrideTable, Row, SharedPolicies};
use crate::policy::suggest::nearest;
use crate::policy::{Policy, PolicyError};

/// The table for requests, or the mistakes.
pub(super) fn check(overrides: &Overrides, known: &[KnownLimit]) -> Result<OverrideTable, Problems> {
    let mut by_name: BTreeMap<&str, Vec<&KnownLimit>> = BTreeMap::new();
    for limit in known {
        let limits = by_name.entry(limit.policy.name()).or_default();
        // Handlers that share a policy by its path: one stands for all.
        if !limits.iter().any(|other| other.has_rows_of(limit)) {
            limits.push(limit);
        }
    }
    let mut checker = Checker { problems: Problems::default(), table: OverrideTable::default() };
    for (name, given) in &overrides.limits {
        if checker.problems.is_enough() {
            break;
        }
        match by_name.get(name.as_str()) {
            Some(limits) => checker.limit(name, given, limits),
            None => checker.problem(&given.row, unknown(name, by_name.keys().copied())),
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
        _ => "expected the name of an attribute's limit or of a policy that the builder was given",
    };
    format!("unknown limit `{name}`, {expected}{hint}")
}

struct Checker {
    problems: Problems,
    table: OverrideTable,
}

impl Checker {
    fn problem(&mut self, row: &GivenRow, text: impl Into<String>) {
        self.problems.push(row.line, text);
    }

    /// Checks the overrides of one name against each limit of that name.
    fn limit(&mut self, name: &str, given: &LimitOverride, limits: &[&KnownLimit]) {
        let LimitOverride { row: for_all, plans, callers } = given;
        if !plans.is_empty() && !limits.iter().any(|limit| limit.has_plan) {
            let text = format!("limit `{name}` has no `plan` in its attribute, so no request has a plan");
            self.problem(plans.values().next().unwrap_or(for_all), text);
        }
        let mut rows = [for_all].into_iter().chain(plans.values()).chain(callers.values());
        if let Some(field) = rows.find_map(|row| row.settings.not_overridable()) {
            let text = format!(
                "limit `{name}`: overrides cannot replace `{}`; change the attribute or the policy instead",
                field.as_str()
            );
            return self.problem(for_all, text);
        }
        for limit in limits {
            if self.problems.is_enough() {
                return;
            }
            let mut rows = match LimitRows::new(&limit.policy, *for_all, callers.len()) {
                Ok(rows) => rows,
                Err(error) => {
                    self.problem(for_all, format!("limit `{name}`: {error}"));
                    continue;
                }
            };
            self.fits(limit, Ok(rows.limit()), for_all, for_all, &format!("limit `{name}`"));
            let mut policies = SharedPolicies::new(&limit.policy);
            for (plan, row) in plans {
                if self.problems.is_enough() {
                    return;
                }
                let added = rows.add(plan, None, *row, &mut policies);
                self.fits(limit, added, row, for_all, &format!("plan `{plan}` of limit `{name}`"));
            }
            let of = format!("a caller of limit `{name}`");
            for (caller, row) in callers {
                if self.problems.is_enough() {
                    return;
                }
                let partition = match partition(caller, limit) {
                    Ok(partition) => partition,
                    Err(expected) => {
                        self.problem(row, format!("{of}: {expected}"));
                        continue;
                    }
                };
                if let Some(other) = rows.row_of_caller(&partition) {
                    let place =
                        other.given.line.map_or_else(String::new, |line| format!(", in line {line},"));
                    self.problem(row, format!("{of}: another row{place} stands for the same caller"));
                    continue;
                }
                let added = rows.add(caller, Some(partition), *row, &mut policies);
                self.fits(limit, added, row, for_all, &of);
            }
            self.table.insert(rows);
        }
    }

    /// Checks that there is a policy of a row over that for all callers, and that a request can pass under it.
    fn fits(
        &mut self,
        limit: &KnownLimit,
        added: Result<&Row, PolicyError>,
        row: &GivenRow,
        for_all: &GivenRow,
        of: &str,
    ) {
        let capacity = match added {
            Ok(added) => added.policy.capacity(),
            Err(error) => return self.problem(row, format!("{of}: {error}")),
        };
        let settings = row.settings.over(for_all.settings);
        if let Some(cost) = limit.cost
            && (!limit.computes_max || settings.max.is_some())
            && !settings.is_off()
            && cost > capacity
        {
            let place = limit.place.as_ref().map_or_else(String::new, |place| format!(" of {place}"));
            self.problem(
                row,
                format!("{of}: a request{place} costs {cost} units, more than the {capacity} that can pass at once"),
            );
        }
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
    /// A policy that is given to the builder.
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
    /// The partition of the caller that a row names. The error says what was expected, and does not have the name.
    pub caller: fn(&str) -> Result<Vec<u8>, String>,
}

inventory::collect!(DeclaredLimits);

/// Every declared limit, and the policies that were given.
pub(super) fn known_limits(given: &[KnownLimit]) -> Vec<KnownLimit> {
    let declared = inventory::iter::<DeclaredLimits>().flat_map(|crate_| (crate_.limits)());
    declared.chain(given.iter().cloned()).collect()
}

/// The kind of a caller that is a partition, as `check` is given it.
const PARTITION: &str = "partition ";

/// What a program without other kinds expects.
const EXPECTED: &str = "expected `partition` before what `check` is given, such as `partition tenant-42`";

/// What a program with other kinds expects as well, for a policy that the builder was given.
const OR_PARTITION: &str = "`partition tenant-42` for a policy that the application checks itself";

/// The partition of the caller that a row names, or what was expected.
///
/// A policy that the builder was given may be one of middleware, one that the application checks itself, or both. So it has rows of
/// every kind.
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
