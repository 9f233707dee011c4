//! The counters of one limit: atomics that every decision adds to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::recent::{Bar, Recent, Totals};
use crate::observe::counted::Counted;
use crate::policy::Policy;

/// Maximum number of policies with one name that are kept.
const MAX_POLICIES: usize = 8;

/// The counters of one limit, shared by the tables that name it.
pub(super) type Limit = Arc<LimitCounts>;

/// The counters of one limit. On a cache line of their own, so that two busy limits do not slow each other.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct LimitCounts {
    admitted: AtomicU64,
    denied: AtomicU64,
    passed: AtomicU64,
    would_deny: AtomicU64,
    near_limit: AtomicU64,
    degraded: AtomicU64,
    held: AtomicU64,
    name: Box<str>,
    /// Policies that do not share their counts.
    policies: Mutex<Vec<Policy>>,
    recent: Mutex<Recent>,
}

impl LimitCounts {
    pub(super) fn new(name: &str) -> Self {
        Self {
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            would_deny: AtomicU64::new(0),
            near_limit: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
            held: AtomicU64::new(0),
            name: name.into(),
            policies: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    pub(crate) const fn name(&self) -> &str {
        &self.name
    }

    /// Keeps a policy, unless one with the same states is kept.
    #[cold]
    pub(super) fn keep(&self, policy: &Policy) {
        let mut policies = self.policies.lock();
        let is_kept = policies.iter().any(|kept| kept.state_id() == policy.state_id());
        if !is_kept && policies.len() < MAX_POLICIES {
            policies.push(policy.clone());
        }
    }

    pub(super) fn policies(&self) -> Vec<Policy> {
        self.policies.lock().clone()
    }

    #[inline]
    pub(super) fn record(&self, decided: Counted, is_near_limit: bool) {
        let counter = match decided {
            Counted::Admitted => &self.admitted,
            Counted::Denied => &self.denied,
            Counted::Passed => &self.passed,
            Counted::WouldDeny => &self.would_deny,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if is_near_limit {
            self.near_limit.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn record_degraded(&self) {
        self.degraded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts units that are held, or are no longer.
    pub(crate) fn hold(&self, units: u64, are_held: bool) {
        let change = if are_held { AtomicU64::fetch_add } else { AtomicU64::fetch_sub };
        change(&self.held, units, Ordering::Relaxed);
    }

    /// Units that are held.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            admitted: read(&self.admitted),
            denied: read(&self.denied),
            passed: read(&self.passed),
            would_deny: read(&self.would_deny),
            near_limit: read(&self.near_limit),
            degraded: read(&self.degraded),
        }
    }

    /// Ends all bars before the one with this number.
    pub(super) fn begin_bar(&self, bar: u64) {
        self.recent.lock().begin(bar, self.totals());
    }

    /// The bars so far, with the present one.
    pub(super) fn recent(&self, bar: u64) -> Vec<Bar> {
        self.recent.lock().bars(bar, self.totals())
    }
}
