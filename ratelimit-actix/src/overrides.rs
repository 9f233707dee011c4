//! Overrides in requests: plans, and what the core needs to know of attributes.

#[cfg(feature = "overrides")]
mod declared;
pub(crate) mod plan;

use ratelimit_core::InForce;
use ratelimit_core::overrides::{Field, Origin};

use crate::handler::computed::Computed;

/// Whether `max` of the numbers in force means something: overrides may replace a computed one.
pub(crate) fn has_max(computed: Computed, in_force: &InForce<'_>) -> bool {
    !computed.max || in_force.origin_of(Field::Max) != Origin::Program
}
