//! Errors of stores. A denial is an outcome, not an error.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::policy::Algorithm;

/// Error of a store that could not decide.
///
/// Authors of stores make errors by the functions below; the variants cannot be constructed outside of this
/// crate, so that they can gain fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to the store, or it cannot serve at the moment, or the circuit breaker is open.
    #[error("the store cannot be reached")]
    #[non_exhaustive]
    Unavailable {
        /// Error of the connection or the store. `None` if no request was sent.
        source: Option<Cause>,
    },

    /// The store, or this application, is set up wrongly, which does not pass by itself: a password,
    /// permissions, a database that does not exist.
    #[error("the store is not set up for this application: {remedy}")]
    #[non_exhaustive]
    Misconfigured {
        /// Cause, and how to correct it.
        remedy: &'static str,
        /// Error of the store.
        source: Cause,
    },

    /// The store did not reply in time. It is unknown whether the request was charged, so it must not be sent
    /// again.
    #[error("the store did not answer within {}", whole(*.after))]
    #[non_exhaustive]
    Timeout {
        /// The deadline that passed.
        after: Duration,
    },

    /// The [deadline](crate::RateLimiter::with_deadline) of the call is zero, for example because earlier
    /// calls used it up. A check has charged nothing; a refund is sent all the same.
    #[error("the call has no time left to wait for the store")]
    NoTimeLeft,

    /// The store replied with an error.
    #[error("the store rejected the request")]
    #[non_exhaustive]
    Rejected {
        /// Error of the store.
        source: Cause,
    },

    /// The store's reply does not have the expected shape.
    #[error("unexpected reply from the store: expected {expected}")]
    #[non_exhaustive]
    Protocol {
        /// Expected shape.
        expected: &'static str,
    },

    /// The state stored for a caller is corrupt, or was not written by this version. Only this caller is
    /// affected. The key expires within one window and one second.
    #[error(
        "corrupt state stored for a caller of policy `{policy}`; the key expires within one window and one second"
    )]
    #[non_exhaustive]
    CorruptState {
        /// Key of the policy.
        policy: String,
    },

    /// The group has more than [`MAX_GROUP`](crate::MAX_GROUP) limits.
    #[error("a group can have at most {} limits, not {size}", crate::check::MAX_GROUP)]
    #[non_exhaustive]
    GroupTooLarge {
        /// Number of limits of the group.
        size: usize,
    },

    /// Several callers were to be charged [as many units as fit](crate::RateLimiter::check_up_to_all), and
    /// the store is a Redis cluster, where no script sees the counts of all of them. Nothing was changed.
    #[error(
        "in a cluster only one caller at a time can be charged as many units as fit; \
         call `check_up_to_all` for the limits of each caller, or check a number of units"
    )]
    SeveralCallers,

    /// The limiter has a Redis store, and was made before a fork, by the parent of this process, which has
    /// the store's threads and connections. No call of it works in a child: make a limiter after the fork.
    #[error("the limiter was made before a fork, by the parent of this process; make it after the fork")]
    Forked,

    /// A charge of a token bucket stays, because its [refund](crate::RateLimiter::refund) would move
    /// [turns](crate::RateLimiter::wait) that are not due. The other charges of the reservation were
    /// refunded.
    #[error("a charge stays, because its refund would move turns that are not due")]
    TurnsNotDue,

    /// The limit is a [concurrency limit](crate::Policy::concurrency), of which a request holds slots. It
    /// cannot be charged as many units as fit, nor beyond what it admits. Nothing was changed.
    #[error("`{limit}` is a concurrency limit: its slots are taken and freed, not charged up to a number")]
    #[non_exhaustive]
    ConcurrencyLimit {
        /// Name of the limit.
        limit: String,
    },
}

