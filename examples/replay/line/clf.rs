//! The common log format and the combined one, which adds two header fields:
//! `192.0.2.1 - alice [10/Oct/2025:13:55:36 +0200] "GET /search?q=x HTTP/1.1" 200 512 "REFERER" "USER-AGENT"`.

use std::borrow::Cow;

use super::{Request, Unreadable, times, without_query};

const WHOLE: Unreadable = Unreadable(
    "a line such as `192.0.2.1 - - [10/Oct/2025:13:55:36 +0200] \"GET / HTTP/1.1\" 200 512`, or a JSON object",
);

/// The fields beside the time, the request line and the status.
#[derive(Debug)]
pub(super) struct Fields<'l> {
    ip: &'l str,
    user: &'l str,
    /// Referer and user agent of the combined format.
    headers: Option<(&'l str, &'l str)>,
}

pub(super) fn parse(line: &[u8]) -> Result<Request<'_>, Unreadable> {
    let line = str::from_utf8(line).map_err(|_| Unreadable("text in UTF-8"))?;
    let (ip, rest) = line.split_once(' ').ok_or(WHOLE)?;
    let (_, rest) = rest.split_once(' ').ok_or(WHOLE)?;
    let (user, rest) = rest.split_once(" [").ok_or(WHOLE)?;
    let (time, rest) = rest.split_once("] ").ok_or(WHOLE)?;
    let at = times::of_clf(time)?;
    let (request, rest) = quoted(rest).ok_or(WHOLE)?;
    let status = rest.trim_start().split(' ').next().unwrap_or_default();
    let status = status.parse().map_err(|_| Unreadable("a status such as 200 after the request"))?;
    let mut words = request.split(' ');
    // Bytes that were no HTTP reached no handler.
    let (Some(method), Some(target), Some(_)) = (words.next(), words.next(), words.next()) else {
        return Err(Unreadable("a request such as \"GET / HTTP/1.1\""));
    };
    let headers = rest.split_once('"').and_then(|(_, rest)| {
        let (referer, rest) = rest.split_once('"')?;
        Some((referer, quoted(rest.trim_start())?.0))
    });
    Ok(Request {
        at,
        method: Cow::Borrowed(method),
        path: Cow::Borrowed(without_query(target)),
        status: Some(status),
        fields: super::Fields::Clf(Fields { ip, user, headers }),
    })
}

/// A text in quotes, in which a backslash escapes the next character, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((&text[..end], &text[end + 1..]))
}

impl Fields<'_> {
    pub(super) fn named(&self, name: &str) -> Option<&str> {
        let value = match name {
            "ip" => self.ip,
            "user" => self.user,
            _ => return None,
        };
        (value != "-").then_some(value)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let value = match (name, self.headers?) {
            ("referer", (referer, _)) => referer,
            ("user-agent", (_, agent)) => agent,
            _ => return None,
        };
        (value != "-").then_some(value)
    }

    pub(super) fn known(&self) -> &'static str {
        match self.headers {
            Some(_) => "ip, field:user, header:referer, header:user-agent",
            None => "ip, field:user",
        }
    }
}
