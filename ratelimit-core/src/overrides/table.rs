//! Rows of overrides, all of a version in a table, as requests look them up.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::policy::{Policy, PolicyError, Settings};

/// All overrides of one version.
#[derive(Debug, Default)]
pub(crate) struct OverrideTable {
    /// By the fingerprint of the program's policy, which needs no hashing.
    limits: HashTable<Arc<LimitRows>>,
    /// What messages call these overrides.
    pub(super) source: String,
}

/// The overrides of one policy of the program.
pub(super) struct LimitRows {
    base: Policy,
    /// The row for all callers, the rows of plans in the order of their names, and the rows of callers.
    rows: Vec<Row>,
    plans: HashMap<Box<str>, usize>,
    /// By the bytes of the partition, in the keyed hash of the standard library: clients choose them.
    callers: HashMap<Box<[u8]>, usize>,
}

/// Shows no names of callers.
impl fmt::Debug for LimitRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LimitRows");
        shown.field("policy", &self.base.key()).field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

/// The settings of one row, and its line in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrittenRow {
    pub(super) settings: Settings,
    pub(super) line: Option<usize>,
}

impl From<Settings> for WrittenRow {
    fn from(settings: Settings) -> Self {
        Self { settings, line: None }
    }
}

/// One row: for all callers, for those of a plan, or for one.
pub(super) struct Row {
    pub(super) origin: Origin,
    /// The name of the plan or the caller, as it was written.
    name: Box<str>,
    /// What the row sets.
    pub(super) written: WrittenRow,
    /// The policy with these settings over those for all callers.
    pub(super) policy: Arc<Policy>,
}

/// The policies of the rows of one limit while its table is made, by the settings of the row and the limit
/// together.
pub(super) type SharedPolicies = HashMap<Settings, Arc<Policy>>;

/// Most policies of a limit that are kept to be shared.
const MAX_SHARED: usize = 1_000;

impl LimitRows {
    /// The position of the row for all callers.
    pub(super) const LIMIT: usize = 0;

    /// The overrides of a policy with the row for all callers only.
    pub(super) fn new(base: &Policy, written: WrittenRow, callers: usize) -> Result<Self, PolicyError> {
        let policy = overridden(base, written.settings)?;
        let limit = Row { origin: Origin::Limit, name: Box::default(), written, policy };
        let (plans, callers) = (HashMap::new(), HashMap::with_capacity(callers));
        Ok(Self { base: base.clone(), rows: vec![limit], plans, callers })
    }

    /// Adds the row of the caller with this partition, or of a plan. Returns its position. All plans
    /// come before the callers, in the order of their names.
    pub(super) fn add(
        &mut self,
        name: &str,
        partition: Option<Vec<u8>>,
        written: WrittenRow,
        policies: &mut SharedPolicies,
    ) -> Result<usize, PolicyError> {
        let settings = written.settings.over(self.limit().written.settings);
        let policy = match policies.get(&settings) {
            Some(policy) => Arc::clone(policy),
            None => overridden(&self.base, settings)?,
        };
        if policies.len() < MAX_SHARED {
            policies.insert(settings, Arc::clone(&policy));
        }
        let (name, position) = (Box::from(name), self.rows.len());
        let origin = if partition.is_some() { Origin::Caller } else { Origin::Plan };
        match partition {
            Some(partition) => self.callers.insert(partition.into(), position),
            None => self.plans.insert(Box::clone(&name), position),
        };
        self.rows.push(Row { origin, name, written, policy });
        Ok(position)
    }

    /// The row of a caller.
    pub(super) fn row_of_caller(&self, partition: &[u8]) -> Option<&Row> {
        self.callers.get(partition).map(|position| &self.rows[*position])
    }

    /// The row for all callers.
    pub(super) fn limit(&self) -> &Row {
        &self.rows[Self::LIMIT]
    }

    /// The row at a position.
    pub(super) fn row(&self, position: usize) -> &Row {
        &self.rows[position]
    }

    /// What replaces numbers of the program where a row applies: what it sets, and what is set for all
    /// callers.
    pub(super) fn replaced(&self, row: &Row) -> Settings {
        row.written.settings.over(self.limit().written.settings)
    }

    /// The position of the row that applies to a request: that of the caller, otherwise that of the plan,
    /// otherwise that for all callers.
    pub(super) fn position(&self, plan: Option<&str>, partition: &[u8]) -> usize {
        let caller = if self.callers.is_empty() { None } else { self.callers.get(partition) };
        let plan = || self.plans.get(plan?);
        caller.or_else(plan).copied().unwrap_or(Self::LIMIT)
    }

    /// The positions and names of the rows of plans and callers: plans first.
    pub(super) fn named(&self) -> impl Iterator<Item = (usize, &str)> {
        self.rows.iter().map(|row| &*row.name).enumerate().skip(1)
    }

    /// The number of rows that set a number.
    fn written(&self) -> usize {
        let sets_any = self.limit().written.settings != Settings::new();
        usize::from(sets_any) + self.rows.len() - 1
    }

    /// The number of rows of plans, and of callers.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.plans.len(), self.callers.len())
    }
}

/// A policy with the settings of overrides over its own.
fn overridden(base: &Policy, settings: Settings) -> Result<Arc<Policy>, PolicyError> {
    settings.check_overridable(base.calendar().is_some())?;
    base.with_settings(settings).map(Arc::new)
}

impl OverrideTable {
    /// Adds the overrides of a policy. Those of an equal policy are replaced; they have the same numbers.
    pub(super) fn insert(&mut self, rows: LimitRows) {
        let (id, rows) = (rows.base.state_id(), Arc::new(rows));
        match self.limits.find_mut(id, |other| other.base == rows.base) {
            Some(found) => *found = rows,
            None => drop(self.limits.insert_unique(id, rows, |rows| rows.base.state_id())),
        }
    }

    /// The overrides of a policy of the program.
    #[inline]
    pub(super) fn limit(&self, policy: &Policy) -> Option<&Arc<LimitRows>> {
        self.limits.find(policy.state_id(), |rows| rows.base == *policy)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The number of names with overrides, and of their rows. Policies of one name have the same rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        let of_names: HashMap<&str, usize> =
            self.limits.iter().map(|rows| (rows.base.name(), rows.written())).collect();
        (of_names.len(), of_names.values().sum())
    }
}

/// Where numbers come from; of two that apply, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "stats", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Origin {
    /// The program: an attribute or a policy.
    Program,
    /// The overrides of the limit, for all callers: `[limit.NAME]`.
    Limit,
    /// The row of a plan: `[limit.NAME.plans]`.
    Plan,
    /// The row of a caller: `[limit.NAME.callers]`.
    Caller,
}
