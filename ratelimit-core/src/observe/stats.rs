//! Statistics of a limiter: what each limit decided since the start, and which callers were denied most.
//!
//! A decision adds to counters of its own limit; up to 2,048 states are found without a lock. A denial also
//! looks its caller up in a small table; if another thread uses that part of the table, the denial goes on
//! without.

mod counts;
mod denied;
mod histogram;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::counts::{BAR_SECONDS, BARS, Bar, Totals};
use self::counts::{BARS_PER_MINUTE, LimitCounts};
use self::denied::DeniedCallers;
pub use self::denied::{CallerDigest, DeniedCaller};
#[cfg(feature = "redis")]
pub(crate) use self::histogram::Histogram;
use self::table::LimitTable;
use crate::check::Check;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::observe::Counted;
pub use crate::observe::status::Percentiles;
use crate::policy::Policy;

/// What a limiter has decided in this process since it was built.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Policy, RateLimiter};
///
/// static LOGIN: Policy = Policy::new("login", 1, Duration::from_secs(60));
///
/// let limiter = RateLimiter::in_memory();
/// let _ = limiter.try_check(&LOGIN, "alice")?;
/// let _ = limiter.try_check(&LOGIN, "alice")?;
/// let limits = limiter.stats().limits();
/// assert_eq!((limits[0].name(), limits[0].totals().admitted, limits[0].totals().denied), ("login", 1, 1));
/// assert_eq!(limiter.stats().denied_callers(10)[0].count(), 1);
/// # Ok::<(), ratelimit_core::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Stats {
    limits: LimitTable,
    denied: DeniedCallers,
    clock: SystemClock,
    started: Timestamp,
    /// Number of the last bar that was begun, since the epoch.
    last_bar: AtomicU64,
}

/// The statistics of the limits with one name, in this process.
#[derive(Clone, Debug)]
pub struct LimitStats {
    name: String,
    policies: Vec<Policy>,
    totals: Totals,
    last_minute: Totals,
    held: u64,
    recent: Vec<Bar>,
}

impl Stats {
    pub(crate) fn new() -> Self {
        let clock = SystemClock::new();
        Self {
            limits: LimitTable::new(),
            denied: DeniedCallers::new(),
            clock,
            started: clock.now(),
            last_bar: AtomicU64::new(0),
        }
    }

    /// Counts a decision about one limit.
    #[inline]
    pub(crate) fn record(&self, check: &Check<'_>, decided: Counted, is_near_limit: bool) {
        self.limits.with(check.policy(), |limit| {
            limit.record(decided, is_near_limit);
            if decided == Counted::Denied {
                self.denied.record(limit, check.partition());
            }
        });
    }

    /// Counts what became of one limit without the store: decided in its place, or the request failed closed.
    #[cold]
    pub(crate) fn record_degraded(&self, policy: &Policy, is_decided: bool) {
        self.limits.with(policy, |limit| limit.record_degraded(is_decided));
    }

    /// The counts of a limit, to count its slots.
    pub(crate) fn limit(&self, policy: &Policy) -> Arc<LimitCounts> {
        self.limits.with(policy, Arc::clone)
    }

    /// Every limit that was decided so far, in the order of their names. Limits with one name are one, as in
    /// the metrics.
    pub fn limits(&self) -> Vec<LimitStats> {
        let bar = self.present_bar();
        let mut limits: Vec<LimitStats> = self
            .limits
            .all()
            .into_iter()
            .map(|limit| {
                let recent = limit.recent(bar);
                LimitStats {
                    name: limit.name().to_owned(),
                    policies: limit.policies(),
                    totals: limit.totals(),
                    last_minute: recent.iter().rev().take(BARS_PER_MINUTE).copied().sum(),
                    held: limit.held(),
                    recent: recent.into_iter().map(Bar::from).collect(),
                }
            })
            .collect();
        limits.sort_by(|one, other| one.name.cmp(&other.name));
        limits
    }

