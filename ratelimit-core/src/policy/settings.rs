//! What is written of a limit, each number set or not: the one table of these fields, for builders, files,
//! overrides and pages.

use std::time::Duration;

#[cfg(feature = "calendar")]
use super::Calendar;
use super::value::{LimitWindow, ReadFault, Setting, Switch, Value, Written};
use super::{Algorithm, Mode, OnError, PolicyError};

/// Makes [`Field`] and [`Settings`] of the table: what a field is, its name in files and its type, what files
/// may have, whether overrides may replace it, and whether clients may know it.
///
/// A number that starts new counts is a part of `StateKind`, too, and one that changes what can pass of
/// `Policy::per_instance` and `Policy::largest`. One that a script needs is in `store/redis/protocol.rs`.
macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident $field:ident: $type:ty, $expected:literal, $overrides:literal, $clients:literal;)*) => {
        /// A number of a limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Field {
            $($(#[$doc])* $variant,)*
        }

        impl Field {
            /// All fields, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name of the field, as files spell it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($field),)*
                }
            }

            /// Whether overrides can replace it.
            pub const fn is_overridable(self) -> bool {
                match self {
                    $(Self::$variant => $overrides,)*
                }
            }

            /// Whether clients may know it, such as readers of an OpenAPI document.
            pub const fn is_public(self) -> bool {
                match self {
                    $(Self::$variant => $clients,)*
                }
            }

            /// Whether it is a length of time.
            pub const fn is_time(self) -> bool {
                match self {
                    $(Self::$variant => <$type as Setting>::IS_TIME,)*
                }
            }

            /// What files have as its value.
            pub(crate) const fn expected(self) -> &'static str {
                match self {
                    $(Self::$variant => $expected,)*
                }
            }

            /// Whether files have a number, and not a text.
            pub(crate) const fn is_number(self) -> bool {
                match self {
                    $(Self::$variant => <$type as Setting>::IS_NUMBER,)*
                }
            }
        }

        /// Numbers of a limit, each set or not.
        ///
        /// A [policy](crate::Policy) is made of the settings of its [builder](PolicyBuilder), where defaults
        /// stand for what is not set. Overrides are settings over those of the program, for all its
        /// callers, those of one plan, or one caller: what they do not set stays as it is.
        ///
        /// # Examples
        ///
        /// ```
        /// use ratelimit_core::Settings;
        ///
        /// let settings = Settings::new().max(500).over(Settings::new().max(20).burst(40));
        /// assert_eq!(settings, Settings::new().max(500).burst(40));
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[must_use = "settings do nothing until they are part of a policy or of overrides"]
        pub struct Settings {
            $(pub(crate) $field: Option<$type>,)*
        }

        impl Settings {
            /// None is set.
            pub const fn new() -> Self {
                Self { $($field: None),* }
            }

            /// These settings, with what they do not set from `below`.
            pub const fn over(self, below: Self) -> Self {
                Self {
                    $($field: match self.$field {
                        None => below.$field,
                        set => set,
                    },)*
                }
            }

            /// Whether a field is set.
            pub const fn has(&self, field: Field) -> bool {
                match field {
                    $(Field::$variant => self.$field.is_some(),)*
                }
            }

            /// All fields in the order of [`Field::ALL`], with their values as far as they are set.
            pub fn values(&self) -> impl Iterator<Item = (Field, Option<Value>)> + use<> {
                [$((Field::$variant, self.$field.map(Setting::value))),*].into_iter()
            }

            /// Sets a field from its value in a file.
            #[inline]
            pub(crate) fn read(&mut self, field: Field, written: Written<'_>) -> Result<(), ReadFault> {
                match field {
                    $(Field::$variant => self.$field = Some(Setting::read(stringify!($field), written)?),)*
                }
                Ok(())
            }
        }
    };
}

