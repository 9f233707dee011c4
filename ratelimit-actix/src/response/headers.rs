//! Header fields from quotas: the choice of fields, and pure functions that make them, without a request or a
//! clock.

mod draft_11;
mod values;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use ratelimit_core::__private_0_1::PrivateOutcome as _;
use smallvec::SmallVec;

pub(crate) use self::values::{number, retry_after, retry_after_seconds, unique_names};
use self::values::{push_parameter, seconds, unix_seconds, window_seconds};
use crate::quotas::{Quota, tightest};

// Where they are written, constants are copied without a call. `field_names` needs statics.

/// `X-RateLimit-*`: sent by most services and defined by no document, hence the two meanings of `Reset`.
const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// The fields of draft-ietf-httpapi-ratelimit-headers-06, for clients that still read them.
const DRAFT_06: [HeaderName; 4] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
    HeaderName::from_static("ratelimit-policy"),
];

static LEGACY_FIELDS: [HeaderName; 3] = LEGACY;
static DRAFT_06_FIELDS: [HeaderName; 4] = DRAFT_06;

/// The names of the fields of `style`.
pub(crate) fn field_names(style: HeaderStyle) -> &'static [HeaderName] {
    match style {
        HeaderStyle::LegacyUnix | HeaderStyle::LegacyDelta => &LEGACY_FIELDS,
        HeaderStyle::Draft06 => &DRAFT_06_FIELDS,
        HeaderStyle::Draft11 => &draft_11::FIELDS,
    }
}

/// Sets the fields of `styles`, if there is a quota to show. Existing fields of the same names are replaced:
/// they would contradict what is counted.
pub(crate) fn write(styles: &[HeaderStyle], quotas: &[&Quota], headers: &mut HeaderMap) {
    if quotas.is_empty() {
        return;
    }
    let only_rates: SmallVec<[&Quota; 4]>;
    let rates = if quotas.iter().any(|quota| !quota.is_rate()) {
        only_rates = quotas.iter().copied().filter(|quota| quota.is_rate()).collect();
        &only_rates
    } else {
        quotas
    };
    // A table that grows moves all its fields, and they are large.
    headers.reserve(styles.iter().map(|style| field_names(*style).len()).sum());
    let mut set = |name, value| {
        headers.insert(name, value);
    };
    for style in styles {
        let quotas = if style.shows_slots() { quotas } else { rates };
        match style {
            HeaderStyle::LegacyUnix => {
                let unix = |quota: &Quota| unix_seconds(quota.outcome().available_at());
                fields_of_tightest(quotas, LEGACY, unix, &mut set);
            }
            HeaderStyle::LegacyDelta => fields_of_tightest(quotas, LEGACY, wait, &mut set),
            HeaderStyle::Draft06 => {
                let [limit, remaining, reset, policy] = DRAFT_06;
                fields_of_tightest(quotas, [limit, remaining, reset], wait, &mut set);
                if let (false, Ok(policies)) = (quotas.is_empty(), HeaderValue::try_from(policies(quotas))) {
                    set(policy, policies);
                }
            }
            HeaderStyle::Draft11 => draft_11::fields(quotas, &mut set),
        }
    }
}

#[cfg(test)]
mod tests;

/// The quota of the tightest limit, what is left of it, and when more is available.
fn fields_of_tightest(
    quotas: &[&Quota],
    [limit, remaining, reset]: [HeaderName; 3],
    resets: impl Fn(&Quota) -> u64,
    set: &mut impl FnMut(HeaderName, HeaderValue),
) {
    let Some(quota) = tightest(quotas) else { return };
    let outcome = quota.outcome();
    set(limit, values::limit(outcome.capacity()));
    set(remaining, number(outcome.remaining()));
    set(reset, values::reset(resets(quota)));
}

/// The wait for more, in whole seconds.
fn wait(quota: &Quota) -> u64 {
    seconds(quota.outcome().available_after())
}

/// The quotas and windows of all limits, for draft 6.
fn policies(quotas: &[&Quota]) -> String {
    let mut list = String::new();
    for quota in quotas {
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(itoa::Buffer::new().format(quota.outcome().capacity()));
        if let Some(window) = window_seconds(quota) {
            push_parameter(&mut list, "w", window);
        }
    }
    list
}

/// The header fields that report a quota to the client.
///
/// Several styles can be sent at once, see
/// [`RateLimitConfigBuilder::headers`](crate::RateLimitConfigBuilder::headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` of the tightest limit.
    ///
    /// `Reset` is an instant in Unix seconds, rounded up. If this limit denied the request, the request
    /// passes then. If `Remaining` is 0, one more unit is available then. Otherwise the full quota is back
    /// then. A client that waits until `Reset` passes, if no other request is charged meanwhile.
    LegacyUnix,
    /// The fields of [`LegacyUnix`](Self::LegacyUnix), with `Reset` as a wait in seconds, rounded up.
    LegacyDelta,
    /// Draft 6 of the IETF's fields: `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of the
    /// tightest limit, and `RateLimit-Policy` with all limits. `Reset` is a wait in seconds, rounded up.
    Draft06,
    /// Draft 11 of the IETF's fields: `RateLimit` and `RateLimit-Policy`, each with all limits by name.
    ///
    /// The parameter `t` is the wait of each limit in seconds, rounded up; at most one window while units are
    /// left. This is a draft and not a standard, and may change again.
    ///
    /// The only style that reports the slots of concurrency limits: with the unit `concurrent-requests`,
    /// without `t`.
    Draft11,
}

impl HeaderStyle {
    /// Whether the style shows the slots of concurrency limits. The other styles have no word for them: a
    /// quota without a time would stop clients that may go on.
    pub(crate) const fn shows_slots(self) -> bool {
        match self {
            Self::LegacyUnix | Self::LegacyDelta | Self::Draft06 => false,
            Self::Draft11 => true,
        }
    }
}

/// One style, where several may be passed: `headers(HeaderStyle::Draft11)`.
impl IntoIterator for HeaderStyle {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}
