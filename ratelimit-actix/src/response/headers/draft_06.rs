//! The fields of draft-ietf-httpapi-ratelimit-headers-06, for clients that still read them.

use actix_web::http::header::{HeaderName, HeaderValue};

use super::number::{self, number, push_parameter};
use super::wait::{seconds, window_seconds};
use crate::quotas::{Quota, tightest};

pub(super) static NAMES: [HeaderName; 4] = [LIMIT, REMAINING, RESET, POLICY];

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Three numbers of the tightest limit, and the quotas and windows of all limits.
pub(super) fn fields(quotas: &[&Quota], set: &mut impl FnMut(HeaderName, HeaderValue)) {
    let Some(quota) = tightest(quotas) else { return };
    let outcome = quota.outcome();
    set(LIMIT, number::limit(outcome.limit()));
    set(REMAINING, number(outcome.remaining()));
    set(RESET, number::reset(seconds(outcome.available_after())));
    if let Ok(policies) = HeaderValue::try_from(policies(quotas)) {
        set(POLICY, policies);
    }
}

fn policies(quotas: &[&Quota]) -> String {
    let mut list = String::new();
    for quota in quotas {
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(itoa::Buffer::new().format(quota.outcome().limit()));
        if let Some(window) = window_seconds(quota) {
            push_parameter(&mut list, "w", window);
        }
    }
    list
}
