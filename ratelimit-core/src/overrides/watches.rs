//! Which watch of a file is on, and why the newest contents of the file are not in force.

use std::sync::Arc;

use parking_lot::Mutex;

use super::error::OverridesError;
use crate::observe::Observer;

/// The watches of one limiter, of which the newest may be on.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// The number of the newest watch. All earlier ones are over. Locked while overrides are put in force,
    /// but not while they are checked, which takes long for many rows.
    newest: Mutex<u64>,
    /// Why the newest contents of the file are not in force.
    rejected: Mutex<Option<Arc<OverridesError>>>,
}

impl Watches {
    /// Puts overrides in force by `put`, ends the watch before, and begins another one. Returns its number,
    /// and what `put` has returned.
    pub(super) fn begin<T>(&self, put: impl FnOnce() -> T) -> (u64, T) {
        let mut newest = self.newest.lock();
        *newest += 1;
        (*newest, self.accept(put))
    }

    /// Puts new contents in force by `put`. `None`, and nothing changes, if this watch is over.
    pub(super) fn go_on<T>(&self, number: u64, put: impl FnOnce() -> T) -> Option<T> {
        let newest = self.newest.lock();
        (*newest == number).then(|| self.accept(put))
    }

    fn accept<T>(&self, put: impl FnOnce() -> T) -> T {
        let put = put();
        *self.rejected.lock() = None;
        Observer::overrides_current(true);
        put
    }

    /// Whether this watch is over.
    pub(super) fn is_over(&self, number: u64) -> bool {
        *self.newest.lock() != number
    }

    /// Notes that new contents are not in force. Returns false, and nothing changes, if the watch is over.
    pub(super) fn reject(&self, number: u64, error: Arc<OverridesError>) -> bool {
        let newest = self.newest.lock();
        if *newest != number {
            return false;
        }
        *self.rejected.lock() = Some(error);
        Observer::overrides_current(false);
        true
    }

    pub(crate) fn rejected(&self) -> Option<Arc<OverridesError>> {
        self.rejected.lock().clone()
    }
}
