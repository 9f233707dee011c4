//! Overrides in requests: the plan, a name for which overrides may have a row; and the limits of all attributes, as overrides are
//! checked against them.

use std::borrow::Cow;

use ratelimit_core::InForce;
use ratelimit_core::overrides::{Field, Origin};

use crate::handler::limit::Computed;

/// Whether `max` of the numbers in force means something: overrides may replace a computed one.
pub(crate) fn has_max(computed: Computed, in_force: &InForce<'_>) -> bool {
    !computed.max || in_force.origin_of(Field::Max) != Origin::Program
}

/// What a request's `plan` returned. `None` without a plan.
#[derive(Clone, Debug, Default)]
pub struct Plan(Option<Box<str>>);

impl Plan {
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The name of a plan: what a function given as `plan = ..` may return.
///
/// A `&str`, `String` or `Cow<str>`, or an `Option` of these: `None` is no plan.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a plan",
    label = "returns `{Self}`",
    note = "a function for `plan = ..` returns a `&str`, `String` or `Cow<str>`, or an `Option` of these"
)]
pub trait IntoPlan {
    /// Converts the value.
    fn into_plan(self) -> Plan;
}

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl IntoPlan for $text {
            fn into_plan(self) -> Plan {
                Plan(Some(Cow::from(self).into()))
            }
        }
    )*};
}

texts!(&str, &String, String, Cow<'_, str>);

impl<P: IntoPlan> IntoPlan for Option<P> {
    fn into_plan(self) -> Plan {
        self.map_or_else(Plan::default, P::into_plan)
    }
}

/// The limits of all attributes.
#[cfg(feature = "overrides")]
mod declared {
    use ratelimit_core::__private_0_1::{DeclaredLimits, KnownLimit};

    use crate::address::Ipv6Prefix;
    use crate::caller::Caller;
    use crate::caller::notation::NotationError;
    use crate::handler::registry::{DeclaredLimit, declared_limits};

    inventory::submit! { DeclaredLimits { limits, caller: partition } }

    fn limits() -> Vec<KnownLimit> {
        declared_limits().iter().map(known).collect()
    }

    /// The partition of the caller that a row names. An IPv6 address without a prefix is that of its /64.
    fn partition(row: &str) -> Result<Vec<u8>, String> {
        let caller = Caller::from_notation(row, |address| Ipv6Prefix::DEFAULT.group(address));
        let partition =
            caller.and_then(|caller| Ok(caller.partition().ok_or(NotationError::Empty)?.to_vec()));
        partition.map_err(|error| error.to_string())
    }

    fn known(limit: &DeclaredLimit) -> KnownLimit {
        KnownLimit {
            policy: limit.policy().clone(),
            place: Some(format!("{} ({}:{})", limit.path(), limit.file(), limit.line())),
            cost: limit.cost(),
            computes_max: limit.max().is_none(),
            has_plan: limit.has_plan(),
            encodes_callers: true,
        }
    }
}
