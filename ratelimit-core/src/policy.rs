//! A policy: the named rule that says how much is allowed, over how long, and how it is counted.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::algorithm::Algorithm;

/// Largest `max`, `burst` and cost: 10^12.
///
/// With windows of at most [`MAX_WINDOW`] every product that an algorithm forms can be divided
/// exactly, in Rust and in the 53-bit integers of Lua alike; see `lua/README.md`.
pub const MAX_UNITS: u64 = 1_000_000_000_000;

/// Shortest window: 1 ms.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);

/// Longest window, and longest time to refill a token bucket: 366 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Most sub-windows of a sliding window counter.
pub const MAX_SUB_WINDOWS: u64 = 60;

/// Longest key or name of a policy, in bytes; a module path and a function name fit.
pub const MAX_NAME_LEN: usize = 128;

/// What a limit does when the store cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnError {
    /// This process counts by itself, by the same algorithm, until the store is back. What it has counted is not handed
    /// on, so an outage lets at most one more `max` per caller and process pass; [divided] among the processes when
    /// their number is known.
    ///
    /// [divided]: crate::RateLimiterBuilder::instances
    #[default]
    Local,
    /// Nobody passes: the check is an error, and a request is answered with 503.
    Deny,
    /// Everybody passes, uncounted.
    Allow,
}

/// The named rule that says how much is allowed, over how long, and how it is counted.
///
/// A policy is a value without state: the counts live in a [store](crate::store::Store), one for each caller.
/// It can be a `static`; then wrong numbers are compile errors.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    key: Cow<'static, str>,
    name: Option<Cow<'static, str>>,
    algorithm: Algorithm,
    max: u64,
    window_us: u64,
    sub_windows: u64,
    burst: u64,
    on_error: OnError,
    state_id: u64,
}

impl Policy {
    /// A sliding window counter over two windows: at most `max` units in any `window`, approximately.
    ///
    /// # Panics
    ///
    /// When a number is out of its bounds. In a `static` or `const` that is a compile error;
    /// for numbers that are known only at run time use [`PolicyBuilder::try_build`].
    pub const fn new(key: &'static str, max: u64, window: Duration) -> Self {
        Self::builder(key).max(max).window(window).build()
    }

    /// Starts a policy of 100 units per 60 s whose counts are kept under `key`.
    ///
    /// Policies with the same key, algorithm, window and sub-windows share their counts; token buckets also need the same
    /// `max` and burst.
    pub const fn builder(key: &'static str) -> PolicyBuilder {
        PolicyBuilder {
            key,
            name: None,
            algorithm: Algorithm::SlidingWindowCounter,
            max: 100,
            window: Duration::from_secs(60),
            sub_windows: None,
            burst: None,
            on_error: OnError::Local,
        }
    }

    /// The same policy under a key that is made at run time.
    ///
    /// # Errors
    ///
    /// When the key is empty, longer than [`MAX_NAME_LEN`], or has a character that is not allowed.
    pub fn with_key(mut self, key: impl Into<String>) -> Result<Self, PolicyError> {
        let key = key.into();
        if !is_name(&key) {
            return Err(PolicyError::Key);
        }
        self.key = Cow::Owned(key);
        self.state_id =
            state_id(&self.key, self.algorithm, self.max, self.window_us, self.sub_windows, self.burst);
        Ok(self)
    }

    /// The same policy under a name that is made at run time.
    ///
    /// # Errors
    ///
    /// When the name is empty, longer than [`MAX_NAME_LEN`], or has a character that is not allowed.
    pub fn with_name(mut self, name: impl Into<String>) -> Result<Self, PolicyError> {
        let name = name.into();
        if !is_name(&name) {
            return Err(PolicyError::Name);
        }
        self.name = Some(Cow::Owned(name));
        Ok(self)
    }

