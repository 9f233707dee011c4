//! The most that each caller ever asked for at a time: from it follow the limits that would have denied no
//! one.
//!
//! Under a limit that denies nothing, the units in use do not depend on `max`, and a caller is never denied
//! exactly if `max` is at least its peak: the most units that were in use at one of its requests. So each
//! caller has a state under the largest possible `max`, decided by the function of the stores, and its peak.
//! The `max` of a token bucket is its rate: there it is the `burst`.
//!
//! A log counts a request at the beginning of a thousandth of its window, so that a caller has at most a
//! thousand entries: its peak may be too high by the requests of one part, and is never too low.

use std::collections::HashMap;
use std::time::Duration;

use ratelimit_core::policy::{MAX_UNITS, MAX_WINDOW};
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, PolicyError, Timestamp};

/// All callers under one limit: by their digests, their states and their peaks.
#[derive(Debug)]
pub(crate) struct Census {
    /// Denies nothing.
    pub(crate) policy: Policy,
    /// Microseconds, of which instants are multiples.
    part: u64,
    pub(crate) callers: HashMap<u128, (State, u64)>,
}

impl Census {
    /// For the window of `policy` or another one. An error if the policy cannot have this window.
    pub(crate) fn new(policy: &Policy, window: Duration) -> Result<Self, PolicyError> {
        let builder = Policy::builder("largest").algorithm(policy.algorithm()).window(window).max(MAX_UNITS);
        let (builder, part) = match policy.algorithm() {
            Algorithm::TokenBucket => {
                let windows = MAX_WINDOW.as_secs() / window.as_secs().max(1);
                (builder.max(policy.max()).burst(policy.max().saturating_mul(windows).min(MAX_UNITS)), 1)
            }
            Algorithm::SlidingWindowCounter => (builder.sub_windows(policy.sub_windows()), 1),
            Algorithm::SlidingWindowLog => (builder, u64::try_from(window.as_micros() / 1_000).unwrap_or(1)),
            _ => (builder, 1),
        };
        Ok(Self { policy: builder.try_build()?, part, callers: HashMap::new() })
    }

    /// Adds a request of the caller with this digest. A request that does not `count` gives its unit back at
    /// once.
    pub(crate) fn add(&mut self, digest: u128, now: Timestamp, counts: bool) {
        let now = Timestamp::from_micros(now.as_micros() / self.part * self.part);
        let (state, peak) = self.callers.entry(digest).or_insert_with(|| (State::new(&self.policy), 0));
        let outcome = state.decide(&self.policy, 1, now, Operation::Check);
        *peak = (*peak).max(outcome.capacity() - outcome.remaining());
        if !counts {
            state.refund(&self.policy, now, now, now.saturating_add(outcome.reset_after()), 1);
        }
    }

    /// For each share, in tenths of a percent, the smallest number that denies none of so many callers: those
    /// who ask least.
    pub(crate) fn needed<const N: usize>(&self, shares: [usize; N]) -> [u64; N] {
        let mut peaks: Vec<u64> = self.callers.values().map(|(_, peak)| *peak).collect();
        peaks.sort_unstable();
        shares.map(|share| (peaks.len() * share).div_ceil(1_000).checked_sub(1).map_or(0, |last| peaks[last]))
    }
}
