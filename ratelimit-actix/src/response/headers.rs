//! Header fields from quotas: pure functions, one for each style, without a request and without a clock.

mod draft_06;
mod draft_11;
mod legacy;
mod number;
mod unique_names;

use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName};
use ratelimit_core::Outcome;

pub(crate) use self::number::number;
pub(crate) use self::unique_names::unique_names;
use crate::quotas::Quota;

/// The fields in which a client is told its quota.
///
/// Several can be sent at once, see [`RateLimitConfigBuilder::headers`](crate::RateLimitConfigBuilder::headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` of the tightest limit. `Reset` is an instant in
    /// Unix seconds, rounded up: when the request passes if this limit has denied it; when one more unit passes while
    /// `Remaining` is 0; otherwise when the full quota is back. A client that waits for it passes if no other request comes.
    LegacyUnix,
    /// The same; `Reset` is the wait in seconds, rounded up.
    LegacyDelta,
    /// Draft 6 of the IETF's fields: `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` (the same wait in
    /// seconds, rounded up) of the tightest limit, and `RateLimit-Policy` with all.
    Draft06,
    /// Draft 11 of the IETF's fields: `RateLimit` and `RateLimit-Policy`, each with all limits by their names; `t` is the
    /// same wait, for each limit, and at most a window while units are left. A draft, not a standard: it may change again.
    Draft11,
}

impl HeaderStyle {
    /// The names of its fields.
    pub(crate) fn names(self) -> &'static [HeaderName] {
        match self {
            Self::LegacyUnix | Self::LegacyDelta => &legacy::NAMES,
            Self::Draft06 => &draft_06::NAMES,
            Self::Draft11 => &draft_11::NAMES,
        }
    }
}

/// Sets the fields of `styles`. Those of the same name that are there already are replaced: they would contradict what
/// is counted.
pub(crate) fn write(styles: &[HeaderStyle], quotas: &[&Quota], headers: &mut HeaderMap) {
    // A table that grows moves all its fields, which are large.
    headers.reserve(styles.iter().map(|style| style.names().len()).sum());
    let mut set = |name, value| {
        headers.insert(name, value);
    };
    for style in styles {
        match style {
            HeaderStyle::LegacyUnix => legacy::fields(quotas, legacy::Reset::UnixSeconds, &mut set),
            HeaderStyle::LegacyDelta => legacy::fields(quotas, legacy::Reset::DeltaSeconds, &mut set),
            HeaderStyle::Draft06 => draft_06::fields(quotas, &mut set),
            HeaderStyle::Draft11 => draft_11::fields(quotas, &mut set),
        }
    }
}

/// How long a client that was denied has to wait, from the denial: until all limits that it was told of let one request pass,
/// also those that have let this one pass and have nothing left. `None` when it was not denied, or can never pass.
pub(crate) fn retry_after(quotas: &[&Quota]) -> Option<Duration> {
    let denied = || quotas.iter().map(|quota| quota.outcome()).filter(|outcome| !outcome.is_allowed());
    let at = denied().map(Outcome::at).max()?.as_micros();
    if denied().any(|outcome| outcome.retry_after().is_none()) {
        return None;
    }
    let ends = quotas.iter().filter(|quota| quota.is_blocked()).map(|quota| quota.available_at());
    Some(Duration::from_micros(ends.max()?.saturating_sub(at)))
}

/// The value of `Retry-After`: whole seconds, rounded up so that nobody comes back too early, and at least 1.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    seconds(wait).max(1)
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    let begun = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(begun)
}

/// The window as a parameter: whole seconds, rounded up; `None` below one second, which the drafts cannot say.
fn window_seconds(quota: &Quota) -> Option<u64> {
    let window = quota.effective_window();
    (window >= Duration::from_secs(1)).then(|| seconds(window))
}

/// Appends `;name=number`.
fn push_parameter(text: &mut String, name: &str, number: u64) {
    text.push(';');
    text.push_str(name);
    text.push('=');
    text.push_str(itoa::Buffer::new().format(number));
}

#[cfg(test)]
mod tests;
