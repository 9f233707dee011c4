//! Checks overrides as a whole against the limits of the program.

use std::collections::BTreeMap;

use super::error::Problems;
use super::known::{KnownLimit, partition};
use super::row::Override;
use super::set::{LimitOverride, Overrides};
use super::table::{LimitRows, OverrideTable, Row, SharedPolicies};
use crate::policy::suggest::nearest;

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
    fn problem(&mut self, row: &Override, text: impl Into<String>) {
        self.problems.push(row.line, text);
    }

    /// Checks the overrides of one name against each limit of that name.
    fn limit(&mut self, name: &str, given: &LimitOverride, limits: &[&KnownLimit]) {
        if !given.plans.is_empty() && !limits.iter().any(|limit| limit.has_plan) {
            let text = format!("limit `{name}` has no `plan` in its attribute, so no request has a plan");
            self.problem(given.plans.values().next().unwrap_or(&given.row), text);
        }
        for limit in limits {
            if self.problems.is_enough() {
                return;
            }
            let of = format!("limit `{name}`");
            let mut rows = match LimitRows::new(&limit.policy, given.row, given.callers.len()) {
                Ok(rows) => rows,
                Err(error) => {
                    self.problem(&given.row, format!("{of}: {error}"));
                    continue;
                }
            };
            self.fits(limit, rows.limit(), &given.row, &of);
            let mut policies = SharedPolicies::new(&limit.policy);
            for (plan, row) in &given.plans {
                if self.problems.is_enough() {
                    return;
                }
                let of = format!("plan `{plan}` of limit `{name}`");
                match rows.add(plan, None, *row, &mut policies) {
                    Ok(row) => self.fits(limit, row, &given.row, &of),
                    Err(error) => self.problem(row, format!("{of}: {error}")),
                }
            }
            let of = format!("a caller of limit `{name}`");
            for (caller, row) in &given.callers {
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
                        other.numbers.line.map_or_else(String::new, |line| format!(", in line {line},"));
                    self.problem(row, format!("{of}: another row{place} stands for the same caller"));
                    continue;
                }
                match rows.add(caller, Some(partition), *row, &mut policies) {
                    Ok(row) => self.fits(limit, row, &given.row, &of),
                    Err(error) => self.problem(row, format!("{of}: {error}")),
                }
            }
            self.table.insert(rows);
        }
    }

    /// Checks that a request can pass under a row over that for all callers.
    fn fits(&mut self, limit: &KnownLimit, row: &Row, for_all: &Override, of: &str) {
        let numbers = row.numbers.over(for_all);
        let knows_max = !limit.computes_max || numbers.max.is_some();
        let capacity = row.policy.capacity();
        if let Some(cost) = limit.cost
            && knows_max
            && !numbers.is_off()
            && cost > capacity
        {
            let place = limit.place.as_ref().map_or_else(String::new, |place| format!(" of {place}"));
            self.problem(
                &row.numbers,
                format!("{of}: a request{place} costs {cost} units, more than the {capacity} that can pass at once"),
            );
        }
    }
}
