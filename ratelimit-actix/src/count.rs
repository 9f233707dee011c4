//! Conditions on the status of a response, for [`Limit::count`](crate::Limit::count): those that `count =
//! "failures"` and `count = "successes"` name in the attribute.

pub use crate::written_limit::count::{failures, successes};
