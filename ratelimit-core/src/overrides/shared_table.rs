//! The table of overrides that is in force: read by every request without a lock, replaced as a whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwapOption, Guard};

use super::in_force::InForce;
use super::table::OverrideTable;
use crate::policy::Policy;

/// The table in force, which requests share.
#[derive(Debug, Default)]
pub(super) struct SharedTable {
    /// Whether there has been a table; stays set. Before, a request reads nothing else.
    is_set: AtomicBool,
    table: ArcSwapOption<OverrideTable>,
}

impl SharedTable {
    /// Replaces the table. Returns the one before, which may take a while to drop.
    pub(super) fn replace(&self, table: OverrideTable) -> Option<Arc<OverrideTable>> {
        let before = self.table.swap(Some(Arc::new(table)));
        self.is_set.store(true, Ordering::Release);
        before
    }

    /// The table, without touching a reference count. Not to be kept while a request waits. One relaxed load
    /// if there has not been any.
    #[inline]
    pub(super) fn guard(&self) -> OverridesGuard {
        if !self.is_set.load(Ordering::Relaxed) {
            return OverridesGuard(None);
        }
        OverridesGuard(Some(self.table.load()))
    }
}

/// The overrides in force, while one group looks its limits up. `None` if there have not been any.
#[derive(Debug)]
pub struct OverridesGuard(Option<Guard<Option<Arc<OverrideTable>>>>);

impl OverridesGuard {
    /// What overrides have in force for a policy of the program, for callers without a row of their own.
    #[inline]
    pub fn limit(&self, policy: &Policy) -> Option<InForce<'_>> {
        self.table()?.limit(policy).map(InForce::from)
    }

    #[inline]
    pub(super) fn table(&self) -> Option<&OverrideTable> {
        self.0.as_ref()?.as_deref()
    }
}
