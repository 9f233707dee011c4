//! The error of a text that names no value of a setting.

use super::suggest::{list, nearest};

/// A text names no value of a setting: no [`Algorithm`](super::Algorithm), [`Mode`](super::Mode) or
/// [`OnError`](super::OnError).
///
/// The error says which names there are, and which one was probably meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {found:?} for `{setting}`: expected one of {}{}", list(.expected.iter().copied(), '"'), hint(*.meant))]
pub struct UnknownValueError {
    setting: &'static str,
    found: String,
    expected: Vec<&'static str>,
    meant: Option<&'static str>,
}

impl UnknownValueError {
    pub(crate) fn new(setting: &'static str, found: &str, expected: Vec<&'static str>) -> Self {
        let meant = nearest(found, expected.iter().copied());
        Self { setting, found: found.to_owned(), expected, meant }
    }

    /// Setting that has no such value: `algorithm`, `mode` or `on_error`.
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// Names that exist.
    pub fn expected(&self) -> &[&'static str] {
        &self.expected
    }

    /// Name that was probably meant.
    pub const fn suggestion(&self) -> Option<&'static str> {
        self.meant
    }
}

fn hint(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"))
}
