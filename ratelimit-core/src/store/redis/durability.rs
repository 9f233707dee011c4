//! Whether the server keeps counts over a restart, which limits of days and months need.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::observe::log::help;
use crate::policy::Policy;

/// Shortest window for which a restart of the server is worth a warning, a day.
const LONG_US: u64 = 86_400_000_000;

/// What is known of the server's persistence.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// Whether a restart loses all counts: a server or a node of the cluster neither persists nor replicates.
    is_volatile: AtomicBool,
    has_warned: AtomicBool,
}

impl Durability {
    pub(super) fn set_volatile(&self, is_volatile: bool) {
        self.is_volatile.store(is_volatile, Ordering::Relaxed);
    }

    /// Warns once, if counts of this policy are lost with a restart.
    #[inline]
    pub(super) fn warn_about(&self, policy: &Policy) {
        if policy.window_us() >= LONG_US && self.is_volatile.load(Ordering::Relaxed) {
            self.warn(policy);
        }
    }

    #[cold]
    fn warn(&self, policy: &Policy) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                policy = policy.name(),
                help = help("volatile-server"),
                "this Redis neither persists nor replicates, so a restart begins limits of a day or more anew; set \
                 `appendonly yes` or `save`, or add a replica"
            );
        }
    }
}
