//! A line of a log as a request.

mod clf;
mod json;
mod times;

use std::borrow::Cow;
use std::fmt;

use ratelimit_core::Timestamp;

/// What a line lacks, as the end of the sentence "expected ..".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(&'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

/// One request of a log.
#[derive(Debug)]
pub(crate) struct Request<'l> {
    /// By the clock of the log.
    pub(crate) at: Timestamp,
    pub(crate) method: Cow<'l, str>,
    /// Without the query.
    pub(crate) path: Cow<'l, str>,
    /// Of the answer; `None` if the log does not tell.
    pub(crate) status: Option<u16>,
    fields: Fields<'l>,
}

/// What else a line tells about a request.
#[derive(Debug)]
enum Fields<'l> {
    Clf(clf::Fields<'l>),
    Json(json::Fields),
}

impl<'l> Request<'l> {
    pub(crate) fn parse(line: &'l [u8]) -> Result<Self, Unreadable> {
        if line.first() == Some(&b'{') { json::parse(line) } else { clf::parse(line) }
    }

    /// The address of the client, or the name that the log has for it.
    pub(crate) fn client(&self) -> Option<Cow<'_, str>> {
        match &self.fields {
            Fields::Clf(fields) => fields.named("ip").map(Cow::Borrowed),
            Fields::Json(fields) => fields.client(),
        }
    }

    /// A field of the log by its name.
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.fields {
            Fields::Clf(fields) => fields.named(name).map(Cow::Borrowed),
            Fields::Json(fields) => fields.named(name),
        }
    }

    /// A header field of the request by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        match &self.fields {
            Fields::Clf(fields) => fields.header(name).map(Cow::Borrowed),
            Fields::Json(fields) => fields.header(name),
        }
    }

    /// What the line could have told about a caller, for a message.
    pub(crate) fn known(&self) -> String {
        match &self.fields {
            Fields::Clf(fields) => fields.known().to_owned(),
            Fields::Json(fields) => fields.known(),
        }
    }
}

/// The path of a request target.
fn without_query(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or(target)
}
