//! Names by which a client can tell the limits of one answer apart.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::quotas::Quota;

/// The name of each quota. The fields and the problem's `violated-policies` need them to be different, but two
/// limits of a handler may have the same, for two kinds of callers for example: the second then gets `-2` after it, the
/// third `-3`.
pub(crate) fn unique_names<'a>(quotas: &[&'a Quota]) -> SmallVec<[Cow<'a, str>; 4]> {
    let mut names: SmallVec<[Cow<'a, str>; 4]> = SmallVec::new();
    for (position, quota) in quotas.iter().enumerate() {
        let name = quota.name();
        let before = quotas[..position].iter().filter(|other| other.name() == name).count();
        if before == 0 {
            names.push(Cow::Borrowed(name));
            continue;
        }
        // Somebody may have called a policy `x-2`.
        let mut candidates = (before + 1..).map(|number| Cow::Owned(format!("{name}-{number}")));
        let is_free = |candidate: &Cow<'_, str>| {
            !names.contains(candidate) && quotas.iter().all(|other| other.name() != candidate.as_ref())
        };
        names.extend(candidates.find(is_free));
    }
    names
}
