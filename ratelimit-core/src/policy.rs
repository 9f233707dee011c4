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
    /// Policies with the same key, algorithm and window share their counts.
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

    /// The most units that can pass at one instant: the burst of a token bucket, `max` for every other algorithm.
    pub const fn capacity(&self) -> u64 {
        self.burst
    }

    /// What to do when the store cannot answer.
    pub const fn on_error(&self) -> OnError {
        self.on_error
    }

    /// The same policy for one of so many processes that count apart: an equal part of the limit, rounded up.
    pub(crate) fn share(&self, instances: NonZeroU32) -> Self {
        let instances = u64::from(instances.get());
        let (max, burst) = (self.max.div_ceil(instances), self.burst.div_ceil(instances));
        let state_id = state_id(&self.key, self.algorithm, max, self.window_us, self.sub_windows, burst);
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
