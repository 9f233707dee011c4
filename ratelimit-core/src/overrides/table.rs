//! Checked overrides, as requests look them up: one table for each version.

use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::in_force::{Field, InForce, Numbers, Origin};
use super::row::Override;
use crate::policy::{Mode, Policy, PolicyError};

/// All overrides of one version.
#[derive(Debug, Default)]
pub(crate) struct OverrideTable {
    /// By the fingerprint of the program's policy, which that knows without hashing.
    limits: HashTable<LimitRows>,
    /// The limiter whose overrides these are.
    pub(super) owner: u64,
    /// What messages call these overrides.
    pub(super) source: String,
}

/// The overrides of one policy of the program.
#[derive(Debug)]
pub struct LimitRows {
    base: Policy,
    limit: EffectiveRow,
    plans: HashMap<Box<str>, EffectiveRow>,
    /// By the bytes of the partition, in the keyed hash of the standard library: clients choose them.
    callers: HashMap<Vec<u8>, usize>,
    /// The texts of the callers' rows.
    caller_rows: Vec<(Box<str>, EffectiveRow)>,
}

/// One row, with the policy that it makes of that of the program.
#[derive(Debug)]
pub struct EffectiveRow {
    policy: Arc<Policy>,
    origin: Origin,
    /// The row, and the overrides of the limit.
    rows: [Override; 2],
    /// Both together.
    merged: Override,
}

impl EffectiveRow {
    /// The policy of the row. Its `max` means nothing if it is computed for each request and
    /// [`sets_max`](Self::sets_max) is false.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Whether the limit is off.
    pub fn is_off(&self) -> bool {
        self.merged.is_off()
    }

    /// Whether the limit only reports what it would deny.
    pub fn is_shadow(&self) -> bool {
        self.policy.mode() == Mode::Shadow
    }

    /// Whether overrides set `max`.
    pub fn sets_max(&self) -> bool {
        self.merged.max.is_some()
    }

    /// The row over another policy of the same limit: one whose `max` was computed for a request.
    ///
    /// # Errors
    ///
    /// If the numbers do not fit together.
    pub fn apply(&self, policy: &Policy) -> Result<Policy, PolicyError> {
        self.merged.apply(policy)
    }

    fn new(base: &Policy, origin: Origin, row: Override, limit: Override) -> Result<Self, PolicyError> {
        let merged = row.over(&limit);
        let policy = Arc::new(merged.apply(base)?);
        Ok(Self { policy, origin, rows: [row, limit], merged })
    }

    fn in_force<'p>(&self) -> InForce<'p> {
        InForce {
            numbers: Numbers::Overridden(Arc::clone(&self.policy)),
            is_off: self.is_off(),
            origin: self.origin,
            rows: self.rows,
        }
    }
}

impl LimitRows {
    /// The overrides of a policy without those of plans and callers.
    pub(super) fn new(base: &Policy, row: Override) -> Result<Self, PolicyError> {
        Ok(Self {
            base: base.clone(),
            limit: EffectiveRow::new(base, Origin::Limit, row, row)?,
            plans: HashMap::new(),
            callers: HashMap::new(),
            caller_rows: Vec::new(),
        })
    }

    pub(super) fn add_plan(&mut self, name: &str, row: Override) -> Result<&EffectiveRow, PolicyError> {
        let row = EffectiveRow::new(&self.base, Origin::Plan, row, self.limit.merged)?;
        Ok(self.plans.entry(name.into()).insert_entry(row).into_mut())
    }

    pub(super) fn add_caller(
        &mut self,
        text: &str,
        partitions: Vec<Vec<u8>>,
        row: Override,
    ) -> Result<&EffectiveRow, PolicyError> {
        let row = EffectiveRow::new(&self.base, Origin::Caller, row, self.limit.merged)?;
        let position = self.caller_rows.len();
        self.callers.extend(partitions.into_iter().map(|partition| (partition, position)));
        self.caller_rows.push((text.into(), row));
        Ok(&self.caller_rows[position].1)
    }

    /// A row of the caller that has one of these partitions.
    pub(super) fn row_of_same_caller(&self, partitions: &[Vec<u8>]) -> Option<&Override> {
        let position = partitions.iter().find_map(|partition| self.callers.get(partition))?;
        self.caller_rows.get(*position).map(|(_, row)| &row.rows[0])
    }

    /// Whether plans have rows.
    pub fn has_plans(&self) -> bool {
        !self.plans.is_empty()
    }

    /// The row for all callers.
    pub fn limit(&self) -> &EffectiveRow {
        &self.limit
    }

    /// The row that applies to a request: that of the caller, otherwise that of the plan, otherwise that for all callers.
    pub fn row(&self, plan: Option<&str>, partition: Option<&[u8]>) -> &EffectiveRow {
        let caller = || {
            let position = self.callers.get(partition?)?;
            self.caller_rows.get(*position).map(|(_, row)| row)
        };
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

    /// All rows.
    pub(super) fn all(&self) -> impl Iterator<Item = &EffectiveRow> {
        let callers = self.caller_rows.iter().map(|(_, row)| row);
        std::iter::once(&self.limit).chain(self.plans.values()).chain(callers)
    }

    /// The rows of plans and callers, with their names: plans first, at most `max` rows.
    pub fn named_rows<'p>(&self, max: usize) -> Vec<(String, InForce<'p>)> {
        let mut plans: Vec<_> = self.plans.iter().collect();
        plans.sort_by_key(|(name, _)| *name);
        let callers = self.caller_rows.iter().map(|(name, row)| (name, row));
        let rows = plans.into_iter().chain(callers).take(max);
        rows.map(|(name, row)| (name.to_string(), row.in_force())).collect()
    }

    /// The number of rows that were given.
    fn given(&self) -> usize {
        let sets_any = Field::ALL.iter().any(|field| field.is_in(&self.limit.rows[0]));
        usize::from(sets_any) + self.plans.len() + self.caller_rows.len()
    }

    /// The number of rows of plans, and of callers.
    pub fn row_counts(&self) -> (usize, usize) {
        (self.plans.len(), self.caller_rows.len())
    }

    pub(crate) fn in_force<'p>(&self, plan: Option<&str>, partition: Option<&[u8]>) -> InForce<'p> {
        self.row(plan, partition).in_force()
    }
}

impl OverrideTable {
    pub(super) fn new(owner: u64) -> Self {
        Self { limits: HashTable::new(), owner, source: String::new() }
    }

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

    /// What messages call these overrides: the name of their file.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The number of names with overrides, and of their rows. Policies of one name have the same rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        let of_names: HashMap<&str, usize> =
            self.iter().map(|rows| (rows.base.name(), rows.given())).collect();
        (of_names.len(), of_names.values().sum())
    }
}
