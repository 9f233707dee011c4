//! The deadline of one request.

use std::time::Duration;

use tokio::time::Instant;

use super::error::CallError;

/// Start of a request, and its longest wait for the reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestDeadline {
    /// Also the request's place in the order of a queue.
    pub(super) since: Instant,
    pub(super) limit: Duration,
}

impl RequestDeadline {
    /// A deadline `limit` from now.
    pub(super) fn after(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// The instant of the deadline.
    pub(super) fn instant(self) -> Instant {
        self.since + self.limit
    }

    /// The error of a request that hit its deadline.
    pub(super) const fn timeout_error(self) -> CallError {
        CallError::Timeout(self.limit)
    }
}
