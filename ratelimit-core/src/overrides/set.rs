//! A set of overrides, as a file, a text or code gives it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::current::Current;
use super::error::OverridesError;
use super::row::Override;
use super::{file, read, watch};

/// Other numbers for limits of the program, by the names of the limits.
///
/// The numbers come from a file, a text in the same form, or code. They are checked as a whole against all limits of the program
/// when they are given to [`RateLimiterBuilder::overrides`](crate::RateLimiterBuilder::overrides) or
/// [`RateLimiter::replace_overrides`](crate::RateLimiter::replace_overrides): unknown names, numbers out of their bounds, and
/// limits that no request could pass are errors.
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
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing until it is part of overrides"]
pub struct LimitOverride {
    pub(super) row: Override,
    pub(super) plans: BTreeMap<String, Override>,
    pub(super) callers: BTreeMap<String, Override>,
}

impl From<Override> for LimitOverride {
    /// For all callers.
    fn from(row: Override) -> Self {
        Self { row, ..Self::default() }
    }
}

impl LimitOverride {
    /// Without numbers for all callers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the row of a plan: for requests for which `plan` in the attribute returns this name. It replaces an earlier row.
    pub fn plan(mut self, name: impl Into<String>, row: Override) -> Self {
        self.plans.insert(name.into(), row);
        self
    }

    /// Adds the row of a caller. It replaces an earlier row. Where the caller has a row, that of its plan does not apply.
    ///
    /// The text has a kind, as in a file: `partition tenant-42` for what `check` is given, and for limits of `ratelimit-actix`
    /// what `by` returns, such as `text acct-42`, `number 42` or `address 203.0.113.7`.
    pub fn caller(mut self, text: impl Into<String>, row: Override) -> Self {
        self.callers.insert(text.into(), row);
        self
    }
}

impl Overrides {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the overrides of a limit. They replace earlier ones of this limit.
    ///
    /// A text such as `"shop"` is the name of a limit that `declared_limits()` of `ratelimit-actix` lists, or of a policy that is
    /// given to [`RateLimiterBuilder::policies`](crate::RateLimiterBuilder::policies).
    pub fn limit(mut self, name: impl Into<String>, overrides: impl Into<LimitOverride>) -> Self {
        self.limits.insert(name.into(), overrides.into());
        self
    }

    /// Reads a file. It is not read again without [`watch`](Self::watch).
    ///
    /// Reads on the calling thread: call it when the program starts.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no file, is longer than [`MAX_FILE_LEN`](super::MAX_FILE_LEN), does not end with a line
    /// break, or is not in the form above.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, OverridesError> {
        let path = path.as_ref();
        let text = file::read(path).map_err(|text| OverridesError::one(&file::name(path), text))?;
        Self::from_text_of(path, text)
    }

    /// Reads the text that a file has.
    pub(super) fn from_text_of(path: &Path, text: String) -> Result<Self, OverridesError> {
        let limits =
            read::limits(&text).map_err(|problems| OverridesError::new(&file::name(path), problems))?;
        Ok(Self { limits, file: Some((path.to_owned(), text)), is_watched: false })
    }

    /// Reads the file again whenever it changes, for as long as the limiter lives.
    ///
    /// A thread reads the file four times a second. New contents are in force at most 0.6 s after the last write to the file: the
    /// thread waits until two reads in a row are equal. Write them to another file and rename that, so that no read sees a part of
    /// them. Contents that cannot be used change nothing, such as those without a line break at their end; one line in the log
    /// and a metric tell why.
    ///
    /// It does nothing for overrides that are not from a file. Replace those by
    /// [`RateLimiter::replace_overrides`](crate::RateLimiter::replace_overrides).
    pub fn watch(mut self) -> Self {
        self.is_watched = true;
        self
    }

    /// Puts these in force, and begins to watch their file if they are to be watched. Ends the watch before.
    pub(crate) fn start(self, current: &Arc<Current>) -> Result<(), OverridesError> {
        // Before anything changes: a system without room for a thread keeps what it has.
        let thread = match &self.file {
            Some((path, text)) if self.is_watched => Some(watch::start(path.clone(), text.clone(), current)?),
            _ => None,
        };
        let number = current.replace(&self)?;
        if let Some(thread) = thread {
            thread.begin(number);
        }
        Ok(())
    }

    /// What messages call these overrides.
    pub(super) fn source_name(&self) -> String {
        self.file.as_ref().map_or_else(|| "the overrides".to_owned(), |(path, _)| file::name(path))
    }
}

impl FromStr for Overrides {
    type Err = OverridesError;

    /// Reads a text in the form of a file. It needs no line break at its end.
    fn from_str(text: &str) -> Result<Self, OverridesError> {
        let limits = read::limits(text).map_err(|problems| OverridesError::new("the overrides", problems))?;
        Ok(Self { limits, ..Self::default() })
    }
}
