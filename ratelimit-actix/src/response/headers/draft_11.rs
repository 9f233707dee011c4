//! The fields of draft-ietf-httpapi-ratelimit-headers-11: structured fields (RFC 9651) in canonical form.
//!
//! `t` is how long `r` has to last: until one more unit passes where nothing is left, otherwise until the full quota is
//! back, and then at most a window, although a sliding one takes longer to forget all. For a violated limit it is when the
//! request passes. The draft wants `Retry-After` not to be earlier than any `t`; of the limits that were not violated, those
//! for which it would be therefore have none.

use actix_web::http::header::{HeaderName, HeaderValue};

use super::number::push_parameter;
use super::unique_names::unique_names;
use super::wait::{retry_after, retry_after_seconds, seconds, window_seconds};
use crate::quotas::Quota;

pub(super) static NAMES: [HeaderName; 2] = [LIMIT, POLICY];

const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

pub(super) fn fields(quotas: &[&Quota], set: &mut impl FnMut(HeaderName, HeaderValue)) {
    if quotas.is_empty() {
        return;
    }
    let retry_after = retry_after(quotas).map(retry_after_seconds);
    let (mut limits, mut policies) = (String::new(), String::new());
    for (quota, name) in quotas.iter().zip(unique_names(quotas)) {
        let outcome = quota.outcome();
        push_name(&mut limits, &name);
        push_parameter(&mut limits, "r", outcome.remaining());
        let wait = outcome.available_after();
        let t = match outcome.retry_after() {
            Some(_) => retry_after_seconds(wait),
            None if outcome.remaining() == 0 => seconds(wait),
            None => seconds(wait.min(quota.effective_window())),
        };
        if retry_after.is_none_or(|retry_after| t <= retry_after) {
            push_parameter(&mut limits, "t", t);
        }
        push_name(&mut policies, &name);
        push_parameter(&mut policies, "q", outcome.limit());
        if let Some(window) = window_seconds(quota) {
            push_parameter(&mut policies, "w", window);
        }
    }
    // Names of policies are printable ASCII, so these cannot fail.
    if let (Ok(limits), Ok(policies)) = (HeaderValue::try_from(limits), HeaderValue::try_from(policies)) {
        set(LIMIT, limits);
        set(POLICY, policies);
    }
}

/// Begins the next member of the list. A policy's name has no quotes and backslashes, so nothing is escaped.
fn push_name(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list.push('"');
    list.push_str(name);
    list.push('"');
}
