//! `X-RateLimit-*`: sent by most services and defined by no document, hence the two meanings of `Reset`.

use actix_web::http::header::{HeaderName, HeaderValue};

use super::number::{self, number};
use super::wait::{seconds, unix_seconds};
use crate::quotas::{Quota, tightest};

/// The quota of the tightest limit, what is left of it, and when more is available.
pub(super) static NAMES: [HeaderName; 3] = [LIMIT, REMAINING, RESET];

// Constants are copied without a call, statics are cloned.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What `X-RateLimit-Reset` means.
#[derive(Clone, Copy)]
pub(super) enum Reset {
    UnixSeconds,
    DeltaSeconds,
}

pub(super) fn fields(quotas: &[&Quota], reset: Reset, set: &mut impl FnMut(HeaderName, HeaderValue)) {
    let Some(quota) = tightest(quotas) else { return };
    let outcome = quota.outcome();
    let reset = match reset {
        Reset::UnixSeconds => unix_seconds(quota.available_at()),
        Reset::DeltaSeconds => seconds(outcome.available_after()),
    };
    let (limit, remaining, reset) =
        (number::limit(outcome.limit()), number(outcome.remaining()), number::reset(reset));
    set(LIMIT, limit);
    set(REMAINING, remaining);
    set(RESET, reset);
}
