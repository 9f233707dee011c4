//! Outcomes of decisions: admitted or denied, what remains, and when to retry.

mod group;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::group::GroupOutcome;
use crate::check::Check;
use crate::clock::{Clock as _, SystemClock, Timestamp, micros};

/// Outcome of a decision about one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denial that is not handled limits nothing"]
#[allow(clippy::struct_excessive_bools, reason = "each may be true beside the others")]
pub struct Outcome {
    at: Timestamp,
    capacity: u64,
    cost: u64,
    remaining: u64,
    reset_after_us: u64,
    /// [`UNKNOWN_WAIT`](Self::UNKNOWN_WAIT) while something remains, and if the store does not report it.
    next_unit_after_us: u64,
    verdict: Verdict,
    /// How long the charge still counts after `reset_after_us`. Only of a token bucket: the time of the units
    /// that were given back out of order.
    returned_us: u64,
    is_shadow: bool,
    /// Whether it was charged to an overflow count, which callers share if there is no room.
    pub(crate) is_overflowed: bool,
    is_degraded: bool,
    /// Whether its instant is one of a [`SystemClock`].
    pub(crate) is_by_system_clock: bool,
}

impl Outcome {
    const UNKNOWN_WAIT: u64 = u64::MAX;

    /// Creates the outcome of a request of cost 1 under a limit of `capacity` units, of which nothing
    /// remains.
    ///
    /// The other methods `with_..` set the other numbers. The instant is that of the
    /// [group](GroupOutcome::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Decision, Outcome};
    ///
    /// let wait = Duration::from_secs(7);
    /// let denial = Outcome::new(10, Decision::Denied { retry_after: Some(wait) })
    ///     .with_reset_after(Duration::from_secs(60))
    ///     .with_next_unit_after(wait);
    /// assert_eq!((denial.capacity(), denial.cost(), denial.remaining()), (10, 1, 0));
    /// assert_eq!(denial.retry_after(), Some(wait));
    /// ```
    pub fn new(capacity: u64, decision: Decision) -> Self {
        let verdict = Verdict::from_decision(decision);
        Self::from_numbers(Numbers { capacity, cost: 1, remaining: 0, reset_after_us: 0, verdict })
    }

    /// The outcome of a limit that denies nothing, and of which nothing is known to remain.
    pub(crate) fn unknown(check: &Check<'_>) -> Self {
        let outcome = Self::new(check.policy().capacity(), Decision::Allowed).with_cost(check.cost());
        outcome.in_shadow_if(check.is_shadow())
    }

    /// Creates an outcome from the numbers of an algorithm. If nothing remains, add
    /// [`with_next_unit_after_us`](Self::with_next_unit_after_us).
    pub(crate) const fn from_numbers(numbers: Numbers) -> Self {
        let Numbers { capacity, cost, remaining, reset_after_us, verdict } = numbers;
        Self {
            at: Timestamp::from_micros(0),
            capacity,
            cost,
            remaining,
            reset_after_us,
            next_unit_after_us: Self::UNKNOWN_WAIT,
            verdict,
            returned_us: 0,
            is_shadow: false,
            is_overflowed: false,
            is_degraded: false,
            is_by_system_clock: false,
        }
    }

    /// Sets the cost of the request, in units; by default 1.
    pub const fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Sets how many units remain after the decision; by default 0.
    pub const fn with_remaining(mut self, remaining: u64) -> Self {
        self.remaining = remaining;
        if remaining > 0 {
            self.next_unit_after_us = Self::UNKNOWN_WAIT;
        }
        self
    }

    /// Sets the time from the decision until the full quota is available, in whole microseconds; by
    /// default 0.
    pub fn with_reset_after(mut self, reset_after: Duration) -> Self {
        self.reset_after_us = micros(reset_after);
        self
    }