    /// The callers that were denied most, at most `max` and 512: those with the largest counts first.
    ///
    /// The counts are approximate. When the table is full, a new caller takes the place of the one with the
    /// smallest count, and goes on from there; [`DeniedCaller::error`] is how much of a count may be of
    /// other callers. A caller with more than a 64th of the denials of its part of the table is always
    /// listed.
    pub fn denied_callers(&self, max: usize) -> Vec<DeniedCaller> {
        self.denied.top(max)
    }

    /// Denials whose callers were not counted, because another thread used the table at that instant.
    pub fn denials_without_caller(&self) -> u64 {
        self.denied.missed()
    }

    /// The partition of a denied caller, for a [`peek`](crate::RateLimiter::peek) or a
    /// [`reset`](crate::RateLimiter::reset). `None` if the caller is no longer among those denied most, or
    /// its partition is longer than 256 bytes.
    pub fn partition_of(&self, digest: CallerDigest) -> Option<Vec<u8>> {
        self.denied.partition_of(digest)
    }

    /// The digest by which a caller is listed. Its key is random, so that it differs between limiters and
    /// processes.
    pub fn digest_of(&self, partition: &[u8]) -> CallerDigest {
        self.denied.digest_of(partition)
    }

    /// Time since the limiter was built, in whole microseconds.
    pub fn uptime(&self) -> Duration {
        Duration::from_micros(self.clock.now().as_micros().saturating_sub(self.started.as_micros()))
    }

    /// Ends the bars of the [recent decisions](LimitStats::recent) whose time is over. Call it at least once
    /// per [`BAR_SECONDS`]; further calls do nothing. Without it all decisions are in the last bar.
    pub fn sample(&self) {
        let bar = self.present_bar();
        if self.last_bar.fetch_max(bar, Ordering::Relaxed) < bar {
            for limit in self.limits.all() {
                limit.begin_bar(bar);
            }
        }
    }

    fn present_bar(&self) -> u64 {
        self.clock.now().as_micros() / (BAR_SECONDS * 1_000_000)
    }
}

impl LimitStats {
    /// The name of the limit, as in the metrics. `all others` stands for all limits beyond the first 1000.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policies with this name that were decided, at most 8 that do not share their counts.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Counts since the limiter was built.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Counts of the last minute: of the present bar of the [recent decisions](Self::recent) and the 11
    /// before it, so of 55 to 60 seconds.
    pub const fn last_minute(&self) -> Totals {
        self.last_minute
    }

