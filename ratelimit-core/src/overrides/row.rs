//! One row of overrides: the numbers that replace those of a policy.

use std::time::Duration;

use crate::policy::{Mode, OnError, Policy, PolicyError};

/// Where numbers come from; of two that apply, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "stats", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Origin {
    /// The program: an attribute or a policy.
    Program,
    /// The overrides of the limit, for all callers: `[limit.NAME]`.
    Limit,
    /// The row of a plan: `[limit.NAME.plans]`.
    Plan,
    /// The row of a caller: `[limit.NAME.callers]`.
    Caller,
}

/// A number that overrides can replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// Units per window.
    Max,
    /// Length of the window.
    Window,
    /// Units that a full token bucket holds.
    Burst,
    /// Time for which the first denial blocks a caller.
    Block,
    /// Whether the limit denies, only reports, or is off.
    Mode,
    /// What the limit does during an outage of the store.
    OnError,
}

impl Field {
    /// All fields, in the order of the documentation.
    pub const ALL: &'static [Self] =
        &[Self::Max, Self::Window, Self::Burst, Self::Block, Self::Mode, Self::OnError];

    /// Name of the field, as files spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Window => "window",
            Self::Burst => "burst",
            Self::Block => "block",
            Self::Mode => "mode",
            Self::OnError => "on_error",
        }
    }

    /// Whether a row sets it.
    pub(super) fn is_in(self, row: &Override) -> bool {
        match self {
            Self::Max => row.max.is_some(),
            Self::Window => row.window.is_some(),
            Self::Burst => row.burst.is_some(),
            Self::Block => row.block.is_some(),
            Self::Mode => row.mode.is_some(),
            Self::OnError => row.on_error.is_some(),
        }
    }
}

/// Numbers that replace those of a limit, for all its callers, those of one plan, or one caller. What is not set stays as it is.
///
/// # Examples
///
/// ```
/// use ratelimit_core::overrides::{LimitOverride, Override, Overrides};
///
/// let shop = LimitOverride::from(Override::new().max(20)).caller("partition acct-42", Override::new().max(500));
/// let overrides = Overrides::new().limit("shop", shop);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a row does nothing until it is part of overrides"]
pub struct Override {
    pub(super) max: Option<u64>,
    pub(super) window: Option<Duration>,
    pub(super) burst: Option<u64>,
    #[allow(clippy::option_option, reason = "not mentioned, none, or a length")]
    pub(super) block: Option<Option<Duration>>,
    pub(super) mode: Option<Switch>,
    pub(super) on_error: Option<OnError>,
    /// The line of the file.
    pub(super) line: Option<usize>,
}

/// A [`Mode`], or no limit at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Switch {
    Mode(Mode),
    Off,
}

impl Override {
    /// A row that replaces nothing.
    pub const fn new() -> Self {
        Self { max: None, window: None, burst: None, block: None, mode: None, on_error: None, line: None }
    }

    /// Units per window; see [`PolicyBuilder::max`](crate::PolicyBuilder::max). The counts stay, except those of a token bucket.
    ///
    /// A burst that equals the `max` of the program follows it.
    pub const fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Length of the window; see [`PolicyBuilder::window`](crate::PolicyBuilder::window). Every caller starts a new count.
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Units that a full token bucket holds; see [`PolicyBuilder::burst`](crate::PolicyBuilder::burst).
    pub const fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Time for which the first denial blocks a caller; see [`PolicyBuilder::block`](crate::PolicyBuilder::block). `None` takes
    /// the block of the program away.
    pub const fn block(mut self, block: Option<Duration>) -> Self {
        self.block = Some(block);
        self
    }

    /// Whether the limit denies requests, or only reports what it would deny.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(Switch::Mode(mode));
        self
    }

    /// Turns the limit off: requests are neither checked nor counted.
    pub const fn off(mut self) -> Self {
        self.mode = Some(Switch::Off);
        self
    }

    /// What the limit does during an outage of the store.
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = Some(on_error);
        self
    }

    /// This row, with what it does not set from `below`.
    pub(super) fn over(self, below: &Self) -> Self {
        Self {
            max: self.max.or(below.max),
            window: self.window.or(below.window),
            burst: self.burst.or(below.burst),
            block: self.block.or(below.block),
            mode: self.mode.or(below.mode),
            on_error: self.on_error.or(below.on_error),
            line: self.line,
        }
    }

    /// The policy with these numbers.
    pub(super) fn apply(&self, policy: &Policy) -> Result<Policy, PolicyError> {
        if self.window.is_some() && policy.calendar().is_some() {
            return Err(PolicyError::CalendarOverridden);
        }
        let builder = policy.to_builder();
        let builder = self.max.map_or(builder, |max| builder.max(max));
        let builder = self.window.map_or(builder, |window| builder.window(window));
        let builder = self.burst.map_or(builder, |burst| builder.burst(burst));
        let builder = match self.block {
            Some(Some(block)) => builder.block(block),
            Some(None) => builder.without_block(),
            None => builder,
        };
        let builder = match self.mode {
            Some(Switch::Mode(mode)) => builder.mode(mode),
            _ => builder,
        };
        let builder = self.on_error.map_or(builder, |on_error| builder.on_error(on_error));
        Ok(builder.try_build()?.with_names_of(policy))
    }

    pub(super) fn is_off(&self) -> bool {
        self.mode == Some(Switch::Off)
    }
}