    /// Sets the smallest wait from the decision, in whole microseconds, after which one more unit passes.
    /// Header fields report it. Has no effect while something remains.
    pub fn with_next_unit_after(self, next_unit_after: Duration) -> Self {
        self.with_next_unit_after_us(micros(next_unit_after))
    }

    /// Sets the smallest wait, in microseconds, after which one more unit passes. Has no effect while
    /// something remains.
    pub(crate) const fn with_next_unit_after_us(mut self, next_unit_after_us: u64) -> Self {
        if self.remaining == 0 {
            self.next_unit_after_us = next_unit_after_us;
        }
        self
    }

    /// Marks the outcome as that of a [shadow limit](crate::Mode::Shadow): a denial becomes one that
    /// [would be](Self::would_deny).
    ///
    /// # Examples
    ///
    /// ```
    /// use ratelimit_core::{Decision, Outcome};
    ///
    /// let outcome = Outcome::new(10, Decision::Denied { retry_after: None }).in_shadow();
    /// assert!(outcome.is_allowed() && outcome.would_deny());
    /// ```
    pub const fn in_shadow(self) -> Self {
        self.in_shadow_if(true)
    }

    /// Marks the outcome as that of a shadow limit, or as that of an enforced one.
    pub(crate) const fn in_shadow_if(mut self, is_shadow: bool) -> Self {
        self.is_shadow |= is_shadow;
        self
    }

    /// Sets the instant of the decision.
    pub(crate) const fn with_at(mut self, at: Timestamp) -> Self {
        self.at = at;
        self
    }

    /// Replaces the reported capacity.
    pub(crate) const fn with_capacity(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    /// The same, with a wait if it denies the request for ever.
    pub(crate) const fn or_denied_for(mut self, wait_us: u64) -> Self {
        if let Verdict::Never = self.verdict {
            self.verdict = Verdict::RetryAfterMicros(wait_us);
        }
        self
    }

    /// The same for a request that is admitted after all.
    #[cfg(feature = "redis")]
    pub(crate) const fn admitted(mut self) -> Self {
        self.verdict = Verdict::Allowed;
        self
    }

    /// Admits a request that is [due](Self::due_after) this wait after the decision, in whole microseconds.
    /// For a store that decides about [waits](crate::store::toolkit::Operation::Wait) without the toolkit.
    pub fn with_due_after(self, wait: Duration) -> Self {
        self.due_after_us(micros(wait))
    }

    pub(crate) const fn due_after_us(mut self, wait: u64) -> Self {
        self.verdict = if wait == 0 { Verdict::Allowed } else { Verdict::AllowedAfterMicros(wait) };
        self
    }

    /// Whether it was charged to an overflow count.
    pub(crate) const fn is_overflowed(&self) -> bool {
        self.is_overflowed
    }

    /// Sets for how long the charge still counts when the full quota is available.
    #[inline]
    pub(crate) const fn with_returned_us(mut self, returned_us: u64) -> Self {
        self.returned_us = returned_us;
        self
    }

    /// Whether both show the same to a caller: all but what was given back out of order.
    #[cfg(feature = "test-util")]
    pub(crate) fn is_shown_as(&self, other: &Self) -> bool {
        let shown = |outcome: &Self| Self { returned_us: 0, is_by_system_clock: false, ..outcome.clone() };
        shown(self) == shown(other)
    }

    /// The end of the charge, for a refund: the instant at which the full quota is available if no request
    /// comes; of a token bucket later by the units that were given back out of order.
    pub(crate) const fn counts_until(&self) -> Timestamp {
        let full_after_us = self.reset_after_us.saturating_add(self.returned_us);
        Timestamp::from_micros(self.at.as_micros().saturating_add(full_after_us))
    }

    /// Whether the limit's [failure policy](crate::policy::OnError) decided, during an outage of the store.
    pub const fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// Instant of the decision, by the store's clock; under a calendar window in memory by the
    /// [wall clock](crate::clock::Clock::on_wall_clock).
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// The instant at which more is [available](Self::available_after), for clients: on the wall clock as it
    /// is set now, if the clock of this process has decided, and otherwise on the store's clock.
    pub(crate) fn available_at(&self) -> Timestamp {
        let at = if self.is_by_system_clock { SystemClock::new().on_wall_clock(self.at) } else { self.at };
        at.saturating_add(self.available_after())
    }

    /// Whether this limit admitted the request, and if not, after which wait it does. A shadow limit admits
    /// every request.
    ///
    /// # Examples
    ///
    /// A job that waits until it may start:
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::{Decision, Policy, RateLimiter};
    ///
    /// static JOBS: Policy = Policy::new("jobs", 5, Duration::from_secs(1));
    ///
    /// async fn start(limiter: &RateLimiter, units: u64) -> Result<(), Box<dyn std::error::Error>> {
    ///     loop {
    ///         match limiter.check_n(&JOBS, "tenant-42", units).await?.decision() {
    ///             Decision::Allowed => return Ok(()),
    ///             Decision::Denied { retry_after: Some(wait) } => tokio::time::sleep(wait).await,
    ///             // More units than the limit has: no wait helps.
    ///             _ => return Err("the job never starts".into()),
    ///         }
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let limiter = RateLimiter::in_memory();
    /// assert!(start(&limiter, 5).await.is_ok());
    /// assert!(start(&limiter, 6).await.is_err());
    /// # });
    /// ```
    pub const fn decision(&self) -> Decision {
        if self.is_shadow() { Decision::Allowed } else { self.verdict.decision() }
    }

    /// Whether the limit is a [shadow limit](crate::Mode::Shadow), which admits every request.
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Whether the limit is a shadow limit that would deny the request if it were enforced. It was not
    /// charged then.
    #[inline]
    pub const fn would_deny(&self) -> bool {
        self.is_shadow() && !self.fits()
    }

    /// Whether the request fits, also under a shadow limit.
    #[inline]
    pub(crate) const fn fits(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed | Verdict::AllowedAfterMicros(_))
    }

