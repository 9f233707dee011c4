//! Policies: how many units are allowed, in which window, and by which algorithm they are counted.

mod algorithm;
mod builder;
#[cfg_attr(not(feature = "calendar"), path = "policy/calendar/absent.rs")]
pub(crate) mod calendar;
pub(crate) mod error;
mod mode;
mod named_values;
mod numbers;
#[cfg(feature = "serde")]
mod serde;
#[cfg_attr(
    not(any(feature = "serde", feature = "overrides")),
    allow(dead_code, reason = "only files have written values")
)]
mod settings;
pub(crate) mod state_kind;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;
#[cfg_attr(
    not(any(feature = "serde", feature = "overrides")),
    allow(dead_code, reason = "only files have written values")
)]
pub(crate) mod value;
mod window;

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Duration;

pub use self::algorithm::Algorithm;
#[cfg(feature = "redis")]
pub(crate) use self::algorithm::LuaSource;
#[cfg(any(feature = "redis", test))]
pub(crate) use self::algorithm::Parameter;
pub use self::calendar::Calendar;
#[cfg(feature = "calendar")]
pub use self::calendar::{CalendarUnit, UnknownZoneError, Weekday};
pub use self::error::{PolicyError, UnknownValueError};
pub use self::mode::{Mode, OnError};
#[cfg(any(feature = "redis", test))]
pub(crate) use self::numbers::HOLD_US;
use self::numbers::PolicyNumbers;
pub use self::numbers::{MAX_LEASE, MAX_SUB_WINDOWS, MAX_UNITS};
pub use self::settings::{Field, PolicyBuilder, Settings};
pub use self::state_kind::MAX_NAME_LEN;
pub(crate) use self::state_kind::StateKind;
use self::state_kind::is_name;
pub(crate) use self::state_kind::labelled;
pub use self::value::Value;
pub use self::window::{MAX_WINDOW, MIN_WINDOW, Window, WindowError};
pub(crate) use self::window::{WindowSpan, nearest};
use crate::clock::Timestamp;

/// Longest [wait](crate::RateLimiter::wait) for a turn: one day.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A named rule: the units allowed per window, and the [`Algorithm`] by which they are counted.
///
/// A policy is a value without state: the counts are in a [store](crate::store::Store), one per caller. In a
/// `static` or `const`, numbers out of bounds are compile errors.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use ratelimit_core::{Algorithm, Policy};
///
/// static SEARCH: Policy = Policy::new("search", 100, Duration::from_secs(60));
///
/// static UPLOADS: Policy = Policy::builder("uploads")
///     .max(10)
///     .window(Duration::from_secs(1))
///     .algorithm(Algorithm::TokenBucket)
///     .burst(50)
///     .build();
///
/// assert_eq!(SEARCH.algorithm(), Algorithm::SlidingWindowCounter);
/// assert_eq!(UPLOADS.capacity(), 50);
/// ```
///
/// ```compile_fail
/// # use std::time::Duration;
/// # use ratelimit_core::Policy;
/// static NEVER: Policy = Policy::new("never", 0, Duration::from_secs(60)); // max must be from 1 to 10^12
/// ```
#[cfg_attr(feature = "serde", doc = include_str!("policy/serde.md"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    key: Cow<'static, str>,
    name: Option<Cow<'static, str>>,
    numbers: PolicyNumbers,
    state_id: u64,
}

impl Policy {
    /// Replaces the key by one that is made at run time.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Key`] if the key is empty, longer than [`MAX_NAME_LEN`], or has a character that is not
    /// allowed.
    pub fn with_key(mut self, key: impl Into<String>) -> Result<Self, PolicyError> {
        let key = key.into();
        if !is_name(&key) {
            return Err(PolicyError::Key);
        }
        self.key = Cow::Owned(key);
        Ok(self.identified())
    }

    /// All numbers of this policy that apply to its algorithm.
    pub const fn settings(&self) -> Settings {
        self.numbers.settings()
    }

    /// This policy with other numbers over its own. A burst that equals `max` follows another `max`. The mode
    /// stays where they turn the limit off.
    ///
    /// # Errors
    ///
    /// If the numbers do not go together.
    pub(crate) fn with_settings(&self, settings: Settings) -> Result<Self, PolicyError> {
        let mut own = self.settings();
        own.burst = own.burst.filter(|burst| *burst != self.max());
        let mut numbers = settings.over(own).judged()?;
        if settings.is_off() {
            numbers.mode = self.numbers.mode;
        }
        Ok(self.with_numbers(numbers).identified())
    }

    fn with_numbers(&self, numbers: PolicyNumbers) -> Self {
        Self { numbers, ..self.clone() }
    }

    /// This policy with the fingerprint of its states.
    const fn identified(mut self) -> Self {
        self.state_id = self.state_kind().id(self.key());
        self
    }

