//! A set of overrides, from a file, a text or code.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::file::file_name;
use super::table::WrittenRow;
use crate::policy::Settings;

/// Other numbers for limits of the program, by the names of the limits.
///
/// The numbers come from a file, a text in the same form, or code. They are checked as a whole against all
/// limits of the program when they are passed to
/// [`RateLimiterBuilder::overrides`](crate::RateLimiterBuilder::overrides) or
/// [`RateLimiter::replace_overrides`](crate::RateLimiter::replace_overrides): unknown names, numbers out of
/// their bounds, and limits that no request could pass are errors.
#[doc = include_str!("file_format.md")]
#[derive(Clone, Debug, Default)]
#[must_use = "overrides do nothing until a limiter has them"]
pub struct Overrides {
    pub(super) limits: BTreeMap<String, LimitOverride>,
    /// The file, and the text that was read.
    pub(super) file: Option<(PathBuf, String)>,
    pub(super) is_watched: bool,
}

/// The overrides of one limit: for all callers, by plan and by caller.
///
/// # Examples
///
/// ```
/// use ratelimit_core::Settings;
/// use ratelimit_core::overrides::{LimitOverride, Overrides};
///
/// let shop = LimitOverride::from(Settings::new().max(20)).caller("partition acct-42", Settings::new().max(500));
/// let overrides = Overrides::new().limit("shop", shop);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is part of overrides"]
pub struct LimitOverride {
    pub(super) row: WrittenRow,
    pub(super) plans: BTreeMap<String, WrittenRow>,
    pub(super) callers: BTreeMap<String, WrittenRow>,
}

impl From<Settings> for LimitOverride {
    /// For all callers.
    fn from(settings: Settings) -> Self {
        Self { row: settings.into(), ..Self::default() }
    }
}

impl LimitOverride {
    /// Without numbers for all callers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the row of a plan: for requests for which `plan` in the attribute returns this name. It replaces
    /// an earlier row.
    pub fn plan(mut self, name: impl Into<String>, settings: Settings) -> Self {
        self.plans.insert(name.into(), settings.into());
        self
    }

    /// Adds the row of a caller. It replaces an earlier row. Where the caller has a row, that of its plan
    /// does not apply.
    ///
    /// The text has a kind, as in a file: `partition tenant-42` for what is passed to `check`, and for limits
    /// of `ratelimit-actix` what `by` returns, such as `text acct-42`, `number 42` or `address 203.0.113.7`.
    pub fn caller(mut self, text: impl Into<String>, settings: Settings) -> Self {
        self.callers.insert(text.into(), settings.into());
        self
    }
}

impl Overrides {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the overrides of a limit: [`Settings`], or a [`LimitOverride`] that has some for plans and
    /// callers as well. They replace earlier ones of this limit.
    ///
    /// A text such as `"shop"` is the name of a limit that `declared_limits()` of `ratelimit-actix` lists, or
    /// of a policy that is passed to [`RateLimiterBuilder::policies`](crate::RateLimiterBuilder::policies).
    pub fn limit(mut self, name: impl Into<String>, overrides: impl Into<LimitOverride>) -> Self {
        self.limits.insert(name.into(), overrides.into());
        self
    }

    /// Reads the file again whenever it changes, for as long as the limiter lives; by default `false`.
    ///
    /// A thread reads the file four times a second. New contents are in force at most 0.6 s after the last
    /// write to the file: the thread waits until two reads in a row are equal. Write them to another file and
    /// rename that, so that no read sees a part of them. Contents that cannot be used change nothing, such as
    /// those without a line break at their end; one line in the log and a metric say why.
    ///
    /// It does nothing for overrides that are not from a file. Replace those by
    /// [`RateLimiter::replace_overrides`](crate::RateLimiter::replace_overrides).
    pub fn watch(mut self, watch: bool) -> Self {
        self.is_watched = watch;
        self
    }

    /// What messages call these overrides.
    pub(super) fn source_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "the overrides".to_owned(), |(path, _)| file_name(path))
    }
}
