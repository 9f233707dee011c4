//! Bodies of responses to rejected requests, as the configuration or `Accept` chooses them. None contains
//! data that the client sent.

use std::fmt::{self, Write as _};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, HeaderMap, HeaderValue};

use crate::address::is_token;

/// The body of the response to a rejected request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyStyle {
    /// `{"error":"Too Many Requests","message":"Rate limit exceeded. Try again in 42
    /// seconds.","retryAfter":42}`
    #[default]
    Json,
    /// `application/problem+json` (RFC 9457), with the problem types of the IETF's draft: `quota-exceeded`
    /// with the `violated-policies`, and `temporary-reduced-capacity` for 503.
    Problem,
    /// The message alone, as `text/plain`.
    Text,
}

impl BodyStyle {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Problem, Self::Text];

    /// The media type of the body.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Problem => "application/problem+json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }

    /// The text of the body.
    pub(crate) fn render(self, info: &RejectionInfo<'_>) -> String {
        match self {
            Self::Json => json(info),
            Self::Problem => problem(info),
            Self::Text => format!("{}\n", info.message()),
        }
    }

    /// The style with the highest quality in `Accept`; among equals this one.
    pub(crate) fn by_accept(self, headers: &HeaderMap) -> Self {
        let mut best = (0, self);
        for style in [self].into_iter().chain(Self::ALL) {
            let quality = quality(headers, style.content_type());
            if quality > best.0 {
                best = (quality, style);
            }
        }
        best.1
    }
}

/// What the body of a rejection can say: the argument of
/// [`body_with`](crate::RateLimitConfigBuilder::body_with).
///
/// The function that renders a body gets one for each rejected request. It contains no data that the client
/// sent.
#[derive(Clone, Copy, Debug)]
pub struct RejectionInfo<'a> {
    pub(crate) status: StatusCode,
    /// The value of `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) violated: &'a [&'a str],
    /// How many requests may run at a time, if only slots are missing.
    pub(crate) at_a_time: Option<u64>,
}

impl RejectionInfo<'_> {
    /// 429 if a limit denied the request, 503 if the store did not answer, 400 if the request has no caller.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The value of `Retry-After`: whole seconds, from 1 to 2,147,483. `None` if another attempt is
    /// pointless, or if only [slots](Self::at_a_time) are missing.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after.map(Duration::from_secs)
    }

    /// The names of the policies that denied the request, as in the header fields.
    pub fn violated_policies(&self) -> &[&str] {
        self.violated
    }

    /// How many requests of the caller may run at a time, if that many run and nothing else denied the
    /// request. When the next request passes is unknown.
    pub fn at_a_time(&self) -> Option<u64> {
        self.at_a_time
    }

    /// One or two sentences for human readers.
    pub fn message(&self) -> String {
        let first = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "Rate limit exceeded.",
            StatusCode::SERVICE_UNAVAILABLE => "The service cannot answer right now.",
            _ => return "The request does not identify its caller.".into(),
        };
        match (self.retry_after, self.at_a_time) {
            (Some(1), _) => format!("{first} Try again in 1 second."),
            (Some(seconds), _) => format!("{first} Try again in {seconds} seconds."),
            (None, Some(1)) => "At most 1 request at a time. Try again when it has ended.".into(),
            (None, Some(max)) => {
                format!("At most {max} requests at a time. Try again when one of them has ended.")
            }
            (None, None) => format!("{first} This request costs more than the limit allows."),
        }
    }
}

