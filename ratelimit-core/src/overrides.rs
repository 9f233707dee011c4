//! Overrides: other numbers for the limits of a program, from a file, a text or code, without a new build.
//!
//! Without the feature `overrides` there are none, and the numbers of the program are in force.

#[cfg(feature = "overrides")]
pub(crate) mod check;
#[cfg(feature = "overrides")]
mod current;
#[cfg(feature = "overrides")]
mod error;
#[cfg(feature = "overrides")]
mod file;
pub(crate) mod in_force;
#[cfg(feature = "overrides")]
mod known_policies;
#[cfg(feature = "overrides")]
mod read;
#[cfg(feature = "overrides")]
mod set;
#[cfg(feature = "overrides")]
pub(crate) mod shared_table;
#[cfg_attr(
    not(feature = "overrides"),
    allow(dead_code, unreachable_pub, reason = "only overrides have rows")
)]
pub(crate) mod table;
#[cfg(test)]
#[cfg(feature = "overrides")]
mod tests;
#[cfg(feature = "overrides")]
mod watch;
#[cfg(feature = "overrides")]
mod watches;

pub(crate) use self::current::Current;
#[cfg(feature = "overrides")]
pub use self::error::{OverridesError, Problem};
#[cfg(feature = "overrides")]
pub use self::file::MAX_FILE_LEN;
pub use self::in_force::InForce;
#[cfg(feature = "overrides")]
pub use self::set::{LimitOverride, Overrides};
pub use self::table::Origin;
pub use crate::policy::Field;

/// What requests see of overrides without the feature: none, and the compiler knows it.
#[cfg(not(feature = "overrides"))]
mod current {
    use super::in_force::OverridesStatus;
    use super::shared_table::OverridesGuard;
    use crate::policy::Policy;

    #[derive(Debug, Default)]
    pub(crate) struct Current;

    #[allow(clippy::unused_self, reason = "as with the feature")]
    impl Current {
        pub(crate) const fn guard(&self) -> OverridesGuard {
            OverridesGuard
        }

        pub(crate) const fn status(&self) -> Option<OverridesStatus> {
            None
        }

        pub(crate) const fn builder_policies(&self) -> Vec<Policy> {
            Vec::new()
        }
    }
}

/// As with the feature.
#[cfg(not(feature = "overrides"))]
pub(crate) mod shared_table {
    use super::InForce;
    use crate::policy::Policy;

    /// As with the feature.
    #[derive(Debug)]
    pub struct OverridesGuard;

    #[allow(clippy::unused_self, reason = "as with the feature")]
    impl OverridesGuard {
        /// `None`.
        pub const fn limit(&self, _: &Policy) -> Option<InForce<'_>> {
            None
        }
    }
}
