//! The fields of draft-ietf-httpapi-ratelimit-headers-06, which some clients still read.

use actix_web::http::header::{HeaderName, HeaderValue};

use super::number::{number, recurring};
use super::{push_parameter, seconds, window_seconds};
use crate::quotas::{Quota, tightest};

pub(super) static NAMES: [HeaderName; 4] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
    HeaderName::from_static("ratelimit-policy"),
];

/// The tightest limit in three numbers, and the quotas of all with their windows.
pub(super) fn fields(quotas: &[&Quota], set: &mut impl FnMut(&HeaderName, HeaderValue)) {
    let Some(quota) = tightest(quotas) else { return };
    let [limit, remaining, reset, policy] = &NAMES;
    let outcome = quota.outcome();
    set(limit, recurring(outcome.limit()));
    set(remaining, number(outcome.remaining()));
    set(reset, recurring(seconds(outcome.reset_after())));
    if let Ok(policies) = HeaderValue::try_from(policies(quotas)) {
        set(policy, policies);
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
