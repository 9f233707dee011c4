//! What a limiter records about its decisions: metrics, statistics, and a log line for shadow limits.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::check::Check;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::observe::Counted;
use crate::observe::log::help;
use crate::observe::metrics;
use crate::observe::stats::Stats;
use crate::outcome::Outcome;

/// Minimum time between two log lines about one shadow limit, in microseconds.
const INTERVAL_US: u64 = 60_000_000;

/// Largest number of limits whose last log line is remembered. Policies made at run time may have any number of names.
const MAX_LIMITS: usize = 1_000;

/// Records decisions.
#[derive(Debug)]
pub(crate) struct Report {
    clock: SystemClock,
    /// Instant of the last line about each shadow limit, by its name.
    last_lines: Mutex<HashMap<String, Timestamp>>,
    /// Share of the capacity below which an admitted request is near the limit.
    near_limit_ratio: f64,
    pub(crate) stats: Stats,
}

impl Report {
    pub(crate) fn new(near_limit_ratio: f64) -> Self {
        Self {
            clock: SystemClock::new(),
            last_lines: Mutex::default(),
            near_limit_ratio,
            stats: Stats::new(),
        }
    }

    /// Records the outcomes of a group, decided by the store or without it.
    #[inline]
    pub(crate) fn decided(&self, group: &[Check<'_>], outcomes: &[Outcome]) {
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
            metrics::decided(check.policy(), counted, is_near_limit);
            self.stats.record(check, counted, is_near_limit);
        }
    }

    /// Records a decision without the store; `None` if a limit of the group failed closed.
    pub(crate) fn degraded(&self, group: &[Check<'_>], decided: Option<&[Outcome]>) {
        metrics::degraded(group, decided);
        for check in group {
            self.stats.record_degraded(check.policy(), decided.is_some());
        }
    }

    /// Logs each shadow limit that would deny, at most once a minute and without the caller.
    #[cold]
    fn log_shadow_denials(&self, group: &[Check<'_>], outcomes: &[Outcome]) {
        for (check, outcome) in group.iter().zip(outcomes) {
            let name = check.policy().name();
            if outcome.would_deny() && self.may_log(name) {
                tracing::info!(
                    limit = name,
                    help = help("would-have-denied"),
                    "a shadow limit would have denied a request"
                );
            }
        }
    }

    /// Whether a line about this limit may be logged now; if so, the next may be logged a minute later.
    fn may_log(&self, name: &str) -> bool {
        let now = self.clock.now();
        let is_recent = |last: Timestamp| now.as_micros().saturating_sub(last.as_micros()) < INTERVAL_US;
        let mut last_lines = self.last_lines.lock();
        if let Some(last) = last_lines.get_mut(name) {
            let may_log = !is_recent(*last);
            if may_log {
                *last = now;
            }
            return may_log;
        }
        if last_lines.len() >= MAX_LIMITS {
            last_lines.retain(|_, last| is_recent(*last));
        }
        let has_room = last_lines.len() < MAX_LIMITS;
        if has_room {
            last_lines.insert(name.to_owned(), now);
        }
        has_room
    }
}

/// Whether less than this share of the capacity is left after a charge.
#[inline]
fn is_near_limit(outcome: &Outcome, ratio: f64) -> bool {
    #[allow(clippy::cast_precision_loss, reason = "below 2^53")]
    let (remaining, limit) = (outcome.remaining() as f64, outcome.limit() as f64);
    outcome.fits() && !outcome.is_degraded() && remaining < ratio * limit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(0.1)
    }

    #[test]
    fn each_limit_is_logged_once_a_minute() {
        let report = report();
        assert_eq!(
            ["a", "a", "b", "a", "b"].map(|name| report.may_log(name)),
            [true, false, true, false, false]
        );
        // A minute passes.
        let earlier = Timestamp::from_micros(report.clock.now().as_micros() - INTERVAL_US);
        report.last_lines.lock().insert("a".to_owned(), earlier);
        assert_eq!(["a", "a", "b"].map(|name| report.may_log(name)), [true, false, false]);
    }

    #[test]
    fn the_number_of_limits_is_bounded() {
        let report = report();
        let logged = (0..2 * MAX_LIMITS).filter(|number| report.may_log(&number.to_string())).count();
        assert_eq!((logged, report.last_lines.lock().len()), (MAX_LIMITS, MAX_LIMITS));
        for last in report.last_lines.lock().values_mut() {
            *last = Timestamp::from_micros(last.as_micros() - INTERVAL_US);
        }
        assert!(report.may_log("another"), "the old ones are forgotten");
    }
}
