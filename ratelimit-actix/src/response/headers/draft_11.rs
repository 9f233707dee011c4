//! The fields of draft-ietf-httpapi-ratelimit-headers-11: structured fields (RFC 9651) in canonical form.
//!
//! `t` is the time for which `r` units have to last. For a limit that denied the request, it is the wait
//! until the request passes. With nothing left, it is the wait for one more unit. Otherwise it is the wait
//! for the full quota, at most one window, although a sliding window takes longer to forget all units. The
//! draft requires that `Retry-After` is not earlier than any `t`, so an admitting limit with a later one has
//! no `t`.
//!
//! Slots of a concurrency limit have the unit `concurrent-requests`, no window, and no `t`: no process knows
//! when one is freed.

use actix_web::http::header::{HeaderName, HeaderValue};

use super::values::{
    push_parameter, retry_after, retry_after_seconds, seconds, unique_names, window_seconds,
};
use crate::quotas::Quota;

pub(super) static FIELDS: [HeaderName; 2] = [LIMIT, POLICY];

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
        push_name(&mut policies, &name);
        push_parameter(&mut policies, "q", outcome.capacity());
        if !quota.is_rate() {
            policies.push_str(r#";qu="concurrent-requests""#);
            continue;
        }
        let wait = outcome.available_after();
        let t = match outcome.retry_after() {
            Some(_) => retry_after_seconds(wait),
            None if outcome.remaining() == 0 => seconds(wait),
            None => seconds(wait.min(quota.effective_window())),
        };
        if retry_after.is_none_or(|retry_after| t <= retry_after) {
            push_parameter(&mut limits, "t", t);
        }
        if let Some(window) = window_seconds(quota) {
            push_parameter(&mut policies, "w", window);
        }
    }
    // Cannot fail: names of policies are printable ASCII.
    if let (Ok(limits), Ok(policies)) = (HeaderValue::try_from(limits), HeaderValue::try_from(policies)) {
        set(LIMIT, limits);
        set(POLICY, policies);
    }
}

/// Starts the next member of a list. Names of policies contain no quotes or backslashes, so nothing needs
/// escaping.
fn push_name(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push_str(", ");
    }
    list.push('"');
    list.push_str(name);
    list.push('"');
}
