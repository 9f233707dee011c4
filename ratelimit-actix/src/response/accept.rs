//! The `Accept` header field: how much a client wants a media type.

use actix_web::http::header::{ACCEPT, HeaderMap};

/// Most media ranges that are read. A rejection is not worth more work.
const MAX_RANGES: usize = 32;

/// The quality of `content_type` in thousandths: 0 for a type that the client does not name, 1000 without the field.
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