fields! {
    /// Units per window.
    Max max: u64, "a whole number", true, true;
    /// The window: its length, or days, weeks, months or years of a calendar.
    Window window: LimitWindow, "a time such as \"60s\"", true, true;
    /// The algorithm by which units are counted.
    Algorithm algorithm: Algorithm, "the name of an algorithm", false, true;
    /// Parts of the window of a sliding window counter.
    SubWindows sub_windows: u64, "a whole number", false, true;
    /// Units of a full token bucket.
    Burst burst: u64, "a whole number", true, true;
    /// Time for which the first denial blocks a caller.
    Block block: Switch<Duration>, "a time such as \"10m\", or \"off\"", true, true;
    /// Whether the limit denies, only reports, or is off.
    Mode mode: Switch<Mode>, "one of \"enforce\", \"shadow\", \"off\"", true, false;
    /// What the limit does during an outage of the store.
    OnError on_error: OnError, "the name of a failure policy", true, false;
    /// Time for which a process may keep units of a hot caller.
    Lease lease: Duration, "a time such as \"100ms\"", false, false;
}

/// Builds a [`Policy`](crate::Policy); by default 100 units per 60 s, counted by a sliding window counter
/// over two windows.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build` or `try_build`"]
pub struct PolicyBuilder {
    pub(super) key: &'static str,
    pub(super) name: Option<&'static str>,
    pub(super) settings: Settings,
}

