//! What the lanes of a store and its supervisor share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::runtime::Handle;

use super::link::Link;
use super::protocol::Encoder;
use super::riders::Riders;
use crate::process::Process;

/// What the lanes of a store and its supervisor share.
pub(super) struct Shared {
    pub(super) link: Arc<Link>,
    /// That of the store's own thread.
    pub(super) runtime: Handle,
    pub(super) encoder: Arc<Encoder>,
    pub(super) riders: Riders,
    /// Whose threads and connections they are.
    pub(super) process: Process,
    /// Whether a server that refuses a runtime its connection was logged.
    pub(super) was_refused: AtomicBool,
}
