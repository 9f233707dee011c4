//! Overrides: other numbers for the limits of a program, from a file, a text or code, without a new build.
//!
//! Without the feature `overrides` there are none, and the numbers of the program are in force.

#[cfg(feature = "overrides")]
pub(crate) mod check;
#[cfg_attr(not(feature = "overrides"), path = "overrides/absent.rs")]
pub(crate) mod current;
#[cfg(feature = "overrides")]
mod error;
mod in_force;
#[cfg(feature = "overrides")]
mod read;
#[cfg(feature = "overrides")]
mod set;
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

pub(crate) use self::current::Current;
#[cfg(feature = "overrides")]
pub use self::error::{OverridesError, Problem};
pub use self::in_force::InForce;
#[doc(hidden)]
pub use self::in_force::OverridesStatus;
#[cfg(feature = "overrides")]
pub use self::set::{LimitOverride, MAX_FILE_LEN, Overrides};
pub use self::table::Origin;
pub use crate::policy::Field;