    /// What distinguishes its states from those of other policies with the same key.
    pub(crate) const fn state_kind(&self) -> StateKind {
        StateKind {
            algorithm: self.numbers.algorithm,
            mode: self.numbers.mode,
            window_us: self.numbers.window_us,
            sub_windows: self.numbers.sub_windows,
            calendar: match &self.numbers.calendar {
                Some(calendar) => Some(calendar.letter()),
                None => None,
            },
            bucket: if self.numbers.algorithm.has_burst() {
                Some([self.numbers.max, self.numbers.burst])
            } else {
                None
            },
        }
    }

    /// This policy and the same one in the other mode, which has states of its own.
    pub(crate) fn in_both_modes(&self) -> [Self; 2] {
        [Mode::Enforce, Mode::Shadow]
            .map(|mode| self.with_numbers(PolicyNumbers { mode, ..self.numbers }).identified())
    }

    /// Replaces the name by one that is made at run time.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Name`] if the name is empty, longer than [`MAX_NAME_LEN`], or has a character that is
    /// not allowed.
    pub fn with_name(mut self, name: impl Into<String>) -> Result<Self, PolicyError> {
        let name = name.into();
        if !is_name(&name) {
            return Err(PolicyError::Name);
        }
        self.name = Some(Cow::Owned(name));
        Ok(self)
    }

    /// Key under which the counts are stored.
    pub const fn key(&self) -> &str {
        match &self.key {
            Cow::Borrowed(key) => key,
            Cow::Owned(key) => key.as_str(),
        }
    }