impl StoreError {
    /// [`Unavailable`](Self::Unavailable), caused by `source`: an error, or a text.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use ratelimit_core::StoreError;
    ///
    /// let error = StoreError::unavailable(io::Error::from(io::ErrorKind::ConnectionReset));
    /// assert!(error.is_transient());
    /// ```
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable { source: Some(Cause(source.into())) }
    }

    /// [`Misconfigured`](Self::Misconfigured), caused by `source`; `remedy` says how to correct it.
    pub fn misconfigured(remedy: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Misconfigured { remedy, source: Cause(source.into()) }
    }

    /// [`Timeout`](Self::Timeout): there was no reply within the deadline `after`;
    /// [`NoTimeLeft`](Self::NoTimeLeft) if that is zero.
    pub const fn timeout(after: Duration) -> Self {
        if after.is_zero() { Self::NoTimeLeft } else { Self::Timeout { after } }
    }

    /// [`Rejected`](Self::Rejected): the store replied with the error `source`.
    pub fn rejected(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Rejected { source: Cause(source.into()) }
    }

    /// [`Protocol`](Self::Protocol): the reply does not have the shape `expected`.
    pub const fn protocol(expected: &'static str) -> Self {
        Self::Protocol { expected }
    }

    /// [`CorruptState`](Self::CorruptState), stored for a caller of the policy with this key.
    pub fn corrupt_state(policy: impl Into<String>) -> Self {
        Self::CorruptState { policy: policy.into() }
    }

    /// Whether the error passes by itself, so that a later check may succeed without a change of the set-up
    /// or the code.
    ///
    /// | variant | transient | what to do |
    /// |---|---|---|
    /// | [`Unavailable`](Self::Unavailable) | yes | check again later |
    /// | [`Timeout`](Self::Timeout) | yes | check again later; the request may have been charged, so a retry may charge it twice |
    /// | [`NoTimeLeft`](Self::NoTimeLeft) | yes | give the work a longer [deadline](crate::RateLimiter::with_deadline), or fewer calls |
    /// | [`CorruptState`](Self::CorruptState) | yes | check again after the window, or [reset](crate::RateLimiter::reset) the caller |
    /// | [`Misconfigured`](Self::Misconfigured) | no | correct the set-up as `remedy` says |
    /// | [`Rejected`](Self::Rejected), [`Protocol`](Self::Protocol) | no | look at the server: another program or version may use it |
    /// | [`GroupTooLarge`](Self::GroupTooLarge) | no | check fewer limits at once |
    /// | [`SeveralCallers`](Self::SeveralCallers) | no | charge each caller alone, or check a number of units |
    /// | [`Forked`](Self::Forked) | no | make the limiter after the fork |
    /// | [`TurnsNotDue`](Self::TurnsNotDue) | no | nothing: the units come back with time |
    /// | [`ConcurrencyLimit`](Self::ConcurrencyLimit) | no | check the limit, and free the slots when the work ends |
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Timeout { .. } | Self::NoTimeLeft | Self::CorruptState { .. }
        )
    }

    /// Whether the program is the cause, and not the store: no failure policy decides then. In a child of a
    /// fork its counts may be locked for ever.
    pub(crate) const fn is_of_program(&self) -> bool {
        matches!(self, Self::GroupTooLarge { .. } | Self::SeveralCallers | Self::Forked)
    }
}

/// A time in whole milliseconds, or microseconds below one.
fn whole(time: Duration) -> String {
    match time.as_millis() {
        0 => format!("{} µs", time.as_micros().max(1)),
        millis => format!("{millis} ms"),
    }
}

/// A charge was not settled: the error of [`RateLimiter::settle`](crate::RateLimiter::settle).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The reservation has not one charge but several, or none, so it is not clear which one is settled.
    /// Nothing was changed.
    #[error("one limit is settled at a time, not {size}; take it out by `Reservation::take_limit`")]
    #[non_exhaustive]
    NotOneCharge {
        /// Number of charges of the reservation.
        size: usize,
    },

    /// The true cost is more than [`MAX_UNITS`](crate::policy::MAX_UNITS). Nothing was changed.
    #[error("at most {} units can be settled, not {units}", crate::policy::MAX_UNITS)]
    #[non_exhaustive]
    TooManyUnits {
        /// Units to settle.
        units: u64,
    },

    /// The limit is a [concurrency limit](crate::Policy::concurrency), whose slots are freed when the work
    /// ends. Nothing was changed.
    #[error(
        "`{limit}` is a concurrency limit, whose slots are freed when the work ends, so it cannot be settled"
    )]
    #[non_exhaustive]
    ConcurrencyLimit {
        /// Name of the limit.
        limit: String,
    },

    /// The limit keeps its whole charge, because giving the rest back would move
    /// [turns](crate::RateLimiter::wait) that are not due. Nothing was changed.
    #[error("`{limit}` keeps its whole charge, because turns behind it are not due")]
    #[non_exhaustive]
    TurnsNotDue {
        /// Name of the limit.
        limit: String,
    },

    /// The store did not answer in time, or with an error. It is unknown whether the limit was settled, so do
    /// not retry.
    #[error("the store did not confirm the settlement; it is unknown whether the limit was settled")]
    Store(#[from] StoreError),
}