    /// The name under which the counts are kept.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What headers and metrics call this policy: its own name, or the key.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.key)
    }

    /// The key, not copied when it was written down.
    #[cfg(feature = "redis")]
    pub(crate) fn shared_key(&self) -> Cow<'static, str> {
        self.key.clone()
    }

    /// The name, not copied when it was written down.
    #[cfg(feature = "metrics")]
    pub(crate) fn shared_name(&self) -> Cow<'static, str> {
        self.name.as_ref().unwrap_or(&self.key).clone()
    }

    /// How it is counted.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Units allowed per window; for a token bucket the units refilled per window.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The window.
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Sub-windows of a sliding window counter; 1 for every other algorithm.
    pub const fn sub_windows(&self) -> u64 {
        self.sub_windows
    }

    /// Length of a sub-window, or of the window where there is but one, in microseconds.
    pub(crate) const fn sub_window_us(&self) -> u64 {
        // A division takes longer than the rest of most steps.
        if self.sub_windows == 1 { self.window_us } else { self.window_us / self.sub_windows }
    }

    /// The most units that can pass at one instant: the burst of a token bucket, `max` for every other algorithm.
    pub const fn capacity(&self) -> u64 {
        self.burst
    }

    /// What to do when the store cannot answer.
    pub const fn on_error(&self) -> OnError {
        self.on_error
    }

    /// The same policy for one of several processes that count apart: an equal part of the limit, rounded up, but enough
    /// for a request of `cost` units that the whole limit admits. Its state is the same for every cost.
    pub(crate) fn share(&self, instances: NonZeroU32, cost: u64) -> Self {
        let instances = u64::from(instances.get());
        let (mut max, mut burst) = (self.max.div_ceil(instances), self.burst.div_ceil(instances));
        let state_id = state_id(&self.key, self.algorithm, max, self.window_us, self.sub_windows, burst);
        if cost <= self.burst {
            burst = burst.max(cost);
            if self.algorithm != Algorithm::TokenBucket {
                max = max.max(cost);
            }
        }
        Self { max, burst, state_id, ..self.clone() }
    }

    /// A number that stands for the state this policy keeps: the same for policies that share their counts.
    ///
    /// These have the same key, algorithm, window and sub-windows. A token bucket's state is an instant that has a
    /// meaning only for one rate and size, so there `max` and `burst` take part; a window's count means the same under
    /// any `max`, so a changed `max` keeps the counts.
    pub(crate) const fn state_id(&self) -> u64 {
        self.state_id
    }

    /// The window in microseconds.
    pub(crate) const fn window_us(&self) -> u64 {
        self.window_us
    }
}

/// Builds a [`Policy`]; the defaults are 100 units per 60 s, as a sliding window counter over two windows.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build` or `try_build`"]
pub struct PolicyBuilder {
    key: &'static str,
    name: Option<&'static str>,
    algorithm: Algorithm,
    max: u64,
    window: Duration,
    sub_windows: Option<u64>,
    burst: Option<u64>,
    on_error: OnError,
}

impl PolicyBuilder {
    /// Units allowed per window, from 1 to [`MAX_UNITS`].
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// The window, from [`MIN_WINDOW`] to [`MAX_WINDOW`], in whole microseconds.
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// How units are counted.
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Parts into which a sliding window counter divides its window, from 1 to [`MAX_SUB_WINDOWS`].
    ///
    /// With 1 it weighs two whole windows; the more, the nearer to the exact log. The window must be a whole
    /// multiple of it, in microseconds.
    pub const fn sub_windows(mut self, sub_windows: u64) -> Self {
        self.sub_windows = Some(sub_windows);
        self
    }

