//! The shared store: one Lua script a decision, in Redis or Valkey.

mod breaker;
mod builder;
mod client;
mod cluster_group;
mod command;
mod deadline;
mod denial_cache;
mod error;
mod key;
mod link;
mod protocol;
mod queue;
mod remedy;
mod script;
mod server_check;
mod supervisor;
mod timeouts;
mod topology;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::{
    DEFAULT_BACKOFF, DEFAULT_CONNECT_TIMEOUT, DEFAULT_DEADLINE, DEFAULT_HEARTBEAT, DEFAULT_LONGEST_REFUSAL,
    DEFAULT_OPEN_AFTER, RedisStoreBuilder,
};
use self::client::Connection;
use self::cluster_group::all;
use self::deadline::Patience;
use self::denial_cache::Refusals;
use self::protocol::{Encoder, Limit, Request};
use self::queue::Pending;
use super::Store;
use crate::algorithm::Mode;
use crate::check::Check;
use crate::error::StoreError;
use crate::log_limit::LogLimit;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;

/// Counts shared by every process that uses the same Redis server.
///
/// * A decision is one call of one script, for one limit or a group, whatever the algorithms. Only in a cluster, and
///   only for a group with several callers, it is one call for each caller: they are charged in order, and what was
///   charged is given back when a later one is denied. So never too many pass; but for a moment another request may be
///   denied what is then given back.
/// * The server's clock decides, so instances need not agree on the time.
/// * A caller that was just denied stays denied in this process until its `retry_after`, at most 1 s, without another round
///   trip.
/// * No call waits longer than the deadline, 100 ms unless set: not for a slow server, not for a lost connection, not for
///   several nodes of a cluster.
/// * The connection lives on a thread of its own and is made again whenever it is lost, so the store works from any
///   runtime and outlives each.
/// * Keys look like `rl1:user-api:c1m:{digest}`: the policy in clear text, the caller as a 128-bit BLAKE3 digest.
pub struct RedisStore {
    connection: Connection,
    encoder: Arc<Encoder>,
    refusals: Arc<Refusals>,
    /// Of refunds within a denied group.
    give_back_failed: LogLimit,
}

impl RedisStore {
    /// Whether there is a connection that serves, for a readiness probe. Of a cluster a part may be out.
    pub fn is_connected(&self) -> bool {
        self.connection.is_up()
    }

    /// How long a decision may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.connection.deadline()
    }

    /// What this process knows of a question without asking the server: that it was refused a moment ago.
    pub(crate) fn refused(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        self.refusals.find(group)
    }

    /// Asks the server, for `limit` or the deadline if that is less, and remembers its refusals.
    pub(crate) async fn check_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        let asked = self.refusals.ask(group);
        let outcome = self.decide(group, Mode::Check, self.patience(limit)).await?;
        if outcome.is_allowed() {
            self.refusals.charged(group);
        } else if let Some(asked) = asked {
            self.refusals.learn(group, asked, &outcome);
        }
        Ok(outcome)
    }

    pub(crate) async fn peek_within(
        &self,
        group: &[Check<'_>],
        limit: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        self.decide(group, Mode::Peek, self.patience(limit)).await
    }

    pub(crate) async fn refund_within(
        &self,
        reservation: &Reservation<'_>,
        limit: Duration,
    ) -> Result<(), StoreError> {
        all(self.start_refund(reservation, self.patience(limit))).await
    }

    /// How long a call that begins now waits.
    fn patience(&self, limit: Duration) -> Patience {
        Patience::new(limit.min(self.deadline()))
    }

    /// Queues a group whose callers are on one node.
    fn submit(&self, group: &[Check<'_>], mode: Mode, patience: Patience) -> Pending {
        let limits = group.iter().map(|check| Limit::new(self.encoder.namer.key(check), check));
        self.connection.submit(Request { mode, limits: limits.collect() }, patience)
    }
}

impl Store for RedisStore {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        match self.refused(group) {
            Some(refused) => Ok(refused),
            None => self.check_within(group, self.deadline()).await,
        }
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.peek_within(group, self.deadline()).await
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        self.reset_within(group, self.deadline()).await
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        self.refund_within(reservation, self.deadline()).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
