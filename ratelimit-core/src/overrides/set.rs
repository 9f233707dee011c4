//! A set of overrides, from a file, a text or code; and reading a file that may be anything.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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

/// Longest file of overrides: 4 MiB.
pub const MAX_FILE_LEN: u64 = 4 * 1024 * 1024;

/// The name of a file in messages.
pub(super) fn file_name(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// The text of a file, or why there is none.
pub(super) fn read_file(path: &Path) -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot read the file: {error}");
    // Before it is opened, because opening a device may do something.
    expect_text(&fs::metadata(path).map_err(cannot)?)?;
    let file = open_file(path).map_err(cannot)?;
    // Another one may have taken its place.
    let found = file.metadata().map_err(cannot)?;
    expect_text(&found)?;
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // It may grow meanwhile.
    file.take(MAX_FILE_LEN + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_FILE_LEN {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| "expected UTF-8 text".to_owned())?;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(
            "the last line does not end with a line break, so the file may not be written to its end"
                .to_owned(),
        );
    }
    Ok(text)
}

fn too_long() -> String {
    format!("expected at most {MAX_FILE_LEN} bytes")
}

/// Whether this is a file that is not too long.
fn expect_text(found: &Metadata) -> Result<(), String> {
    if found.is_dir() {
        return Err("expected a file, found a directory".to_owned());
    }
    if !found.is_file() {
        return Err("expected a regular file".to_owned());
    }
    if found.len() > MAX_FILE_LEN {
        return Err(format!("{}, found {}", too_long(), found.len()));
    }
    Ok(())
}

/// Opens a file to read it. Does not wait for the other end of a named pipe, where the system allows that.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::OFlags;

        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    options.open(path)
}
