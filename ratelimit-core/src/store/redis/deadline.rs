//! How long a request waits for its reply.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Failure;

/// How long a request waits for its reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// When the request was made: its place in the order.
    pub(super) since: Instant,
    pub(super) limit: Duration,
}

impl Patience {
    /// From now on.
    pub(super) fn new(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    pub(super) fn until(self) -> Instant {
        self.since + self.limit
    }

    /// The error of a request that hit its deadline.
    pub(super) const fn too_late(self) -> Failure {
        Failure::Timeout(self.limit)
    }
}