    /// Units a token bucket holds when it is full, from 1 to [`MAX_UNITS`]; the default is `max`.
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// What to do when the store cannot answer; the default is to count in this process.
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    /// What headers and metrics call the policy; the default is its key.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// The policy.
    ///
    /// # Panics
    ///
    /// When a number is out of its bounds, with the text of the [`PolicyError`]. In a `static` or `const` that is
    /// a compile error.
    pub const fn build(self) -> Policy {
        match self.checked() {
            Ok(numbers) => self.policy(numbers),
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// The policy, or what is wrong with it.
    ///
    /// # Errors
    ///
    /// When a number or name is out of its bounds.
    pub const fn try_build(self) -> Result<Policy, PolicyError> {
        match self.checked() {
            Ok(numbers) => Ok(self.policy(numbers)),
            Err(error) => Err(error),
        }
    }

    const fn policy(self, Numbers { window_us, sub_windows, burst }: Numbers) -> Policy {
        let Self { key, algorithm, max, on_error, .. } = self;
        let name = match self.name {
            Some(name) => Some(Cow::Borrowed(name)),
            None => None,
        };
        let state_id = state_id(key, algorithm, max, window_us, sub_windows, burst);
        Policy {
            key: Cow::Borrowed(key),
            name,
            algorithm,
            max,
            window_us,
            sub_windows,
            burst,
            on_error,
            state_id,
        }
    }

    /// Every check in one place: which combinations of numbers all algorithms can treat exactly.
    const fn checked(&self) -> Result<Numbers, PolicyError> {
        let Self { algorithm, max, .. } = *self;
        if !is_name(self.key) {
            return Err(PolicyError::Key);
        }
        if let Some(name) = self.name
            && !is_name(name)
        {
            return Err(PolicyError::Name);
        }
        if max < 1 || max > MAX_UNITS {
            return Err(PolicyError::Max);
        }
        let nanos = self.window.as_nanos();
        if nanos < MIN_WINDOW.as_nanos() || nanos > MAX_WINDOW.as_nanos() {
            return Err(PolicyError::Window);
        }
        if !nanos.is_multiple_of(1000) {
            return Err(PolicyError::WindowNotMicroseconds);
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MAX_WINDOW, checked above")]
        let window_us = (nanos / 1000) as u64;
        let sub_windows = match self.sub_windows {
            None => 1,
            Some(_) if !matches!(algorithm, Algorithm::SlidingWindowCounter) => {
                return Err(PolicyError::SubWindowsWithoutCounter);
            }
            Some(n) if n < 1 || n > MAX_SUB_WINDOWS => return Err(PolicyError::SubWindows),
            Some(n) if !window_us.is_multiple_of(n) => return Err(PolicyError::SubWindowsNotWhole),
            Some(n) => n,
        };
        let burst = match self.burst {
            None => max,
            Some(_) if !matches!(algorithm, Algorithm::TokenBucket) => {
                return Err(PolicyError::BurstWithoutTokenBucket);
            }
            Some(n) if n < 1 || n > MAX_UNITS => return Err(PolicyError::Burst),
            Some(n) => n,
        };
        // Full refill time, burst * window / max, in microseconds.
        if (burst as u128) * (window_us as u128) > MAX_WINDOW.as_micros() * (max as u128) {
            return Err(PolicyError::Refill);
        }
        Ok(Numbers { window_us, sub_windows, burst })
    }
}

/// The numbers that had to be worked out.
struct Numbers {
    window_us: u64,
    sub_windows: u64,
    burst: u64,
}

/// FNV-1a over everything that tells one state from another, so that a store hashes eight bytes instead of a name.
///
/// Only developers choose what goes in, so this hash need not resist anybody.
const fn state_id(
    key: &str,
    algorithm: Algorithm,
    max: u64,
    window_us: u64,
    sub_windows: u64,
    burst: u64,
) -> u64 {
    let mut hash = fnv1a(0xcbf2_9ce4_8422_2325, key.as_bytes());
    hash = fnv1a(hash, &[0, algorithm as u8]);
    hash = fnv1a(hash, &window_us.to_le_bytes());
    hash = fnv1a(hash, &sub_windows.to_le_bytes());
    if matches!(algorithm, Algorithm::TokenBucket) {
        hash = fnv1a(hash, &max.to_le_bytes());
        hash = fnv1a(hash, &burst.to_le_bytes());
    }
    hash
}

const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// Keys and names go into Redis keys and quoted header fields: printable ASCII without what either would escape.
const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_NAME_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !bytes[i].is_ascii_graphic() || matches!(bytes[i], b'{' | b'}' | b'"' | b'\\') {
            return false;
        }
        i += 1;
    }
    true
}

/// A policy whose numbers or names are out of their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The key is empty, too long, or has a character that is not allowed.
    Key,
    /// The name is empty, too long, or has a character that is not allowed.
    Name,
    /// `max` is out of its bounds.
    Max,
    /// The window is out of its bounds.
    Window,
    /// The window has a fraction of a microsecond.
    WindowNotMicroseconds,
    /// The number of sub-windows is out of its bounds.
    SubWindows,
    /// The window cannot be divided into that many equal sub-windows.
    SubWindowsNotWhole,
    /// Sub-windows were given for another algorithm.
    SubWindowsWithoutCounter,
    /// The burst is out of its bounds.
    Burst,
    /// A burst was given for another algorithm.
    BurstWithoutTokenBucket,
    /// A full burst takes too long to refill.
    Refill,
}