    /// Name of this policy in headers and metrics; by default its key.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    /// The name; copied only if it was made at run time.
    #[cfg(feature = "metrics")]
    pub(crate) fn shared_name(&self) -> Cow<'static, str> {
        self.name.as_ref().unwrap_or(&self.key).clone()
    }

    /// Algorithm by which units are counted.
    pub const fn algorithm(&self) -> Algorithm {
        self.numbers.algorithm
    }

    /// Units allowed per window, from 1 to [`MAX_UNITS`]; for a token bucket, the units refilled per window.
    pub const fn max(&self) -> u64 {
        self.numbers.max
    }

    /// Whether this is a [concurrency limit](Self::concurrency), which counts what runs at a time.
    #[inline]
    pub const fn is_concurrency(&self) -> bool {
        self.numbers.algorithm.holds_slots()
    }

    /// Length of the window in which up to `max` units pass, from [`MIN_WINDOW`] to [`MAX_WINDOW`], in whole
    /// microseconds. For a [calendar window](Self::calendar) the length of the longest one, which may exceed
    /// [`MAX_WINDOW`] by hours. For a concurrency limit 10 s, the time for which the slots of a crashed
    /// process count.
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.numbers.window_us)
    }

    /// Length of the window at an instant. It differs from [`window`](Self::window) for a [calendar
    /// window](Self::calendar) only.
    pub fn window_at(&self, at: Timestamp) -> Duration {
        let length = |calendar: &Calendar| Duration::from_micros(calendar.window_at(at.as_micros()).length());
        self.calendar().map_or(self.window(), length)
    }

    /// Whether the anchor of the windows differs from request to request.
    #[inline]
    pub(crate) const fn has_moving_windows(&self) -> bool {
        matches!(&self.numbers.calendar, Some(calendar) if calendar.moves())
    }

    /// How long the count of a window is kept after the window began, in microseconds. If anchors move,
    /// another window with the same label may begin as late as this one ends.
    #[inline]
    pub(crate) const fn kept_us(&self, window: WindowSpan) -> u64 {
        if self.has_moving_windows() { 2 * self.numbers.window_us } else { window.length() }
    }

    /// Days, weeks, months or years whose windows this policy has; `None` for windows of one length.
    #[inline]
    pub const fn calendar(&self) -> Option<&Calendar> {
        self.numbers.calendar.as_ref()
    }

    /// Sub-windows of a sliding window counter, from 1 to [`MAX_SUB_WINDOWS`]; 1 for every other algorithm.
    pub const fn sub_windows(&self) -> u64 {
        self.numbers.sub_windows
    }

    /// Length of a sub-window, in microseconds.
    pub(crate) const fn sub_window_us(&self) -> u64 {
        // A division takes longer than the rest of most steps.
        if self.numbers.sub_windows == 1 {
            self.numbers.window_us
        } else {
            self.numbers.window_us / self.numbers.sub_windows
        }
    }

    /// Units that can pass at one instant: the burst of a token bucket, `max` for every other algorithm.
    pub const fn capacity(&self) -> u64 {
        self.numbers.burst
    }

    /// Failure policy: what this limit does during an outage of the store.
    pub const fn on_error(&self) -> OnError {
        self.numbers.on_error
    }

    /// Time for which the first denial blocks the caller; `None` for a limit that does not block.
    ///
    /// * A denial under this limit begins the block: the limit's own counts did not admit the request. A
    ///   denial that another limit of the group caused does not begin it. Neither does a cost above
    ///   [`capacity`](Self::capacity), which never passes, nor a peek.
    /// * The block replaces the counts. Until its end every request under the limit is denied, and
    ///   [`Outcome::retry_after`](crate::Outcome::retry_after) is the time until then. Denied requests do not
    ///   prolong it. From its end on, the full quota is available.
    /// * [`reset`](crate::RateLimiter::reset) ends it. A [`refund`](crate::RateLimiter::refund) of what was
    ///   charged before it has no effect.
    /// * Every policy that shares the counts obeys it, also one without `block` of its own. Policies that
    ///   share counts should have the same `block`: a policy shortens a longer block that it finds to its
    ///   own, and of several in a group the shortest begins.
    ///
    /// # Examples
    ///
    /// Ten attempts per minute; the eleventh blocks the caller for an hour:
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::Policy;
    ///
    /// static LOGIN: Policy = Policy::builder("login").max(10).block(Duration::from_secs(3600)).build();
    ///
    /// assert_eq!(LOGIN.block(), Some(Duration::from_secs(3600)));
    /// ```
    pub const fn block(&self) -> Option<Duration> {
        match self.numbers.block_us {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    /// [`block`](Self::block) in microseconds; 0 for a limit that does not block.
    pub(crate) const fn block_us(&self) -> u64 {
        self.numbers.block_us
    }

    /// Whether this limit denies requests, or only reports what it would deny.
    #[inline]
    pub const fn mode(&self) -> Mode {
        self.numbers.mode
    }

    /// The time for which this process may keep units of a hot caller, if set; see [`PolicyBuilder::lease`].
    pub const fn lease(&self) -> Option<Duration> {
        match self.numbers.lease_us {
            0 => None,
            micros => Some(Duration::from_micros(micros as u64)),
        }
    }

    /// Length of the lease interval, in microseconds; 0 without one.
    #[cfg(feature = "redis")]
    pub(crate) const fn lease_us(&self) -> u64 {
        self.numbers.lease_us as u64
    }

    /// The part of one of several processes that count by themselves: an equal part of the limit, rounded up.
    pub(crate) fn per_instance(&self, instances: NonZeroU32) -> Self {
        let instances = u64::from(instances.get());
        let (max, burst) = (self.numbers.max.div_ceil(instances), self.numbers.burst.div_ceil(instances));
        self.with_numbers(PolicyNumbers { max, burst, ..self.numbers }).identified()
    }

    /// This policy with the largest limit: what is counted beyond the real one is a debt. It has the states
    /// of this policy.
    ///
    /// For windows and logs the largest limit is [`MAX_UNITS`]; for a token bucket, the units that are
    /// refilled within [`MAX_WINDOW`], at most `MAX_UNITS`. So a debt that is as large as it may be is paid
    /// within `MAX_WINDOW` as well.
    #[must_use]
    pub(crate) fn largest(&self) -> Self {
        let (max, burst) = if self.numbers.algorithm.has_burst() {
            let refilled =
                MAX_WINDOW.as_micros() * u128::from(self.numbers.max) / u128::from(self.numbers.window_us);
            (self.numbers.max, u64::try_from(refilled).unwrap_or(u64::MAX).min(MAX_UNITS))
        } else {
            (MAX_UNITS, MAX_UNITS)
        };
        self.with_numbers(PolicyNumbers { max, burst, block_us: 0, ..self.numbers })
    }

    /// `max` times the longest wait for a turn, in microseconds: what the [largest limit](Self::largest)
    /// surely leaves beside a full burst. A product, because a division would take as long as the decision.
    fn room_for_turns(&self) -> u128 {
        let [max, window, burst] =
            [self.numbers.max, self.numbers.window_us, self.numbers.burst].map(u128::from);
        let largest = (MAX_WINDOW.as_micros() * max).min(u128::from(MAX_UNITS) * window);
        largest.saturating_sub((burst + 1) * window)
    }

    /// Whether a request may wait so long for a turn.
    pub(crate) fn allows_wait(&self, at_most: Duration) -> bool {
        if at_most > MAX_WAIT {
            return false;
        }
        let micros = at_most.as_secs() * 1_000_000 + u64::from(at_most.subsec_micros());
        u128::from(micros) * u128::from(self.numbers.max) <= self.room_for_turns()
    }

    /// Longest wait for a turn.
    pub(crate) fn longest_wait(&self) -> Duration {
        let micros = u64::try_from(self.room_for_turns() / u128::from(self.numbers.max)).unwrap_or(u64::MAX);
        MAX_WAIT.min(Duration::from_micros(micros))
    }

    /// Fingerprint of key and [kind of state](StateKind): the same for policies that count together in
    /// windows with the same label.
    pub(crate) const fn state_id(&self) -> u64 {
        self.state_id
    }

    /// Length of the window, in microseconds.
    pub(crate) const fn window_us(&self) -> u64 {
        self.numbers.window_us
    }
}
