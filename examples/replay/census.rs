//! The most that each caller ever asked for at a time: from it follow the limits that would have denied no one.
//!
//! Under a limit that denies nothing every request is charged, so the units that are in use do not depend on `max`. A caller is never
//! denied exactly if `max` is at least its peak: the most units that were in use when one of its requests came, with that request. So
//! each caller has a state under the largest possible `max`, decided by the function of the stores, and its peak.
//!
//! The `max` of a token bucket is its rate, on which the units in use depend. There the peak is the smallest `burst`, at the rate as given.
//!
//! Memory is bounded twice. A log has at most a thousand entries for a caller: the window is divided into a thousand parts, and a request
//! counts as made at the beginning of its part. A peak may be too high by the requests of one part, and is never too low. When
//! there are too many callers, those whose digest begins with a 1 are dropped, then those with 01, and so on: the rest is a
//! random sample of callers, and each of them was counted from its first request on.

use std::collections::HashMap;
use std::time::Duration;

use ratelimit_core::policy::{MAX_UNITS, MAX_WINDOW};
use ratelimit_core::store::toolkit::{Operation, State};
use ratelimit_core::{Algorithm, Policy, PolicyError, Timestamp};

/// Parts of a window of a log.
const PARTS: u64 = 1_000;
/// Fewest requests between two sweeps.
const MIN_SWEEP: usize = 10_000;

/// All callers under one limit, or a sample of them.
#[derive(Debug)]
pub(crate) struct Census {
    /// Denies nothing.
    policy: Policy,
    /// Instants are rounded down to multiples of this, in microseconds.
    part: u64,
    rows: HashMap<u128, Row>,
    max_rows: usize,
    /// Digests of the sample begin with so many zeros.
    zeros: u32,
    since_sweep: usize,
}

#[derive(Debug)]
struct Row {
    state: State,
    peak: u64,
    is_denied: bool,
}

impl Census {
    /// For the window of `policy` or another one. An error if the policy cannot have this window.
    pub(crate) fn new(policy: &Policy, window: Duration, max_rows: usize) -> Result<Self, PolicyError> {
        let builder = Policy::builder("largest").algorithm(policy.algorithm()).window(window);
        let builder = match policy.algorithm() {
            Algorithm::TokenBucket => {
                let refilled = MAX_WINDOW.as_micros() * u128::from(policy.max()) / window.as_micros();
                let burst = u64::try_from(refilled).unwrap_or(MAX_UNITS).min(MAX_UNITS);
                builder.max(policy.max()).burst(burst)
            }
            Algorithm::SlidingWindowCounter => builder.max(MAX_UNITS).sub_windows(policy.sub_windows()),
            _ => builder.max(MAX_UNITS),
        };
        let part = match policy.algorithm() {
            Algorithm::SlidingWindowLog => u64::try_from(window.as_micros()).unwrap_or(u64::MAX) / PARTS,
            _ => 1,
        };
        let policy = builder.try_build()?;
        Ok(Self { policy, part: part.max(1), rows: HashMap::new(), max_rows, zeros: 0, since_sweep: 0 })
    }

    /// Adds a request of the caller with this digest. A request that does not `count` gives its unit back at once.
    pub(crate) fn add(&mut self, digest: u128, now: Timestamp, counts: bool, is_denied: bool) {
        if digest.leading_zeros() < self.zeros {
            return;
        }
        let now = Timestamp::from_micros(now.as_micros() / self.part * self.part);
        self.sweep(now);
        let new = || Row { state: State::new(&self.policy), peak: 0, is_denied: false };
        let row = self.rows.entry(digest).or_insert_with(new);
        row.is_denied |= is_denied;
        let outcome = row.state.decide(&self.policy, 1, now, Operation::Check);
        row.peak = row.peak.max(outcome.limit() - outcome.remaining());
        if !counts {
            let until = now.saturating_add(outcome.reset_after());
            row.state.refund(&self.policy, now, now, until, 1);
        }
        while self.rows.len() > self.max_rows {
            self.zeros += 1;
            let zeros = self.zeros;
            self.rows.retain(|digest, _| digest.leading_zeros() >= zeros);
        }
    }

    /// Frees what states of idle callers have on the heap.
    fn sweep(&mut self, now: Timestamp) {
        self.since_sweep += 1;
        if self.since_sweep > MIN_SWEEP.max(self.rows.len()) {
            self.since_sweep = 0;
            for row in self.rows.values_mut().filter(|row| row.state.expires_at() <= now) {
                row.state = State::new(&self.policy);
            }
        }
    }

    pub(crate) fn window(&self) -> Duration {
        self.policy.window()
    }

    /// How many callers there were; an estimate if only a sample was counted.
    pub(crate) fn callers(&self) -> u64 {
        self.estimate(self.rows.len())
    }

    /// How many callers were denied at least once; an estimate as well.
    pub(crate) fn denied(&self) -> u64 {
        self.estimate(self.rows.values().filter(|row| row.is_denied).count())
    }

    /// 1 if all callers were counted, otherwise one of so many was.
    pub(crate) fn one_of(&self) -> u64 {
        1 << self.zeros.min(63)
    }

    fn estimate(&self, rows: usize) -> u64 {
        (rows as u64).saturating_mul(self.one_of())
    }

    /// For each share, in tenths of a percent, the smallest `max` (or `burst`) that denies none of so many callers: those who ask
    /// least. 0 without callers.
    pub(crate) fn needed<const N: usize>(&self, shares: [u64; N]) -> [u64; N] {
        let mut peaks: Vec<u64> = self.rows.values().map(|row| row.peak).collect();
        peaks.sort_unstable();
        shares.map(|share| {
            let callers = (peaks.len() as u64 * share).div_ceil(1_000);
            let last = usize::try_from(callers).ok().and_then(|callers| peaks.get(callers.checked_sub(1)?));
            last.copied().unwrap_or(0)
        })
    }
}