/// Makes setters of [`Settings`], and the same of [`PolicyBuilder`].
macro_rules! setters {
    ($($(#[$attribute:meta])* $setter:ident($($value:ident: $type:ty)?) { $($field:ident: $set:expr),* })*) => {
        impl Settings {
            $($(#[$attribute])*
            pub const fn $setter(mut self $(, $value: $type)?) -> Self {
                $(self.$field = Some($set);)*
                self
            })*
        }

        impl PolicyBuilder {
            $($(#[$attribute])*
            pub const fn $setter(mut self $(, $value: $type)?) -> Self {
                self.settings = self.settings.$setter($($value)?);
                self
            })*
        }
    };
}

setters! {
    /// Sets the units allowed per window, from 1 to [`MAX_UNITS`](crate::policy::MAX_UNITS); for a token
    /// bucket, the units refilled per window. By default 100.
    ///
    /// Another `max` keeps the counts, except for a token bucket, which starts full. In overrides, a burst
    /// that equals the `max` of the program follows it.
    max(max: u64) { max: max }

    /// Sets the length of the window, from [`MIN_WINDOW`](crate::policy::MIN_WINDOW) to
    /// [`MAX_WINDOW`](crate::policy::MAX_WINDOW), in whole microseconds. By default 60 s.
    ///
    /// Another window starts new counts. [`Window`](crate::policy::Window) reads a text such as `"1h30m"`.
    /// The feature `serde` writes only windows in whole milliseconds.
    window(window: Duration) { window: LimitWindow::Length(window) }

    /// Sets days, weeks, months or years as windows, counted by a [fixed window](Algorithm::FixedWindow).
    ///
    /// Each window has a count of its own, that of the day, week, month or year in which it begins. Another
    /// kind starts new counts; another zone, and another day on which windows begin, keep them until their
    /// windows end. [`Calendar::clamped`] is for a day that differs from request to request. Redis has to
    /// keep its data for as long. Such a limit has no [`block`](Self::block).
    #[cfg(feature = "calendar")]
    calendar(calendar: Calendar) { window: LimitWindow::Calendar(calendar), algorithm: Algorithm::FixedWindow }

    /// Sets the algorithm by which units are counted. By default a sliding window counter, which admits fewer
    /// than 2 × `max` units within one window's length.
    ///
    /// Another algorithm starts new counts; see [`Algorithm`] for how to choose. [`Algorithm::Concurrency`]
    /// makes it a [concurrency limit](crate::Policy::concurrency).
    algorithm(algorithm: Algorithm) { algorithm: algorithm }

    /// Sets the number of parts into which a sliding window counter divides its window, from 1 to
    /// [`MAX_SUB_WINDOWS`](crate::policy::MAX_SUB_WINDOWS); by default 1.
    ///
    /// With 1 it weighs two whole windows; with more it comes nearer to the exact log. The window must be a
    /// whole multiple of this number, in microseconds.
    sub_windows(sub_windows: u64) { sub_windows: sub_windows }

    /// Sets the units of a full token bucket, from 1 to [`MAX_UNITS`](crate::policy::MAX_UNITS); by
    /// default `max`. They can pass at one instant.
    ///
    /// Only for [`Algorithm::TokenBucket`]. The time to refill a full bucket, `burst * window / max`, is at
    /// most [`MAX_WINDOW`](crate::policy::MAX_WINDOW).
    burst(burst: u64) { burst: burst }

    /// Sets the failure policy for an outage of the store: fall back to counts of this process (the default),
    /// fail closed, or fail open.
    ///
    /// [`OnError::Local`] admits up to `max` units more per process, [`OnError::Deny`] turns an outage of the
    /// store into errors for every request under this limit, and [`OnError::Allow`] removes the limit for
    /// that time. In a group, one limit that fails closed is enough for the error.
    on_error(on_error: OnError) { on_error: on_error }

    /// Sets for how long the first denial blocks the caller; by default not at all.
    ///
    /// The first denial under this limit replaces the counts by the instant of its end, `block` later. Until
    /// then every request under the limit is denied, with the exact wait, and does not prolong the block.
    /// Then the full quota is available.
    ///
    /// At least the window, and for a token bucket at least the time to refill a full bucket, so that nothing
    /// that was counted outlives the block. At most [`MAX_WINDOW`](crate::policy::MAX_WINDOW), in whole
    /// microseconds. Not for windows of a calendar. See [`Policy::block`](crate::Policy::block) for the
    /// details.
    block(block: Duration) { block: Switch::On(block) }

    /// Takes the block away: denials do not block the caller.
    without_block() { block: Switch::Off }

    /// Sets whether the limit denies requests: [`Mode::Enforce`] (the default) or [`Mode::Shadow`], which
    /// only reports what it would deny.
    ///
    /// Another mode starts new counts.
    mode(mode: Mode) { mode: Switch::On(mode) }

    /// Sets the lease: a hot caller below its limit is decided in this process, by units that Redis has
    /// charged ahead. By default off; at most [`MAX_LEASE`](crate::policy::MAX_LEASE), typically 100 ms.
    ///
    /// Never more requests pass than without. The process charges what the caller is likely to use within
    /// this time, and gives back what is not used for this time. Denials still come from Redis, so a caller
    /// at its limit gains little. `remaining` and the waits of an admitted request are those of the last
    /// answer of Redis, up to 1 s old.
    ///
    /// Only for fixed windows and sliding window counters. Only for the Redis store; every other store
    /// ignores it. `docs/leases.md` has the guarantee, its bounds under faults, and when a lease pays.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use ratelimit_core::Policy;
    ///
    /// static ALL: Policy = Policy::builder("all").max(100_000).lease(Duration::from_millis(100)).build();
    ///
    /// assert_eq!(ALL.lease(), Some(Duration::from_millis(100)));
    /// ```
    lease(lease: Duration) { lease: lease }
}

impl Settings {
    /// Turns the limit off: requests are neither checked nor counted. Only for overrides.
    pub const fn off(mut self) -> Self {
        self.mode = Some(Switch::Off);
        self
    }

    /// Whether they can be overrides of a limit, with windows of a calendar or without.
    #[allow(dead_code, reason = "only overrides are checked")]
    pub(crate) fn check_overridable(&self, has_calendar: bool) -> Result<(), PolicyError> {
        match self.window {
            Some(LimitWindow::Length(_)) if has_calendar => Err(PolicyError::CalendarOverridden),
            Some(LimitWindow::Calendar(_)) => Err(PolicyError::NotOverridable),
            _ if Field::ALL.iter().any(|field| self.has(*field) && !field.is_overridable()) => {
                Err(PolicyError::NotOverridable)
            }
            _ => Ok(()),
        }
    }

    /// Whether they turn the limit off.
    pub(crate) const fn is_off(&self) -> bool {
        matches!(self.mode, Some(Switch::Off))
    }
}
