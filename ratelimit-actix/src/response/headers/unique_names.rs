//! Distinct names for the limits of one response.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::quotas::Quota;

/// The name of each quota, made distinct for header fields and `violated-policies`.
///
/// Limits of one handler may have the same name, for example for two kinds of callers. The second then gets the suffix `-2`,
/// the third `-3`.
pub(crate) fn unique_names<'a>(quotas: &[&'a Quota]) -> SmallVec<[Cow<'a, str>; 4]> {
    let mut names: SmallVec<[Cow<'a, str>; 4]> = SmallVec::new();
    for (position, quota) in quotas.iter().enumerate() {
        let name = quota.name();
        let before = quotas[..position].iter().filter(|other| other.name() == name).count();
        if before == 0 {
            names.push(Cow::Borrowed(name));
            continue;
        }
        // A policy may be named `x-2`.
        let mut candidates = (before + 1..).map(|number| Cow::Owned(format!("{name}-{number}")));
        let is_free = |candidate: &Cow<'_, str>| {
            !names.contains(candidate) && quotas.iter().all(|other| other.name() != candidate.as_ref())
        };
        names.extend(candidates.find(is_free));
    }
    names
}
