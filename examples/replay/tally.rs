//! What one limit decided.

use std::time::Duration;

use ratelimit_core::{Algorithm, Outcome, PolicyError, Timestamp};

use crate::census::Census;
use crate::limits::Limit;
use crate::most_denied::MostDenied;
use crate::timeline::Timeline;

/// Windows for which `--suggest` tells numbers, in seconds, beside that of the limit.
const WINDOWS: [u64; 5] = [1, 10, 60, 3_600, 86_400];

#[derive(Debug)]
pub(crate) struct Tally {
    /// Requests that were judged.
    pub(crate) requests: u64,
    /// Requests that this limit denied.
    pub(crate) denied: u64,
    /// Requests that passed this limit, and were denied by another one of the same request.
    pub(crate) denied_by_others: u64,
    /// Requests whose line does not tell the caller; not judged.
    pub(crate) without_caller: u64,
    /// Requests of callers for whom there was no room; not judged.
    pub(crate) without_room: u64,
    pub(crate) longest_wait: Duration,
    pub(crate) most_denied: MostDenied,
    pub(crate) timeline: Timeline,
    /// For the window of the limit, then for other windows.
    pub(crate) censuses: Vec<Census>,
}

impl Tally {
    pub(crate) fn new(limit: &Limit, max_callers: usize, suggest: bool) -> Result<Self, PolicyError> {
        let policy = &limit.policy;
        let mut censuses = vec![Census::new(policy, policy.window(), max_callers)?];
        // Another window of a bucket would be another rate.
        if suggest && policy.algorithm() != Algorithm::TokenBucket {
            let windows =
                WINDOWS.map(Duration::from_secs).into_iter().filter(|window| *window != policy.window());
            // A window that the sub-windows do not divide is left out.
            censuses.extend(windows.filter_map(|window| Census::new(policy, window, max_callers).ok()));
        }
        Ok(Self {
            requests: 0,
            denied: 0,
            denied_by_others: 0,
            without_caller: 0,
            without_room: 0,
            longest_wait: Duration::ZERO,
            most_denied: MostDenied::new(max_callers),
            timeline: Timeline::default(),
            censuses,
        })
    }

    /// Adds a request that was judged. `is_admitted` tells whether all its limits admitted it, `counts` whether its answer counts.
    pub(crate) fn add(
        &mut self,
        (caller, digest): (&str, u128),
        outcome: &Outcome,
        is_admitted: bool,
        counts: bool,
        now: Timestamp,
    ) {
        self.requests += 1;
        let is_denied = !outcome.is_allowed();
        for census in &mut self.censuses {
            census.add(digest, now, counts, is_denied);
        }
        if is_denied {
            self.denied += 1;
            self.longest_wait = self.longest_wait.max(outcome.retry_after().unwrap_or_default());
            self.most_denied.add(caller, digest);
        } else if !is_admitted {
            self.denied_by_others += 1;
            return;
        }
        self.timeline.add(now, is_admitted);
    }

    /// The census for the window of the limit.
    pub(crate) fn census(&self) -> &Census {
        &self.censuses[0]
    }
}