impl PolicyError {
    /// What is wrong, and what is expected.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Key => {
                "key must be 1 to 128 printable ASCII characters without blanks, braces, quotes and backslashes"
            }
            Self::Name => {
                "name must be 1 to 128 printable ASCII characters without blanks, braces, quotes and backslashes"
            }
            Self::Max => "max must be from 1 to 1000000000000",
            Self::Window => "window must be from 1 ms to 366 days",
            Self::WindowNotMicroseconds => "window must be a whole number of microseconds",
            Self::SubWindows => "sub_windows must be from 1 to 60",
            Self::SubWindowsNotWhole => "window must be a whole multiple of sub_windows, in microseconds",
            Self::SubWindowsWithoutCounter => "sub_windows is only for the sliding window counter",
            Self::Burst => "burst must be from 1 to 1000000000000",
            Self::BurstWithoutTokenBucket => "burst is only for the token bucket",
            Self::Refill => "burst * window / max, the time to refill a full burst, must be at most 366 days",
        }
    }
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

// By hand, because the texts have to be readable in a constant as well.
impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(builder: PolicyBuilder) -> PolicyError {
        builder.try_build().unwrap_err()
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    const BUILDER: PolicyBuilder = Policy::builder("k");
    const BUCKET: PolicyBuilder = BUILDER.algorithm(Algorithm::TokenBucket);

    #[test]
    fn the_defaults_are_100_per_60_s_over_two_windows() {
        let policy = BUILDER.build();
        assert_eq!((policy.key(), policy.name()), ("k", "k"));
        assert_eq!((policy.max(), policy.capacity(), policy.sub_windows()), (100, 100, 1));
        assert_eq!(policy.window(), Duration::from_secs(60));
        assert_eq!(policy.algorithm(), Algorithm::SlidingWindowCounter);
    }

    #[test]
    fn max_is_from_1_to_a_trillion() {
        assert_eq!(error(BUILDER.max(0)), PolicyError::Max);
        assert_eq!(error(BUILDER.max(MAX_UNITS + 1)), PolicyError::Max);
        assert_eq!(error(BUILDER.max(u64::MAX)), PolicyError::Max);
        for max in [1, MAX_UNITS] {
            assert_eq!(BUILDER.max(max).build().max(), max);
        }
    }

    #[test]
    fn the_window_is_from_a_millisecond_to_366_days_in_whole_microseconds() {
        for outside in [
            Duration::ZERO,
            Duration::from_nanos(999_999),
            MAX_WINDOW + Duration::from_nanos(1),
            Duration::MAX,
        ] {
            assert_eq!(error(BUILDER.window(outside)), PolicyError::Window, "{outside:?}");
        }
        for fraction in [1, 500, 999] {
            let window = Duration::from_millis(5) + Duration::from_nanos(fraction);
            assert_eq!(error(BUILDER.window(window)), PolicyError::WindowNotMicroseconds, "{window:?}");
        }
        for inside in [MIN_WINDOW, micros(1_001), micros(31_622_399_999_999), MAX_WINDOW] {
            assert_eq!(BUILDER.window(inside).build().window(), inside);
        }
    }

    #[test]
    fn sub_windows_are_from_1_to_60_and_divide_the_window() {
        for outside in [0, MAX_SUB_WINDOWS + 1, u64::MAX] {
            assert_eq!(error(BUILDER.sub_windows(outside)), PolicyError::SubWindows, "{outside}");
        }
        for inside in [1, 2, 59, MAX_SUB_WINDOWS] {
            let builder = BUILDER.window(micros(59 * 60_000));
            assert_eq!(builder.sub_windows(inside).build().sub_windows(), inside);
        }
        assert_eq!(error(BUILDER.window(micros(1_001)).sub_windows(2)), PolicyError::SubWindowsNotWhole);
        for other in [Algorithm::FixedWindow, Algorithm::SlidingWindowLog, Algorithm::TokenBucket] {
            let builder = BUILDER.algorithm(other).sub_windows(1);
            assert_eq!(error(builder), PolicyError::SubWindowsWithoutCounter, "{other}");
        }
    }

    #[test]
    fn a_burst_is_from_1_to_a_trillion_and_only_for_the_token_bucket() {
        for outside in [0, MAX_UNITS + 1, u64::MAX] {
            assert_eq!(error(BUCKET.burst(outside)), PolicyError::Burst, "{outside}");
        }
        assert_eq!(BUCKET.burst(1).build().capacity(), 1);
        assert_eq!(BUCKET.max(MAX_UNITS).burst(MAX_UNITS).build().capacity(), MAX_UNITS);
        for other in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter, Algorithm::SlidingWindowLog] {
            let builder = BUILDER.algorithm(other).burst(100);
            assert_eq!(error(builder), PolicyError::BurstWithoutTokenBucket, "{other}");
        }
    }

    #[test]
    fn a_full_burst_refills_within_366_days() {
        let bucket = BUCKET.max(1).window(Duration::from_secs(86_400));
        assert_eq!(bucket.burst(366).build().capacity(), 366);
        assert_eq!(error(bucket.burst(367)), PolicyError::Refill);
        assert_eq!(error(BUCKET.max(1).window(MAX_WINDOW).burst(2)), PolicyError::Refill);
        assert_eq!(error(BUCKET.max(1).burst(MAX_UNITS)), PolicyError::Refill);
        // A third of a microsecond more than 366 days.
        let thirds = BUCKET.max(3).window(micros(1_000_000)).burst(3 * 31_622_400);
        assert!(thirds.try_build().is_ok());
        assert_eq!(error(BUCKET.max(3).window(micros(1_000_001)).burst(3 * 31_622_400)), PolicyError::Refill);
    }

    #[test]
    fn keys_and_names_are_printable_and_need_no_escape() {
        for bad in ["", " ", "a b", "a\tb", "a{b", "a}b", "a\"b", "a\\b", "\u{e9}", "a\u{7f}", "a\0b"] {
            assert_eq!(error(Policy::builder(bad)), PolicyError::Key, "{bad:?}");
            assert_eq!(error(BUILDER.name(bad)), PolicyError::Name, "{bad:?}");
            assert_eq!(BUILDER.build().with_key(bad), Err(PolicyError::Key), "{bad:?}");
            assert_eq!(BUILDER.build().with_name(bad), Err(PolicyError::Name), "{bad:?}");
        }
        let (longest, longer) = ("x".repeat(MAX_NAME_LEN), "x".repeat(MAX_NAME_LEN + 1));
        assert_eq!(BUILDER.build().with_key(longer.clone()), Err(PolicyError::Key));
        assert_eq!(BUILDER.build().with_name(longer), Err(PolicyError::Name));
        for good in ["k", "user-api", "shop::orders::list", "a:b/c.d_e~!@#$%^&*()'`<>|,;?=+[]", &longest] {
            let policy = BUILDER.build().with_key(good).unwrap().with_name(good).unwrap();
            assert_eq!((policy.key(), policy.name()), (good, good));
        }
    }

    #[test]
    fn a_name_is_shown_and_the_key_is_counted_under() {
        let named = BUILDER.name("shown").build();
        assert_eq!((named.key(), named.name()), ("k", "shown"));
        assert_eq!(named.state_id(), BUILDER.build().state_id());
    }

    #[test]
    fn policies_share_a_state_when_its_counts_mean_the_same() {
        let id = |builder: PolicyBuilder| builder.build().state_id();
        let base = id(BUILDER);
        assert_eq!(id(BUILDER.max(7)), base, "a changed max keeps the counts");
        assert_ne!(id(Policy::builder("other")), base);
        assert_ne!(id(BUILDER.window(Duration::from_secs(61))), base);
        assert_ne!(id(BUILDER.sub_windows(6)), base);
        assert_ne!(id(BUILDER.algorithm(Algorithm::SlidingWindowLog)), base);
        assert_eq!(id(BUILDER.sub_windows(1)), base);
        let bucket = id(BUCKET);
        assert_ne!(bucket, base);
        assert_ne!(id(BUCKET.max(7).burst(100)), bucket, "an instant means another level at another rate");
        assert_ne!(id(BUCKET.burst(7)), bucket);
        assert_eq!(id(BUCKET.burst(100)), bucket);
        let renamed = BUILDER.build().with_key("other").unwrap();
        assert_eq!(renamed.state_id(), id(Policy::builder("other")), "a key made at run time is a key");
    }

    #[test]
    fn every_error_says_what_is_expected() {
        for error in [
            PolicyError::Key,
            PolicyError::Name,
            PolicyError::Max,
            PolicyError::Window,
            PolicyError::WindowNotMicroseconds,
            PolicyError::SubWindows,
            PolicyError::SubWindowsNotWhole,
            PolicyError::SubWindowsWithoutCounter,
            PolicyError::Burst,
            PolicyError::BurstWithoutTokenBucket,
            PolicyError::Refill,
        ] {
            let text = error.to_string();
            assert_eq!(text, error.message());
            assert!(text.contains(" must be ") || text.contains(" is only for "), "{text}");
        }
    }

    #[test]
    #[should_panic(expected = "max must be from 1 to 1000000000000")]
    fn build_panics_with_the_text_of_the_error() {
        let _ = Policy::new("k", 0, Duration::from_secs(60));
    }
}
