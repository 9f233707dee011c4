//! Checked overrides, as requests look them up: one table for each version.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::in_force::{Field, InForce, Numbers, Origin};
use super::row::Override;
use crate::policy::{Policy, PolicyError};

/// All overrides of one version.
#[derive(Debug, Default)]
pub(crate) struct OverrideTable {
    /// By the fingerprint of the program's policy, which that knows without hashing.
    limits: HashTable<LimitRows>,
    /// What messages call these overrides.
    pub(super) source: String,
}

/// The overrides of one policy of the program.
#[derive(Debug)]
pub struct LimitRows {
    base: Policy,
    limit: InForce<'static>,
    plans: HashMap<Box<str>, InForce<'static>>,
    /// By the bytes of the partition, in the keyed hash of the standard library: clients choose them.
    callers: HashMap<Box<[u8]>, usize>,
    /// The rows of callers, as they were written.
    caller_rows: Vec<(Box<str>, InForce<'static>)>,
}

/// The policies of the rows of one limit while its table is made.
pub(super) struct SharedPolicies<'p> {
    base: &'p Policy,
    /// By the numbers of the row and the limit together.
    made: HashMap<Override, Arc<Policy>>,
}

impl LimitRows {
    /// The overrides of a policy without those of plans and callers.
    pub(super) fn new(base: &Policy, row: Override, callers: usize) -> Result<Self, PolicyError> {
        let policy = Arc::new(row.apply(base)?);
        Ok(Self {
            base: base.clone(),
            limit: InForce {
                numbers: Numbers::Owned(policy),
                origin: Origin::Limit,
                row,
                limit: Some(Arc::new(row)),
            },
            plans: HashMap::new(),
            callers: HashMap::with_capacity(callers),
            caller_rows: Vec::with_capacity(callers),
        })
    }

    pub(super) fn add_plan(
        &mut self,
        name: &str,
        row: Override,
        policies: &mut SharedPolicies<'_>,
    ) -> Result<&InForce<'static>, PolicyError> {
        let row = self.effective(Origin::Plan, row, policies)?;
        Ok(self.plans.entry(name.into()).insert_entry(row).into_mut())
    }

    pub(super) fn add_caller(
        &mut self,
        text: &str,
        partition: Vec<u8>,
        row: Override,
        policies: &mut SharedPolicies<'_>,
    ) -> Result<&InForce<'static>, PolicyError> {
        let row = self.effective(Origin::Caller, row, policies)?;
        let position = self.caller_rows.len();
        self.callers.insert(partition.into(), position);
        self.caller_rows.push((text.into(), row));
        Ok(&self.caller_rows[position].1)
    }

    fn effective(
        &self,
        origin: Origin,
        row: Override,
        policies: &mut SharedPolicies<'_>,
    ) -> Result<InForce<'static>, PolicyError> {
        let in_force = InForce { origin, row, ..self.limit.clone() };
        Ok(InForce { numbers: Numbers::Owned(policies.with(in_force.replaced())?), ..in_force })
    }

    /// The row of a caller.
    pub(super) fn row_of_caller(&self, partition: &[u8]) -> Option<&InForce<'static>> {
        let position = self.callers.get(partition)?;
        self.caller_rows.get(*position).map(|(_, row)| row)
    }

    /// Whether plans have rows.
    pub fn has_plans(&self) -> bool {
        !self.plans.is_empty()
    }

    /// The row for all callers.
    pub fn limit(&self) -> &InForce<'static> {
        &self.limit
    }

    /// The row that applies to a request: that of the caller, otherwise that of the plan, otherwise that for all callers.
    pub fn row(&self, plan: Option<&str>, partition: Option<&[u8]>) -> &InForce<'static> {
        let caller = || self.row_of_caller(partition?);
        let plan = || self.plans.get(plan?);
        if !self.callers.is_empty()
            && let Some(row) = caller()
        {
            return row;
        }
        plan().unwrap_or(&self.limit)
    }

    /// Whether the limit is off for all requests.
    pub fn is_off_for_all(&self) -> bool {
        self.limit.is_off() && self.plans.is_empty() && self.callers.is_empty()
    }

    /// The rows of plans in the order of their names.
    pub fn plan_rows(&self) -> impl Iterator<Item = (&str, &InForce<'static>)> {
        let mut plans: Vec<_> = self.plans.iter().map(|(name, row)| (&**name, row)).collect();
        plans.sort_by_key(|(name, _)| *name);
        plans.into_iter()
    }

    /// The rows of plans and callers, with their names: plans first.
    pub fn named_rows(&self) -> impl Iterator<Item = (&str, &InForce<'static>)> {
        self.plan_rows().chain(self.caller_rows.iter().map(|(name, row)| (&**name, row)))
    }

    /// The number of rows that were given.
    fn given(&self) -> usize {
        let sets_any = Field::ALL.iter().any(|field| field.is_in(&self.limit.row));
        usize::from(sets_any) + self.plans.len() + self.caller_rows.len()
    }

    /// The number of rows of plans, and of callers.
    pub fn row_counts(&self) -> (usize, usize) {
        (self.plans.len(), self.caller_rows.len())
    }
}

impl<'p> SharedPolicies<'p> {
    /// Most policies that are kept to be shared.
    const MAX: usize = 1_000;

    pub(super) fn new(base: &'p Policy) -> Self {
        Self { base, made: HashMap::new() }
    }

    /// The policy with these numbers.
    fn with(&mut self, numbers: Override) -> Result<Arc<Policy>, PolicyError> {
        let numbers = Override { line: None, ..numbers };
        if let Some(policy) = self.made.get(&numbers) {
            return Ok(Arc::clone(policy));
        }
        let policy = Arc::new(numbers.apply(self.base)?);
        if self.made.len() < Self::MAX {
            self.made.insert(numbers, Arc::clone(&policy));
        }
        Ok(policy)
    }
}

impl OverrideTable {
    /// Adds the overrides of a policy. Those of an equal policy are replaced; they have the same numbers.
    pub(super) fn insert(&mut self, rows: LimitRows) {
        let id = rows.base.state_id();
        match self.limits.find_mut(id, |other| other.base == rows.base) {
            Some(found) => *found = rows,
            None => drop(self.limits.insert_unique(id, rows, |rows| rows.base.state_id())),
        }
    }

    /// The overrides of a policy of the program.
    #[inline]
    pub(crate) fn limit(&self, policy: &Policy) -> Option<&LimitRows> {
        self.limits.find(policy.state_id(), |rows| rows.base == *policy)
    }

    /// All overrides.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LimitRows> {
        self.limits.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The number of names with overrides, and of their rows. Policies of one name have the same rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        let of_names: HashMap<&str, usize> =
            self.iter().map(|rows| (rows.base.name(), rows.given())).collect();
        (of_names.len(), of_names.values().sum())
    }
}
