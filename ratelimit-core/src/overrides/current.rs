//! The overrides of a limiter that are in force: read by every request without a lock, replaced as a whole.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::{Mutex, RwLock};

use super::check::check;
use super::error::OverridesError;
use super::known::{KnownLimit, known_limits};
use super::set::Overrides;
use super::table::{LimitRows, OverrideTable};
use crate::observe::metrics;
use crate::policy::Policy;

/// The overrides in force of one limiter.
#[derive(Debug)]
pub(crate) struct Current {
    /// Whether there have been overrides. A request reads nothing else if there have not. Stays set.
    is_set: AtomicBool,
    table: ArcSwapOption<OverrideTable>,
    /// Tells limiters apart.
    id: u64,
    /// Policies that were given to the builder.
    policies: RwLock<Vec<KnownLimit>>,
    /// The number of the newest watch. All earlier ones are over. Locked while other overrides are put in force, but not while they
    /// are checked, which takes long for many rows.
    watch: Mutex<u64>,
    /// Why the newest contents of the file are not in force.
    rejected: Mutex<Option<Arc<OverridesError>>>,
}

/// The overrides in force, while a request looks its limits up.
#[derive(Debug)]
pub struct OverridesGuard(Guard<Option<Arc<OverrideTable>>>);

impl OverridesGuard {
    /// The overrides of a policy of the program.
    #[inline]
    pub fn limit(&self, policy: &Policy) -> Option<&LimitRows> {
        self.0.as_ref()?.limit(policy)
    }
}

/// The overrides of one version, for one request.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<OverrideTable>);

impl Default for Current {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            is_set: AtomicBool::new(false),
            table: ArcSwapOption::empty(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            policies: RwLock::default(),
            watch: Mutex::default(),
            rejected: Mutex::default(),
        }
    }
}

impl Current {
    /// Adds policies that overrides may name.
    pub(crate) fn add_policies(&self, policies: impl IntoIterator<Item: Borrow<Policy>>) {
        self.policies.write().extend(policies.into_iter().map(KnownLimit::of_policy));
    }

    /// Checks overrides, and puts them in force as a whole. Ends the watch before. Returns the number of the watch of their file.
    ///
    /// Of two at once, that wins whose check ends later.
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

    /// [`replace`](Self::replace) by a watch. `None`, and nothing changes, if that is over. Returns the number of limits and rows.
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

    /// The table of overrides without mistakes. Holds no lock meanwhile.
    fn checked(&self, overrides: &Overrides) -> Result<OverrideTable, OverridesError> {
        let known = known_limits(&self.policies.read());
        let source = overrides.source_name();
        let mut table =
            check(overrides, &known, self.id).map_err(|problems| OverridesError::new(&source, problems))?;
        table.source = source;
        Ok(table)
    }

    /// Replaces the table, while `watch` is locked. Returns the one before.
    fn put_in_force(&self, table: OverrideTable) -> Option<Arc<OverrideTable>> {
        let before = self.table.swap(Some(Arc::new(table)));
        self.is_set.store(true, Ordering::Release);
        *self.rejected.lock() = None;
        metrics::overrides_current(true);
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
        metrics::overrides_current(false);
        true
    }

    pub(crate) fn rejected(&self) -> Option<Arc<OverridesError>> {
        self.rejected.lock().clone()
    }

    /// Whether a limit has overrides.
    pub(super) fn has_rules(&self) -> bool {
        self.table.load().as_ref().is_some_and(|table| !table.is_empty())
    }

    /// Whether there have been overrides. One relaxed load.
    #[inline]
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// The overrides in force, without touching a reference count. Not to be kept while a request waits.
    #[inline]
    pub(crate) fn guard(&self) -> Option<OverridesGuard> {
        if self.is_set() { Some(OverridesGuard(self.table.load())) } else { None }
    }

    /// The overrides in force, for as long as the request needs them.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        if self.is_set() { self.table.load_full().map(Snapshot) } else { None }
    }

    /// The policies that were given to the builder.
    pub(crate) fn given_policies(&self) -> Vec<Policy> {
        self.policies.read().iter().map(|known| known.policy.clone()).collect()
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}

impl Snapshot {
    /// The overrides of a policy of the program.
    #[inline]
    pub fn limit(&self, policy: &Policy) -> Option<&LimitRows> {
        self.0.limit(policy)
    }

    /// What messages call these overrides, and how many policies and rows they have.
    pub fn summary(&self) -> (&str, (usize, usize)) {
        (self.0.source(), self.0.size())
    }

    /// The limiter whose overrides these are.
    pub(crate) fn owner(&self) -> u64 {
        self.0.owner
    }
}