    /// Slots of a [concurrency limit](Policy::concurrency) that requests of this process hold now, of all
    /// callers; 0 for other limits.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Decisions of the last ten minutes in [`BARS`] bars of [`BAR_SECONDS`]. The last bar is the present
    /// one, which has not ended. A limit that was first decided later has fewer.
    pub fn recent(&self) -> &[Bar] {
        &self.recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;
    use crate::limiter::RateLimiter;
    use crate::outcome::GroupOutcome;
    use crate::policy::{Mode, OnError};
    use crate::reservation::Reservation;
    use crate::store::memory::MemoryStore;
    use crate::store::toolkit::Operation;
    use crate::store::{Deadline, Store};

    fn totals(limiter: &RateLimiter) -> Vec<(String, [u64; 7])> {
        let numbers = |of: Totals| {
            let Totals { admitted, denied, passed, would_deny, near_limit, degraded, unavailable } = of;
            [admitted, denied, passed, would_deny, near_limit, degraded, unavailable]
        };
        let limits = limiter.stats().limits();
        limits.iter().map(|limit| (limit.name().to_owned(), numbers(limit.totals()))).collect()
    }

    #[test]
    fn each_limit_of_a_group_has_an_outcome_of_its_own() {
        let limiter = RateLimiter::new(MemoryStore::new());
        let shadow = Policy::builder("shadow").max(1).mode(Mode::Shadow).build();
        let enforced = Policy::new("enforced", 20, Duration::from_secs(60));
        for _ in 0..22 {
            let group = [Check::new(&shadow, "a"), Check::new(&enforced, "a")];
            let _ = limiter.try_check_all(&group).unwrap();
        }
        // The last 2 of 20 leave less than a tenth. The shadow limit admits one request, which leaves
        // nothing.
        let expected = [("enforced", [20, 2, 0, 0, 2, 0, 0]), ("shadow", [1, 0, 0, 21, 1, 0, 0])];
        assert_eq!(totals(&limiter), expected.map(|(name, counts)| (name.to_owned(), counts)));
        let denied = limiter.stats().denied_callers(10);
        assert_eq!((denied.len(), denied[0].limit(), denied[0].count()), (1, "enforced", 2));
    }

    #[test]
    fn a_limit_that_passes_in_a_denied_group_has_admitted_nothing() {
        let limiter = RateLimiter::in_memory();
        let shadow = Policy::builder("shadow").max(2).mode(Mode::Shadow).build();
        let (wide, narrow) = (
            Policy::new("wide", 9, Duration::from_secs(60)),
            Policy::new("narrow", 1, Duration::from_secs(60)),
        );
        for cost in [1, 1, 3] {
            let group =
                [Check::new(&wide, "a"), Check::new(&narrow, "a"), Check::new(&shadow, "a").with_cost(cost)];
            let _ = limiter.try_check_all(&group).unwrap();
        }
        let expected = [
            ("narrow", [1, 2, 0, 0, 1, 0, 0]),
            // Passes the second request, and would deny the third.
            ("shadow", [1, 0, 1, 1, 0, 0, 0]),
            ("wide", [1, 0, 2, 0, 0, 0, 0]),
        ];
        assert_eq!(totals(&limiter), expected.map(|(name, counts)| (name.to_owned(), counts)));
        let bars = limiter.stats().limits();
        let bars: Vec<_> =
            bars.iter().flat_map(LimitStats::recent).map(|bar| (bar.admitted, bar.passed)).collect();
        assert_eq!(bars, [(1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn a_peek_is_not_counted() {
        let limiter = RateLimiter::in_memory();
        let policy = Policy::new("k", 1, Duration::from_secs(60));
        let peek = std::pin::pin!(limiter.peek(&policy, "a"));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(Future::poll(peek, &mut context).is_ready());
        assert_eq!(totals(&limiter), []);
    }

    /// A store that never answers.
    #[derive(Debug)]
    struct Down;

    impl Down {
        fn error<T>() -> Result<T, StoreError> {
            Err(StoreError::unavailable("down"))
        }
    }

    impl Store for Down {
        async fn decide(
            &self,
            _: &[Check<'_>],
            _: Operation,
            _: Deadline,
        ) -> Result<GroupOutcome, StoreError> {
            Self::error()
        }

        async fn reset(&self, _: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
            Self::error()
        }

        async fn refund(&self, _: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
            Self::error()
        }
    }

    #[test]
    fn decisions_without_the_store_are_counted_apart() {
        let limiter = RateLimiter::new(Down);
        let policy = |key, on_error| Policy::builder(key).max(2).on_error(on_error).build();
        let policies = [("allow", OnError::Allow), ("deny", OnError::Deny), ("local", OnError::Local)]
            .map(|(k, o)| policy(k, o));
        for policy in &policies {
            for _ in 0..3 {
                let check = std::pin::pin!(limiter.check(policy, "a"));
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(Future::poll(check, &mut context).is_ready());
            }
        }
        let expected = [
            ("allow", [3, 0, 0, 0, 0, 3, 0]),
            ("deny", [0, 0, 0, 0, 0, 0, 3]),
            ("local", [2, 1, 0, 0, 0, 3, 0]),
        ];
        assert_eq!(totals(&limiter), expected.map(|(name, counts)| (name.to_owned(), counts)));
        for limit in limiter.stats().limits() {
            assert_eq!(limit.last_minute(), limit.totals());
            let unavailable: u64 = limit.recent().iter().map(|bar| bar.unavailable).sum();
            assert_eq!(unavailable, limit.totals().unavailable, "{}", limit.name());
        }
        let status = limiter.store_status();
        assert!(status.is_out && status.connection.is_none());
        assert_eq!(status.fallback_callers, 1);
    }
}
