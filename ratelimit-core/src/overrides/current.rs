//! The overrides of a limiter: checks others, and puts them in force.

use super::check::check;
use super::error::OverridesError;
use super::in_force::OverridesStatus;
use super::known_policies::KnownPolicies;
use super::set::Overrides;
use super::shared_table::{OverridesGuard, SharedTable};
use super::table::OverrideTable;
use super::watches::Watches;
use crate::policy::Policy;

/// The overrides of one limiter.
#[derive(Debug, Default)]
pub(crate) struct Current {
    table: SharedTable,
    pub(crate) policies: KnownPolicies,
    pub(crate) watches: Watches,
}

impl Current {
    /// Checks overrides, and puts them in force as a whole. Ends the watch before. Returns the number of the
    /// watch of their file.
    ///
    /// Of two replacements at the same time, the one whose check ends later wins.
    pub(crate) fn replace(&self, overrides: &Overrides) -> Result<u64, OverridesError> {
        let table = self.checked(overrides)?;
        // The table before is dropped behind the lock: many rows take a while.
        let (number, _before) = self.watches.begin(|| self.table.replace(table));
        Ok(number)
    }

    /// [`replace`](Self::replace) by a watch. `None`, and nothing changes, if that is over. Returns the
    /// number of limits and rows.
    pub(super) fn replace_by(
        &self,
        number: u64,
        overrides: &Overrides,
    ) -> Option<Result<(usize, usize), OverridesError>> {
        let table = match self.checked(overrides) {
            Ok(table) => table,
            Err(error) => return Some(Err(error)),
        };
        let size = table.size();
        let _before = self.watches.go_on(number, || self.table.replace(table))?;
        Some(Ok(size))
    }

    /// The table of overrides without mistakes. Locks nothing meanwhile.
    fn checked(&self, overrides: &Overrides) -> Result<OverrideTable, OverridesError> {
        let source = overrides.source_name();
        let mut table = check(overrides, &self.policies.and_declared())
            .map_err(|problems| OverridesError::new(&source, problems))?;
        table.source = source;
        Ok(table)
    }

    /// Whether a limit has overrides.
    pub(super) fn has_rules(&self) -> bool {
        self.guard().table().is_some_and(|table| !table.is_empty())
    }

    #[inline]
    pub(crate) fn guard(&self) -> OverridesGuard {
        self.table.guard()
    }

    /// The overrides as a whole. `None` if there have not been any.
    pub(crate) fn status(&self) -> Option<OverridesStatus> {
        let guard = self.guard();
        let table = guard.table()?;
        let (limits, rows) = table.size();
        let rejected = self.watches.rejected().map(|error| error.to_string());
        Some(OverridesStatus { source: table.source.clone(), limits, rows, rejected })
    }

    /// The policies that were passed to the builder.
    pub(crate) fn builder_policies(&self) -> Vec<Policy> {
        self.policies.list()
    }
}
