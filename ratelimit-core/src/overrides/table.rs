//! Rows of overrides: the numbers of one, and all of a version in a table, as requests look them up.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use crate::policy::{Mode, OnError, Policy, PolicyError};

/// All overrides of one version.
#[derive(Debug, Default)]
pub(crate) struct OverrideTable {
    /// By the fingerprint of the program's policy, which that knows without hashing.
    limits: HashTable<Arc<LimitRows>>,
    /// What messages call these overrides.
    pub(super) source: String,
}

/// The overrides of one policy of the program.
pub(super) struct LimitRows {
    base: Policy,
    /// That for all callers, those of plans in the order of their names, and those of callers.
    rows: Vec<Row>,
    plans: HashMap<Box<str>, usize>,
    /// By the bytes of the partition, in the keyed hash of the standard library: clients choose them.
    callers: HashMap<Box<[u8]>, usize>,
}

/// Tells no names: of callers none is shown.
impl fmt::Debug for LimitRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LimitRows");
        shown.field("policy", &self.base.key()).field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

/// One row: for all callers, for those of a plan, or for one.
pub(super) struct Row {
    pub(super) origin: Origin,
    /// Of the plan or the caller, as it was written.
    name: Box<str>,
    /// What the row sets.
    pub(super) numbers: Override,
    /// The policy with these numbers over those for all callers.
    pub(super) policy: Arc<Policy>,
}

/// The policies of the rows of one limit while its table is made.
pub(super) struct SharedPolicies<'p> {
    base: &'p Policy,
    /// By the numbers of the row and the limit together.
    made: HashMap<Override, Arc<Policy>>,
}

impl LimitRows {
    /// The position of the row for all callers.
    pub(super) const LIMIT: usize = 0;

    /// The overrides of a policy without those of plans and callers.
    pub(super) fn new(base: &Policy, numbers: Override, callers: usize) -> Result<Self, PolicyError> {
        let policy = Arc::new(numbers.apply(base)?);
        let limit = Row { origin: Origin::Limit, name: Box::default(), numbers, policy };
        let (plans, callers) = (HashMap::new(), HashMap::with_capacity(callers));
        Ok(Self { base: base.clone(), rows: vec![limit], plans, callers })
    }

    /// Adds the row of the caller with this partition, or that of a plan. All plans come before the callers, in the order of their
    /// names.
    pub(super) fn add(
        &mut self,
        name: &str,
        partition: Option<Vec<u8>>,
        numbers: Override,
        policies: &mut SharedPolicies<'_>,
    ) -> Result<&Row, PolicyError> {
        let policy = policies.with(numbers.over(&self.limit().numbers))?;
        let (name, position) = (Box::from(name), self.rows.len());
        let origin = if partition.is_some() { Origin::Caller } else { Origin::Plan };
        match partition {
            Some(partition) => self.callers.insert(partition.into(), position),
            None => self.plans.insert(Box::clone(&name), position),
        };
        self.rows.push(Row { origin, name, numbers, policy });
        Ok(&self.rows[position])
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

    /// What replaces numbers of the program where a row applies: what it sets, and what is set for all callers.
    pub(super) fn replaced(&self, row: &Row) -> Override {
        row.numbers.over(&self.limit().numbers)
    }

    /// The position of the row that applies to a request: that of the caller, otherwise that of the plan, otherwise that for all
    /// callers.
    pub(super) fn position(&self, plan: Option<&str>, partition: &[u8]) -> usize {
        let caller = if self.callers.is_empty() { None } else { self.callers.get(partition) };
        let plan = || self.plans.get(plan?);
        caller.or_else(plan).copied().unwrap_or(Self::LIMIT)
    }

    /// The positions and names of the rows of plans and callers: plans first.
    pub(super) fn named(&self) -> impl Iterator<Item = (usize, &str)> {
        self.rows.iter().map(|row| &*row.name).enumerate().skip(1)
    }

    /// The number of rows that were given.
    fn given(&self) -> usize {
        let sets_any = Field::ALL.iter().any(|field| field.is_in(&self.limit().numbers));
        usize::from(sets_any) + self.rows.len() - 1
    }

    /// The number of rows of plans, and of callers.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.plans.len(), self.callers.len())
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
            self.limits.iter().map(|rows| (rows.base.name(), rows.given())).collect();
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

/// Makes [`Field`] and [`Override`] of the fields that overrides can set, each with its type.
macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident $field:ident: $type:ty,)*) => {
        /// A number that overrides can replace.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// All fields, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name of the field, as files spell it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($field),)*
                }
            }

            /// Whether a row sets it.
            pub(super) fn is_in(self, row: &Override) -> bool {
                match self {
                    $(Self::$variant => row.$field.is_some(),)*
                }
            }
        }

        /// Numbers that replace those of a limit, for all its callers, those of one plan, or one caller. What is not set stays as it
        /// is.
        ///
        /// # Examples
        ///
        /// ```
        /// use ratelimit_core::overrides::{LimitOverride, Override, Overrides};
        ///
        /// let shop = LimitOverride::from(Override::new().max(20)).caller("partition acct-42", Override::new().max(500));
        /// let overrides = Overrides::new().limit("shop", shop);
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[must_use = "a row does nothing until it is part of overrides"]
        pub struct Override {
            $(pub(super) $field: Option<$type>,)*
            /// The line of the file.
            pub(super) line: Option<usize>,
        }

        impl Override {
            /// A row that replaces nothing.
            pub const fn new() -> Self {
                Self { $($field: None,)* line: None }
            }

            /// This row, with what it does not set from `below`.
            pub(super) fn over(self, below: &Self) -> Self {
                Self { $($field: self.$field.or(below.$field),)* line: self.line }
            }
        }
    };
}

