//! What the groups, lanes and supervisor of a store share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;

use super::attachments::Attachments;
use super::denial_cache::DenialCache;
use super::link::Link;
use super::protocol::Encoder;

/// What the groups, lanes and supervisor of a store share.
pub(super) struct Shared {
    pub(super) link: Link,
    /// Runtime of the store's own thread.
    pub(super) runtime: Handle,
    pub(super) encoder: Encoder,
    pub(super) denials: Arc<DenialCache>,
    pub(super) attachments: Attachments,
    /// Whether it was logged that a server refuses a worker its connection.
    pub(super) was_refused: AtomicBool,
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::breaker::Breaker;
    use super::super::key::KeyFormat;
    use super::super::timeouts::tests::TIMEOUTS;
    use super::super::topology::Nodes;
    use super::*;
    use crate::clock::{Clock, FakeClock};

    /// The shared part of a store that is making its first connection, with `runtime` as its own.
    pub(in crate::store::redis) fn shared(runtime: &Handle) -> Arc<Shared> {
        shared_of(None, runtime)
    }

    /// The same for a cluster with these masters, if there are any.
    pub(in crate::store::redis) fn shared_of(nodes: Option<Arc<Nodes>>, runtime: &Handle) -> Arc<Shared> {
        let clock: Arc<dyn Clock> = Arc::new(FakeClock::default());
        let denials = Arc::new(DenialCache::new(Arc::clone(&clock), Duration::ZERO));
        Arc::new(Shared {
            link: Link::new(nodes, TIMEOUTS, Breaker::new(), Vec::new()),
            runtime: runtime.clone(),
            encoder: Encoder::new(KeyFormat::new("rl", "").unwrap(), Box::new(|| None)),
            attachments: Attachments::new(&clock, false, &denials),
            denials,
            was_refused: AtomicBool::new(false),
        })
    }
}
