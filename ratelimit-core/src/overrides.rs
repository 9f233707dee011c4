//! Overrides: other numbers for the limits of a program, from a file, a text or code, without a new build.

mod check;
pub(crate) mod current;
mod error;
mod file;
mod in_force;
pub(crate) mod known;
mod lines;
mod read;
mod row;
mod set;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use self::current::Current;
pub use self::error::{OverridesError, Problem};
pub use self::file::MAX_FILE_LEN;
pub use self::in_force::{Field, InForce, Origin};
pub use self::row::Override;
pub use self::set::{LimitOverride, Overrides};