fields! {
    /// Units per window.
    Max max: u64,
    /// Length of the window.
    Window window: Duration,
    /// Units that a full token bucket holds.
    Burst burst: u64,
    /// Time for which the first denial blocks a caller.
    // `Some(None)` takes the block of the program away.
    Block block: Option<Duration>,
    /// Whether the limit denies, only reports, or is off.
    Mode mode: Switch,
    /// What the limit does during an outage of the store.
    OnError on_error: OnError,
}

/// A [`Mode`], or no limit at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Switch {
    Mode(Mode),
    Off,
}

impl Override {
    /// Units per window; see [`PolicyBuilder::max`](crate::PolicyBuilder::max). The counts stay, except those of a token bucket.
    ///
    /// A burst that equals the `max` of the program follows it.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Length of the window; see [`PolicyBuilder::window`](crate::PolicyBuilder::window). Every caller starts a new count.
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Units that a full token bucket holds; see [`PolicyBuilder::burst`](crate::PolicyBuilder::burst).
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Time for which the first denial blocks a caller; see [`PolicyBuilder::block`](crate::PolicyBuilder::block). `None` takes
    /// the block of the program away.
    pub const fn block(mut self, block: Option<Duration>) -> Self {
        self.block = Some(block);
        self
    }

    /// Whether the limit denies requests, or only reports what it would deny.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(Switch::Mode(mode));
        self
    }

    /// Turns the limit off: requests are neither checked nor counted.
    pub const fn off(mut self) -> Self {
        self.mode = Some(Switch::Off);
        self
    }

    /// What the limit does during an outage of the store.
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = Some(on_error);
        self
    }

    /// The policy with these numbers.
    pub(super) fn apply(&self, policy: &Policy) -> Result<Policy, PolicyError> {
        let Self { max, window, burst, block, mode, on_error, line: _ } = *self;
        if window.is_some() && policy.calendar().is_some() {
            return Err(PolicyError::CalendarOverridden);
        }
        let builder = policy.to_builder();
        let builder = max.map_or(builder, |max| builder.max(max));
        let builder = window.map_or(builder, |window| builder.window(window));
        let builder = burst.map_or(builder, |burst| builder.burst(burst));
        let builder = match block {
            Some(Some(block)) => builder.block(block),
            Some(None) => builder.without_block(),
            None => builder,
        };
        let builder = match mode {
            Some(Switch::Mode(mode)) => builder.mode(mode),
            _ => builder,
        };
        let builder = on_error.map_or(builder, |on_error| builder.on_error(on_error));
        Ok(builder.try_build()?.with_names_of(policy))
    }

    pub(super) fn is_off(&self) -> bool {
        self.mode == Some(Switch::Off)
    }
}
