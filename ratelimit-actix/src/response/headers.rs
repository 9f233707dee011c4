//! Header fields from quotas: pure functions, one for each style, that need no request and no clock.

mod draft_06;
mod draft_11;
mod legacy;
mod number;
mod unique_names;
mod wait;

use actix_web::http::header::{HeaderMap, HeaderName};
use smallvec::SmallVec;

pub(crate) use self::number::number;
pub(crate) use self::unique_names::unique_names;
pub(crate) use self::wait::{retry_after, retry_after_seconds};
use super::header_style::HeaderStyle;
use crate::quotas::Quota;

/// The names of the fields of `style`.
pub(crate) fn field_names(style: HeaderStyle) -> &'static [HeaderName] {
    match style {
        HeaderStyle::LegacyUnix | HeaderStyle::LegacyDelta => &legacy::NAMES,
        HeaderStyle::Draft06 => &draft_06::NAMES,
        HeaderStyle::Draft11 => &draft_11::NAMES,
    }
}

/// Sets the fields of `styles`, if there is a quota to tell. Existing fields of the same names are replaced: they would contradict what is counted.
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
        let quotas = if style.tells_slots() { quotas } else { rates };
        match style {
            HeaderStyle::LegacyUnix => legacy::fields(quotas, legacy::Reset::UnixSeconds, &mut set),
            HeaderStyle::LegacyDelta => legacy::fields(quotas, legacy::Reset::DeltaSeconds, &mut set),
            HeaderStyle::Draft06 => draft_06::fields(quotas, &mut set),
            HeaderStyle::Draft11 => draft_11::fields(quotas, &mut set),
        }
    }
}

#[cfg(test)]
mod tests;