fn json(info: &RejectionInfo<'_>) -> String {
    let reason = info.status.canonical_reason().unwrap_or_default();
    let mut body = format!(r#"{{"error":"{reason}","message":"{}""#, info.message());
    if let Some(seconds) = info.retry_after {
        // Writing to a `String` cannot fail.
        let _ = write!(body, r#","retryAfter":{seconds}"#);
    }
    body.push('}');
    body
}

fn problem(info: &RejectionInfo<'_>) -> String {
    const TYPES: &str = "https://iana.org/assignments/http-problem-types#";
    let status = info.status;
    let (kind, title) = match status {
        StatusCode::TOO_MANY_REQUESTS => (Some("quota-exceeded"), "Quota exceeded"),
        StatusCode::SERVICE_UNAVAILABLE => {
            (Some("temporary-reduced-capacity"), "Temporarily reduced capacity")
        }
        // RFC 9457: the title of a problem without a type is the reason phrase of its status.
        _ => (None, status.canonical_reason().unwrap_or_default()),
    };
    let mut body = match kind {
        Some(kind) => format!(r#"{{"type":"{TYPES}{kind}""#),
        None => String::from(r#"{"type":"about:blank""#),
    };
    let code = status.as_u16();
    let _ = write!(body, r#","title":"{title}","status":{code},"detail":"{}""#, info.message());
    if !info.violated.is_empty() {
        // Names of policies contain no quotes, backslashes or control characters.
        let _ = write!(body, r#","violated-policies":["{}"]"#, info.violated.join(r#"",""#));
    }
    body.push('}');
    body
}

/// A body that the application renders.
pub(crate) struct CustomBody {
    pub(crate) content_type: String,
    pub(crate) render: Box<dyn Fn(&RejectionInfo<'_>) -> String + Send + Sync>,
}

impl CustomBody {
    /// Whether the content type is a media type that a header field can have.
    pub(crate) fn is_valid(&self) -> bool {
        let is_media_type = self
            .content_type
            .split_once('/')
            .is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty() && kind.bytes().all(is_token));
        is_media_type && HeaderValue::from_str(&self.content_type).is_ok()
    }
}

impl fmt::Debug for CustomBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomBody").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

/// Most media ranges that are read. A rejection is not worth more work.
const MAX_RANGES: usize = 32;

/// The quality of `content_type` in thousandths: 0 for a type that the client does not name, 1000 without the
/// field.
pub(super) fn quality(headers: &HeaderMap, content_type: &str) -> u16 {
    let (media_type, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    let ranges = headers.get_all(ACCEPT).filter_map(|line| line.to_str().ok());
    let mut ranges = ranges.flat_map(|line| line.split(',')).take(MAX_RANGES).peekable();
    if ranges.peek().is_none() {
        return 1000;
    }
    let matching = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let specificity = match parts.next()? {
            "*/*" => 0,
            name if name.eq_ignore_ascii_case(media_type) => 2,
            name if is_wildcard_for(name, media_type) => 1,
            _ => return None,
        };
        let q = parts.find_map(|parameter| parameter.strip_prefix("q=").or(parameter.strip_prefix("Q=")));
        Some((specificity, q.map_or(Some(1000), thousandths)?))
    });
    // The most specific range decides, not the one with the highest quality.
    matching.max_by_key(|(specificity, _)| *specificity).map_or(0, |(_, quality)| quality)
}

/// Whether `range` is `type/*` with the type of `media_type`.
fn is_wildcard_for(range: &str, media_type: &str) -> bool {
    let kind = range.strip_suffix("/*").zip(media_type.split_once('/'));
    kind.is_some_and(|(kind, (expected, _))| kind.eq_ignore_ascii_case(expected))
}

/// Parses a quality value: `0` or `1`, with up to three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match whole {
        "1" if decimals.bytes().all(|byte| byte == b'0') => Some(1000),
        "0" => format!("{decimals:0<3}").parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::ACCEPT;

    use super::*;

    const DENIED: RejectionInfo<'static> = RejectionInfo {
        status: StatusCode::TOO_MANY_REQUESTS,
        retry_after: Some(42),
        violated: &["a", "a-2"],
        at_a_time: None,
    };

    #[test]
    fn a_problem_names_the_violated_policies() {
        let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"Rate limit exceeded. Try again in 42 seconds.","violated-policies":["a","a-2"]}"#;
        assert_eq!(BodyStyle::Problem.render(&DENIED), expected);
        let unavailable = RejectionInfo {
            status: StatusCode::SERVICE_UNAVAILABLE,
            retry_after: Some(1),
            violated: &[],
            ..DENIED
        };
        let expected = r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporarily reduced capacity","status":503,"detail":"The service cannot answer right now. Try again in 1 second."}"#;
        assert_eq!(BodyStyle::Problem.render(&unavailable), expected);
        let missing =
            RejectionInfo { status: StatusCode::BAD_REQUEST, retry_after: None, violated: &[], ..DENIED };
        let expected = r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request does not identify its caller."}"#;
        assert_eq!(BodyStyle::Problem.render(&missing), expected);
    }

    #[test]
    fn the_text_body_is_the_message() {
        assert_eq!(BodyStyle::Text.render(&DENIED), "Rate limit exceeded. Try again in 42 seconds.\n");
    }

    #[test]
    fn a_denial_for_want_of_slots_shows_no_wait() {
        let busy = |at_a_time| RejectionInfo { retry_after: None, at_a_time: Some(at_a_time), ..DENIED };
        let body = BodyStyle::Json.render(&busy(3));
        let expected = r#"{"error":"Too Many Requests","message":"At most 3 requests at a time. Try again when one of them has ended."}"#;
        assert_eq!(body, expected);
        let body = BodyStyle::Text.render(&busy(1));
        assert_eq!(body, "At most 1 request at a time. Try again when it has ended.\n");
        // The wait of a rate is known, and passes first.
        let both = RejectionInfo { retry_after: Some(42), ..busy(3) };
        assert_eq!(both.message(), DENIED.message());
    }

    #[test]
    fn accept_selects_the_style() {
        use BodyStyle::{Json, Problem, Text};
        let cases = [
            ("", Json),
            ("*/*", Json),
            ("text/html", Json),
            ("text/plain", Text),
            ("TEXT/plain;q=0.5", Text),
            ("text/*", Text),
            ("Text/*", Text),
            ("text/*x", Json),
            ("*/plain", Json),
            ("application/problem+json", Problem),
            ("application/*", Json),
            ("application/json;q=0.8, application/problem+json", Problem),
            ("application/json, application/problem+json", Json),
            ("*/*;q=0.1, text/plain;q=0.2", Text),
            ("application/json;q=0, */*", Problem),
            ("text/plain;q=1.5", Json),
            ("text/plain;q=nan", Json),
            (";;;,,,q=", Json),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.append(ACCEPT, HeaderValue::from_str(accept).unwrap());
            }
            assert_eq!(Json.by_accept(&headers), expected, "{accept:?}");
        }
        assert_eq!(Problem.by_accept(&HeaderMap::new()), Problem);
    }

    #[test]
    fn a_rejection_reads_no_more_than_32_media_ranges() {
        for (others, expected) in [(31, BodyStyle::Text), (32, BodyStyle::Json)] {
            let accept = "text/html,".repeat(others) + "text/plain";
            let mut headers = HeaderMap::new();
            headers.append(ACCEPT, HeaderValue::from_str(&accept).unwrap());
            assert_eq!(BodyStyle::Json.by_accept(&headers), expected, "behind {others}");
        }
    }
}