    /// The decision in its packed form.
    pub(crate) const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether this limit admitted the request. A group passes only if every limit does. A shadow limit
    /// admits every request.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.is_shadow() || self.fits()
    }

    /// Whether a [concurrency limit](crate::Policy::concurrency) denied the request because all slots are
    /// held. It passes once one of them is freed; no process knows when, so there is no
    /// [`retry_after`](Self::retry_after).
    #[inline]
    pub const fn is_busy(&self) -> bool {
        !self.is_shadow() && matches!(self.verdict, Verdict::Busy)
    }

    /// Full quota in units: `max`, or the burst of a token bucket.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Cost of the request under this limit, in units.
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// Number of requests of cost 1 that would pass at this instant, after this decision. If units of a
    /// [lease](crate::PolicyBuilder::lease) admitted the request: what the store had left at its last answer,
    /// up to 1 s before, and the unused units of the lease.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Time from the decision until the full quota is available, if no request comes.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// If nothing remains: the smallest wait from the decision after which a request of cost 1 passes, if no
    /// other request comes. `None` while something remains, and if the store does not report it.
    pub const fn next_unit_after(&self) -> Option<Duration> {
        match self.next_unit_after_us {
            Self::UNKNOWN_WAIT => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    /// Wait from the decision, as header fields report it: until this request passes if it was denied; until
    /// one more unit passes if nothing remains; and until the full quota is available otherwise.
    ///
    /// After this wait at least one unit passes if no other request comes. If nothing remains and the store
    /// does not report [when one more unit passes](Self::next_unit_after), or if the request never passes, it
    /// is the time until the full quota is available. Zero if a concurrency limit is [busy](Self::is_busy),
    /// of which no process knows.
    pub fn available_after(&self) -> Duration {
        match (self.retry_after(), self.next_unit_after()) {
            (None, None) => self.reset_after(),
            (wait, next_unit) => wait.max(next_unit).unwrap_or_default(),
        }
    }

    /// Smallest wait from the decision after which the same request passes, if no other request is charged
    /// meanwhile.
    ///
    /// Exact: one microsecond earlier the request would still be denied. Only if the outcome is
    /// [degraded](Self::is_degraded), and the request costs more than the part of this process, it is 1 s,
    /// because how long an outage lasts is unknown. `None` if the limit admitted the
    /// request, if the request never passes because its cost exceeds the limit, and if a concurrency limit is
    /// [busy](Self::is_busy). So a loop that waits matches the [`decision`](Self::decision), which
    /// distinguishes these.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::RetryAfterMicros(micros) if !self.is_shadow() => Some(Duration::from_micros(micros)),
            _ => None,
        }
    }

    /// Time from the decision to the turn of a request that [waits](crate::RateLimiter::wait): what was
    /// charged ahead is due then. Zero for every other outcome. After `wait` has returned, this time has
    /// passed.
    pub const fn due_after(&self) -> Duration {
        match self.verdict {
            Verdict::AllowedAfterMicros(wait) => Duration::from_micros(wait),
            _ => Duration::ZERO,
        }
    }
}

