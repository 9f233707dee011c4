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

    /// Whether overrides make the same rows and the same mistakes of both.
    pub(super) fn has_rows_of(&self, other: &Self) -> bool {
        let numbers = |limit: &Self| (limit.cost, limit.computes_max, limit.has_plan, limit.encodes_callers);
        self.policy == other.policy && numbers(self) == numbers(other)
    }
}

/// A crate that declares limits.
#[derive(Debug)]
pub struct DeclaredLimits {
    /// Lists its limits.
    pub limits: fn() -> Vec<KnownLimit>,
    /// The partition of the caller that a row names. The error says what was expected, and does not have the name.
    pub caller: fn(&str) -> Result<Vec<u8>, String>,
}

inventory::collect!(DeclaredLimits);

/// Every declared limit, and the policies that were given.
pub(super) fn known_limits(given: &[KnownLimit]) -> Vec<KnownLimit> {
    let declared = inventory::iter::<DeclaredLimits>().flat_map(|crate_| (crate_.limits)());
    declared.chain(given.iter().cloned()).collect()
}

/// The kind of a caller that is a partition, as `check` is given it.
const PARTITION: &str = "partition ";

/// What a program without other kinds expects.
const EXPECTED: &str = "expected `partition` before what `check` is given, such as `partition tenant-42`";

/// What a program with other kinds expects as well, for a policy that the builder was given.
const OR_PARTITION: &str = "`partition tenant-42` for a policy that the application checks itself";

/// The partition of the caller that a row names, or what was expected.
///
/// A policy that the builder was given may be one of middleware, one that the application checks itself, or both. So it has rows of
/// every kind.
pub(super) fn partition(caller: &str, limit: &KnownLimit) -> Result<Vec<u8>, String> {
    match caller.strip_prefix(PARTITION) {
        Some(_) if limit.encodes_callers => Err(
            "`partition` is for policies that the application checks; expected the kind that `by` returns"
                .to_owned(),
        ),
        Some(partition) => Ok(partition.into()),
        None => {
            let mut expected = EXPECTED.to_owned();
            for crate_ in inventory::iter::<DeclaredLimits> {
                match (crate_.caller)(caller) {
                    Ok(partition) => return Ok(partition),
                    Err(error) if limit.encodes_callers => expected = error,
                    Err(error) => expected = format!("{error}; {OR_PARTITION}"),
                }
            }
            Err(expected)
        }
    }
}
