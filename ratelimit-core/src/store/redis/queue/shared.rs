//! What the queues of a store share.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::store::redis::link::Link;
use crate::store::redis::protocol::Encoder;
use crate::store::redis::riders::Riders;

/// What the queues of a store share.
pub(in crate::store::redis) struct Shared {
    pub(in crate::store::redis) link: Arc<Link>,
    /// That of the connection's thread.
    pub(in crate::store::redis) runtime: Handle,
    pub(in crate::store::redis) encoder: Arc<Encoder>,
    pub(in crate::store::redis) riders: Riders,
    /// Whether the thread that asks sends its request. Not over TLS, where calls go through the connection's thread.
    pub(in crate::store::redis) is_direct: bool,
}