/// Numbers of a decision about one limit.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// Full quota, in units.
    pub(crate) capacity: u64,
    /// Cost of the request, in units.
    pub(crate) cost: u64,
    /// Units that remain after the decision.
    pub(crate) remaining: u64,
    /// Time until the full quota is available, in microseconds.
    pub(crate) reset_after_us: u64,
    pub(crate) verdict: Verdict,
}

/// Answer of one limit to a request: admitted, or denied with the wait until it is admitted.
///
/// # Examples
///
/// ```
/// use ratelimit_core::{Decision, Outcome};
///
/// fn advice(outcome: &Outcome) -> String {
///     match outcome.decision() {
///         Decision::Denied { retry_after: Some(wait) } => format!("retry in {wait:?}"),
///         Decision::Denied { retry_after: None } => "the cost exceeds the limit".to_owned(),
///         Decision::Allowed => "go on".to_owned(),
///         _ => "denied".to_owned(),
///     }
/// }
/// # let denied = Decision::Denied { retry_after: None };
/// # assert_eq!(advice(&Outcome::new(10, denied)), "the cost exceeds the limit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The limit admits the request.
    Allowed,
    /// The limit denies the request.
    Denied {
        /// Smallest wait from the decision after which the limit admits the same request, if no other request
        /// is charged meanwhile; in whole microseconds, exact. `None` if no wait helps, because the cost
        /// exceeds the limit.
        retry_after: Option<Duration>,
    },
    /// A [concurrency limit](crate::Policy::concurrency) denies the request: all slots are held. It passes
    /// once one of them is freed, and no process knows when.
    Busy,
}

/// A [`Decision`] in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// Admitted, and due after a wait.
    AllowedAfterMicros(u64),
    RetryAfterMicros(u64),
    /// All slots are held; no process knows for how long.
    Busy,
    Never,
}

impl Verdict {
    /// Denies, for this number of microseconds or for ever.
    pub(crate) fn denied(retry_after_us: Option<u64>) -> Self {
        retry_after_us.map_or(Self::Never, Self::RetryAfterMicros)
    }

    pub(crate) fn from_decision(decision: Decision) -> Self {
        match decision {
            Decision::Allowed => Self::Allowed,
            Decision::Denied { retry_after } => Self::denied(retry_after.map(micros)),
            Decision::Busy => Self::Busy,
        }
    }

    pub(crate) const fn decision(self) -> Decision {
        match self {
            Self::Allowed | Self::AllowedAfterMicros(_) => Decision::Allowed,
            Self::RetryAfterMicros(micros) => {
                Decision::Denied { retry_after: Some(Duration::from_micros(micros)) }
            }
            Self::Busy => Decision::Busy,
            Self::Never => Decision::Denied { retry_after: None },
        }
    }
}
