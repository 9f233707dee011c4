//! The limits that overrides can name: those that crates declare at link time, and policies that are given to the builder.

use std::borrow::Borrow;

use crate::policy::Policy;

/// A limit of the program, as overrides are checked against it.
#[derive(Clone, Debug)]
pub struct KnownLimit {
    /// Its policy as the program has it.
    pub policy: Policy,
    /// Where it is in the source; for messages.
    pub place: Option<String>,
    /// Units that a request costs. `None` if that is computed for each request.
    pub cost: Option<u64>,
    /// Whether `max` is computed for each request.
    pub computes_max: bool,
    /// Whether requests have plans.
    pub has_plan: bool,
    /// Whether callers are encoded by the crate that declares it, and not the partition as it is.
    pub encodes_callers: bool,
}

impl KnownLimit {
    /// A policy that is given to the builder.
    pub(crate) fn of_policy(policy: impl Borrow<Policy>) -> Self {
        Self {
            policy: policy.borrow().clone(),
            place: None,
            cost: None,
            computes_max: false,
            has_plan: true,
            encodes_callers: false,
        }
    }
}

/// A crate that declares limits.
#[derive(Debug)]
pub struct DeclaredLimits {
    /// Lists its limits.
    pub limits: fn() -> Vec<KnownLimit>,
    /// Adds every partition for which the text of a caller's row can stand. Returns false if there are too many.
    pub callers: fn(&str, &mut Vec<Vec<u8>>) -> bool,
}

inventory::collect!(DeclaredLimits);

/// Every declared limit, and the policies that were given.
pub(super) fn known_limits(given: &[KnownLimit]) -> Vec<KnownLimit> {
    let declared = inventory::iter::<DeclaredLimits>().flat_map(|crate_| (crate_.limits)());
    declared.chain(given.iter().cloned()).collect()
}

/// The partitions for which the text of a caller's row stands; first the text as it is. `None` if there are too many.
pub(super) fn partitions(text: &str) -> Option<Vec<Vec<u8>>> {
    let mut partitions = vec![text.as_bytes().to_vec()];
    let mut crates = inventory::iter::<DeclaredLimits>.into_iter();
    crates.all(|crate_| (crate_.callers)(text, &mut partitions)).then_some(partitions)
}
