//! Facts of a request that need no limit: its limiter, and the time it may wait.

pub(crate) mod deadline;
pub(crate) mod nearest_limiter;
