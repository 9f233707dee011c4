//! JSON lines: one object for each request, with the names that common servers use.

use std::borrow::Cow;

use ratelimit_core::Timestamp;
use serde_json::{Map, Value};

use super::{Request, Unreadable, times, without_query};

/// Names of the time, in the order in which they are tried; a dot leads into an object.
const TIMES: [&str; 7] = ["time", "timestamp", "ts", "@timestamp", "time_iso8601", "time_local", "msec"];
const CLIENTS: [&str; 8] = [
    "ip",
    "client_ip",
    "remote_addr",
    "remote_ip",
    "client",
    "host",
    "request.client_ip",
    "request.remote_ip",
];
const METHODS: [&str; 4] = ["method", "request_method", "request.method", "http.method"];
const PATHS: [&str; 7] = ["path", "uri", "request_uri", "url", "request.uri", "request.path", "http.path"];
const STATUSES: [&str; 4] = ["status", "status_code", "response.status", "http.status_code"];
/// A whole request line.
const LINE: &str = "request";
/// Objects that hold header fields.
const HEADERS: [&str; 3] = ["headers", "request_headers", "request.headers"];

/// The whole object.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

pub(super) fn parse(line: &[u8]) -> Result<Request<'static>, Unreadable> {
    let object = serde_json::from_slice(line).map_err(|_| Unreadable("a whole JSON object"))?;
    let fields = Fields(object);
    let at = fields.first(&TIMES).ok_or(Unreadable("a field `time`"))?;
    let at = time(at)?;
    let line = fields.find(LINE).and_then(Value::as_str).map(|line| line.split(' '));
    let mut line = line.into_iter().flatten();
    let (of_line, target_of_line) = (line.next(), line.next());
    let text = |names: &[&str]| fields.first(names).and_then(Value::as_str);
    let method = text(&METHODS).or(of_line).ok_or(Unreadable("a field `method`"))?.to_owned();
    let path = text(&PATHS).or(target_of_line).ok_or(Unreadable("a field `path`"))?;
    let path = without_query(path).to_owned();
    let status = fields.first(&STATUSES).and_then(|status| match status {
        Value::String(status) => status.parse().ok(),
        status => status.as_u64().and_then(|status| status.try_into().ok()),
    });
    Ok(Request { at, method: method.into(), path: path.into(), status, fields: super::Fields::Json(fields) })
}

fn time(value: &Value) -> Result<Timestamp, Unreadable> {
    match value {
        Value::String(text) => times::of_text(text),
        Value::Number(number) => times::of_number(&number.to_string()),
        _ => Err(times::EXPECTED),
    }
}

impl Fields {
    pub(super) fn client(&self) -> Option<Cow<'_, str>> {
        text(self.first(&CLIENTS)?)
    }

    pub(super) fn named(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.find(name)?)
    }

    /// A header field: in an object of them in any case, or as nginx names it.
    pub(super) fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut objects = HEADERS.iter().filter_map(|object| self.find(object)?.as_object());
        let value = objects
            .find_map(|object| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value);
        let underscored = || name.replace('-', "_");
        let value = value
            .or_else(|| self.0.get(name))
            .or_else(|| self.0.get(&format!("http_{}", underscored())))
            .or_else(|| self.0.get(&underscored()))?;
        text(value)
    }

    pub(super) fn known(&self) -> String {
        let names = self.0.keys().take(20).map(|name| format!("field:{name}"));
        names.collect::<Vec<_>>().join(", ")
    }

    fn first(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.find(name))
    }

    fn find(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let (outer, inner) = name.split_once('.')?;
        inner.split('.').try_fold(self.0.get(outer)?, |value, name| value.get(name))
    }
}

/// A value that can be a caller; the first of several.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if text.is_empty() || text == "-" => None,
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Array(values) => text(values.first()?),
        _ => None,
    }
}
