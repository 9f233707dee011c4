//! Events of a limiter: each has a method, which passes it to the metrics, the statistics and the log.
//!
//! Without the features `metrics` and `stats` nothing is computed for these, so that the code that is
//! observed has no conditions.

#[cfg(feature = "redis")]
pub(super) mod store;

use std::time::Duration;
#[cfg(feature = "metrics")]
use std::time::Instant;

#[cfg(feature = "metrics")]
use ::metrics::{counter, gauge, histogram};

use crate::check::Check;
use crate::error::StoreError;
use crate::observe::Counted;
#[cfg(feature = "metrics")]
use crate::observe::log::LogLimit;
use crate::observe::log::{LogLimitByName, help};
#[cfg(feature = "metrics")]
use crate::observe::metrics;
#[cfg(feature = "stats")]
use crate::observe::stats::Stats;
use crate::outcome::Outcome;
use crate::policy::Policy;

/// Passes on the events of one limiter, and keeps its statistics.
#[derive(Debug)]
pub(crate) struct Observer {
    /// Share of the capacity below which an admitted request is near the limit.
    near_limit_ratio: f64,
    shadow_denials: LogLimitByName,
    /// Limits how often the callers in this process are counted, which takes every lock.
    #[cfg(feature = "metrics")]
    fallback_callers: LogLimit,
    #[cfg(feature = "stats")]
    pub(crate) stats: Stats,
}

impl Observer {
    pub(crate) fn new(near_limit_ratio: f64) -> Self {
        Self {
            near_limit_ratio,
            shadow_denials: LogLimitByName::default(),
            #[cfg(feature = "metrics")]
            fallback_callers: LogLimit::default(),
            #[cfg(feature = "stats")]
            stats: Stats::new(),
        }
    }

    /// A limiter is made over a store that may fail.
    pub(crate) fn store_made(&self) {
        // A query for a rise, such as `increase`, cannot see the first count of a series that begins with it.
        #[cfg(feature = "metrics")]
        for class in metrics::CLASSES {
            counter!(metrics::STORE_FAILURES, "class" => class).increment(0);
        }
    }

    /// A group was decided, by the store or without it.
    #[inline]
    pub(crate) fn observe(&self, group: &[Check<'_>], outcomes: &[Outcome]) {
        if cfg!(any(feature = "metrics", feature = "stats")) {
            self.count(group, outcomes);
        }
        if outcomes.iter().any(Outcome::would_deny) {
            self.log_shadow_denials(group, outcomes);
        }
    }

    #[inline]
    fn count(&self, group: &[Check<'_>], outcomes: &[Outcome]) {
        let is_admitted = outcomes.iter().all(Outcome::is_allowed);
        for (check, outcome) in group.iter().zip(outcomes) {
            let counted = Counted::of(outcome, is_admitted);
            let is_near_limit = is_admitted && is_near_limit(outcome, self.near_limit_ratio);
            #[cfg(feature = "metrics")]
            metrics::count(check.policy(), counted, is_near_limit);
            #[cfg(feature = "stats")]
            self.stats.record(check, counted, is_near_limit);
        }
    }

    /// Logs each shadow limit that would deny, at most once a minute and without the caller.
    #[cold]
    fn log_shadow_denials(&self, group: &[Check<'_>], outcomes: &[Outcome]) {
        for (check, outcome) in group.iter().zip(outcomes) {
            let name = check.policy().name();
            if outcome.would_deny() && self.shadow_denials.may_log(name) {
                tracing::info!(
                    limit = name,
                    help = help("would-have-denied"),
                    "a shadow limit would have denied a request"
                );
            }
        }
    }

    /// The store failed.
    pub(crate) fn failed(&self, error: &StoreError) {
        #[cfg(feature = "metrics")]
        metrics::failed(error);
    }

    /// A group was decided without the store; `None` if a limit of it failed closed. `callers` counts the
    /// callers of this process.
    pub(crate) fn degraded(
        &self,
        group: &[Check<'_>],
        decided: Option<&[Outcome]>,
        callers: impl FnOnce() -> usize,
    ) {
        #[cfg(feature = "metrics")]
        {
            metrics::degraded(group, decided);
            if self.fallback_callers.may_log() {
                gauge!(metrics::FALLBACK_CALLERS).set(callers() as f64);
            }
        }
        #[cfg(feature = "stats")]
        for check in group {
            self.stats.record_degraded(check.policy(), decided.is_some());
        }
    }

    /// A request waits for its turn, for this time.
    pub(crate) fn waits(&self, policy: &Policy, wait: Duration) {
        #[cfg(feature = "metrics")]
        histogram!(metrics::WAIT_SECONDS, "policy" => metrics::name(policy)).record(wait);
    }

    /// Slots are held, from now on until what this returns is called.
    pub(crate) fn hold(&self, policy: &Policy, slots: u64) -> impl Fn() + Send + Sync + use<> {
        let policy = policy.clone();
        #[cfg(feature = "stats")]
        let limit = self.stats.limit(&policy);
        let change = move |are_held| {
            #[cfg(feature = "metrics")]
            metrics::held(&policy, slots, are_held);
            #[cfg(feature = "stats")]
            limit.hold(slots, are_held);
        };
        change(true);
        move || change(false)
    }
}

/// Events of the overrides of a limiter.
#[cfg(feature = "overrides")]
impl Observer {
    /// A watch of a file begins. So do the counters of its new contents, for the reason of
    /// [`store_made`](Self::store_made).
    pub(crate) fn overrides_watched() {
        for is_applied in [true, false] {
            Self::overrides_reloaded(is_applied, 0);
        }
    }

    /// A watched file had new contents this many times, and they were applied or rejected.
    pub(crate) fn overrides_reloaded(is_applied: bool, times: u64) {
        #[cfg(feature = "metrics")]
        counter!(metrics::OVERRIDES_RELOADS, "outcome" => if is_applied { "applied" } else { "rejected" })
            .increment(times);
    }

    /// The newest overrides are in force, or were rejected.
    pub(crate) fn overrides_current(is_current: bool) {
        #[cfg(feature = "metrics")]
        gauge!(metrics::OVERRIDES_CURRENT).set(if is_current { 1.0 } else { 0.0 });
    }
}

/// Measures the time of a decision by a store.
pub(crate) struct Stopwatch {
    #[cfg(feature = "metrics")]
    start: Instant,
}

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "measures, and decides nothing")]
    #[inline]
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            start: Instant::now(),
        }
    }

    /// The store has decided.
    #[allow(clippy::disallowed_methods, reason = "measures, and decides nothing")]
    #[inline]
    pub(crate) fn stop(&self) {
        #[cfg(feature = "metrics")]
        histogram!(metrics::STORE_SECONDS).record(self.start.elapsed());
    }
}

/// Whether less than this share of the capacity is left after a charge.
#[inline]
fn is_near_limit(outcome: &Outcome, ratio: f64) -> bool {
    let (remaining, limit) = (outcome.remaining() as f64, outcome.capacity() as f64);
    outcome.fits() && !outcome.is_degraded() && remaining < ratio * limit
}
