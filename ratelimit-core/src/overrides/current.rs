//! The overrides of a limiter that are in force: read by every request without a lock, replaced as a whole.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, RwLock};

use super::check::{KnownLimit, check, known_limits};
use super::error::OverridesError;
use super::in_force::{InForce, OverridesStatus};
use super::set::Overrides;
use super::table::OverrideTable;
use crate::observe::Observer;
use crate::policy::Policy;

/// The overrides in force of one limiter.
#[derive(Debug, Default)]
pub(crate) struct Current {
    /// Whether there have been overrides; stays set. Before, a request reads nothing else.
    is_set: AtomicBool,
    table: ArcSwapOption<OverrideTable>,
    /// Policies that were passed to the builder.
    policies: RwLock<Vec<KnownLimit>>,
    /// The number of the newest watch. All earlier ones are over. Locked while other overrides are put in
    /// force, but not while they are checked, which takes long for many rows.
    watch: Mutex<u64>,
    /// Why the newest contents of the file are not in force.
    rejected: Mutex<Option<Arc<OverridesError>>>,
}

/// The overrides in force, while one group looks its limits up. `None` if there have not been any.
#[derive(Debug)]
pub struct OverridesGuard(Option<Guard<Option<Arc<OverrideTable>>>>);

impl OverridesGuard {
    /// What overrides have in force for a policy of the program, for callers without a row of their own.
    #[inline]
    pub fn limit(&self, policy: &Policy) -> Option<InForce<'_>> {
        self.0.as_ref()?.as_ref()?.limit(policy).map(InForce::from)
    }
}

impl Current {
    /// Adds policies that overrides may name.
    pub(crate) fn add_policies(&self, policies: impl IntoIterator<Item: Borrow<Policy>>) {
        self.policies.write().extend(policies.into_iter().map(KnownLimit::of_policy));
    }

    /// Checks overrides, and puts them in force as a whole. Ends the watch before. Returns the number of the
    /// watch of their file.
    ///
    /// Of two replacements at the same time, the one whose check ends later wins.
    pub(crate) fn replace(&self, overrides: &Overrides) -> Result<u64, OverridesError> {
        let table = self.checked(overrides)?;
        let mut watch = self.watch.lock();
        let before = self.put_in_force(table);
        *watch += 1;
        let number = *watch;
        drop(watch);
        // Many rows take a while.
        drop(before);
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
        let watch = self.watch.lock();
        if *watch != number {
            return None;
        }
        let before = self.put_in_force(table);
        drop(watch);
        drop(before);
        Some(Ok(size))
    }

    /// The table of overrides without mistakes. Locks nothing meanwhile.
    fn checked(&self, overrides: &Overrides) -> Result<OverrideTable, OverridesError> {
        let known = known_limits(&self.policies.read());
        let source = overrides.source_name();
        let mut table =
            check(overrides, &known).map_err(|problems| OverridesError::new(&source, problems))?;
        table.source = source;
        Ok(table)
    }

    /// Replaces the table, while `watch` is locked. Returns the one before.
    fn put_in_force(&self, table: OverrideTable) -> Option<Arc<OverrideTable>> {
        let before = self.table.swap(Some(Arc::new(table)));
        self.is_set.store(true, Ordering::Release);
        *self.rejected.lock() = None;
        Observer::overrides_current(true);
        before
    }

    /// Whether this watch is over.
    pub(super) fn is_over(&self, number: u64) -> bool {
        *self.watch.lock() != number
    }

    /// Notes that new contents are not in force. Returns false, and nothing changes, if the watch is over.
    pub(super) fn reject_by(&self, number: u64, error: Arc<OverridesError>) -> bool {
        let watch = self.watch.lock();
        if *watch != number {
            return false;
        }
        *self.rejected.lock() = Some(error);
        Observer::overrides_current(false);
        true
    }

    pub(crate) fn rejected(&self) -> Option<Arc<OverridesError>> {
        self.rejected.lock().clone()
    }

    /// Whether a limit has overrides.
    pub(super) fn has_rules(&self) -> bool {
        self.table.load().as_ref().is_some_and(|table| !table.is_empty())
    }

    /// The overrides in force, without touching a reference count. Not to be kept while a request waits. One
    /// relaxed load if there have not been any.
    #[inline]
    pub(crate) fn guard(&self) -> OverridesGuard {
        if !self.is_set.load(Ordering::Relaxed) {
            return OverridesGuard(None);
        }
        OverridesGuard(Some(self.table.load()))
    }

    /// The overrides as a whole. `None` if there have not been any.
    pub(crate) fn status(&self) -> Option<OverridesStatus> {
        let table = self.table.load();
        let table = table.as_ref()?;
        let (limits, rows) = table.size();
        let rejected = self.rejected().map(|error| error.to_string());
        Some(OverridesStatus { source: table.source.clone(), limits, rows, rejected })
    }

    /// The policies that were passed to the builder.
    pub(crate) fn builder_policies(&self) -> Vec<Policy> {
        self.policies.read().iter().map(|known| known.policy.clone()).collect()
    }
}