/// A request cannot wait for a turn: the error of [`RateLimiter::wait`](crate::RateLimiter::wait). Nothing
/// was charged, unless the store [did not answer in time](StoreError::Timeout).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The limit is not a token bucket. Other counts have no turns: all who wait would start at once, at the
    /// end of a window.
    #[error(
        "the limit `{limit}` counts by `{algorithm}`, which has no turns to wait for; expected `token_bucket`"
    )]
    #[non_exhaustive]
    Algorithm {
        /// Name of the limit.
        limit: String,
        /// Its algorithm.
        algorithm: Algorithm,
    },

    /// The limit has a [block](crate::PolicyBuilder::block), which would forget the turns that were taken.
    #[error(
        "the limit `{limit}` has a block, which would forget the turns that were taken; remove its block"
    )]
    #[non_exhaustive]
    Blocks {
        /// Name of the limit.
        limit: String,
    },

    /// The cost exceeds the burst, so that no wait helps.
    #[error("a cost of {cost} never passes the limit `{limit}`; expected at most its burst, {burst}")]
    #[non_exhaustive]
    CostAboveBurst {
        /// Name of the limit.
        limit: String,
        /// Cost of the request, in units.
        cost: u64,
        /// Burst of the limit, in units.
        burst: u64,
    },

    /// The wait is longer than [`MAX_WAIT`](crate::policy::MAX_WAIT), or the turns of such a wait would be
    /// more than a bucket can count: 10^12 units, or those of 366 days.
    #[error("a request cannot wait {at_most:?} for the limit `{limit}`; expected at most {longest:?}")]
    #[non_exhaustive]
    TooLong {
        /// Name of the limit.
        limit: String,
        /// Longest wait that was requested.
        at_most: Duration,
        /// Longest wait for this limit.
        longest: Duration,
    },

    /// The store cannot decide, and the limit [fails closed](crate::OnError::Deny).
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Error behind a [`StoreError`], of a type that depends on the store.
///
/// Its text, causes and `Debug` output are those of the error inside.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Cause(Box<dyn Error + Send + Sync>);

impl Cause {
    /// The error inside, for `is` and `downcast_ref`.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error and its causes on one line.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own text.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_the_error_inside() {
        let error = StoreError::rejected(io::Error::other("out of memory"));
        assert_eq!(ErrorChain(&error).to_string(), "the store rejected the request: out of memory");
        let StoreError::Rejected { source } = &error else { panic!("{error:?}") };
        assert!(source.get_ref().is::<io::Error>());
        let error = StoreError::unavailable("no connection");
        assert_eq!(ErrorChain(&error).to_string(), "the store cannot be reached: no connection");
        assert!(StoreError::Unavailable { source: None }.source().is_none());
    }

    #[test]
    fn no_error_tells_of_a_wait_of_nothing() {
        for (after, expected) in [
            (Duration::ZERO, "the call has no time left to wait for the store"),
            (Duration::from_nanos(1), "the store did not answer within 1 µs"),
            (Duration::from_micros(999), "the store did not answer within 999 µs"),
            (Duration::from_micros(100_900), "the store did not answer within 100 ms"),
        ] {
            assert_eq!(StoreError::timeout(after).to_string(), expected);
        }
    }

    #[test]
    fn errors_that_pass_by_themselves_are_transient() {
        let passing = [
            StoreError::unavailable("x"),
            StoreError::timeout(Duration::from_millis(1)),
            StoreError::timeout(Duration::ZERO),
            StoreError::corrupt_state("k"),
        ];
        assert!(passing.iter().all(StoreError::is_transient));
        let lasting = [
            StoreError::misconfigured("set a password", "x"),
            StoreError::rejected("x"),
            StoreError::protocol("a number"),
            StoreError::GroupTooLarge { size: 65 },
            StoreError::SeveralCallers,
            StoreError::Forked,
            StoreError::TurnsNotDue,
            StoreError::ConcurrencyLimit { limit: "k".to_owned() },
        ];
        assert!(!lasting.iter().any(StoreError::is_transient));
    }
}
