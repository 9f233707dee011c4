//! The shared store: one Lua script per decision, in Redis or Valkey.

mod attachments;
mod blocking;
mod breaker;
mod builder;
mod command;
mod connections;
mod credentials;
mod denial_cache;
mod error;
mod groups;
mod key;
mod lanes;
mod lease;
mod link;
mod protocol;
mod queue;
mod script;
mod server_check;
mod server_clock;
mod shared;
mod slots;
mod start;
mod supervisor;
mod timeouts;
mod topology;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use self::breaker::Breaker;
pub use self::builder::{
    DEFAULT_BACKOFF, DEFAULT_BREAKER, DEFAULT_CONNECT_TIMEOUT, DEFAULT_DEADLINE, DEFAULT_DENIAL_CACHE_TTL,
    DEFAULT_PING_INTERVAL, RedisStoreBuilder,
};
pub use self::credentials::RedisCredentials;
pub use self::error::RedisConfigError;
use self::groups::Groups;
pub(crate) use self::groups::Sent;
use super::{Deadline, Store, Task};
use crate::algorithm::Operation;
use crate::check::{Check, in_windows};
use crate::error::StoreError;
use crate::observe::log::help;
use crate::outcome::GroupOutcome;
use crate::process::OfProcess;
use crate::reservation::Reservation;

/// Counts shared by every process that uses the same Redis server.
///
/// * A decision is one call of one script, for one limit or a group, whatever the algorithms. Requests of the
///   same time share a call; up to eight calls are in flight.
/// * In a cluster, a group with several callers takes one call per caller: they are charged in order, and if
///   a later one is denied, the earlier ones are refunded. More units than the limit never pass, but until
///   the refund another request may be denied. A charge of a token bucket stays if a request
///   [waits](crate::RateLimiter::wait) for a later turn.
/// * The server's clock decides, so the instances' clocks need not agree.
/// * Denial cache: a caller that was just denied stays denied in this process until its `retry_after`, at
///   most 1 s, without another round trip.
/// * Leases, if a policy [sets one](crate::PolicyBuilder::lease): a hot caller below its limit is decided in
///   this process, and never more requests pass than without a lease.
/// * Deadline: no call waits much longer than 100 ms, or the time that is set, whether for a slow server, a
///   lost connection or several nodes of a cluster, and even if its runtime ends. After repeated failures a
///   circuit breaker opens, and calls fail at once.
/// * The store has a thread of its own with a connection, which it makes again whenever it is lost. So the
///   store works from any runtime, executor or thread, and outlives each. Each worker of an Actix server has
///   a further connection, so that its requests cross no thread.
/// * Keys look like `rl1:user-api:c1m:{digest}`: the policy in clear text, the caller as a 128-bit BLAKE3
///   digest. A key and its state take about 190 bytes of the server's memory; a log takes 6 to 9 bytes more
///   for each entry of one unit.
/// * The store belongs to the process that made it. In a child of a fork its calls fail with
///   [`StoreError::Forked`]: make a store there.
pub struct RedisStore {
    groups: OfProcess<Groups>,
    /// Longest time for a decision.
    deadline: Duration,
    /// Whether it was logged that a child of a fork calls the store.
    was_forked: AtomicBool,
}

impl RedisStore {
    fn new(groups: Groups, deadline: Duration) -> Self {
        Self { groups: OfProcess::new(groups), deadline, was_forked: AtomicBool::new(false) }
    }

    /// What decides. Each call of the store comes here first, before it takes a lock.
    fn groups(&self) -> Result<&Groups, StoreError> {
        self.groups.get().ok_or_else(|| self.forked())
    }

    /// The error of a call in a child of a fork.
    #[cold]
    fn forked(&self) -> StoreError {
        if !self.was_forked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                help = help("forked"),
                "the limiter was made before a fork, so its calls fail in this child of the process; \
                 make the limiter after the fork"
            );
        }
        StoreError::Forked
    }

    /// Whether there is a connection that serves, for a readiness probe. A part of a cluster may be out.
    pub fn is_connected(&self) -> bool {
        self.groups.get().is_some_and(|groups| groups.shared.link.is_up())
    }
}

/// A decision in two parts: the first sends, and the second awaits the reply.
impl RedisStore {
    /// Queues the request that [`decide`](Store::decide) would send first, without awaiting, of a worker or
    /// of any caller. A worker is a runtime with one thread, IO and timers, which runs while its calls wait:
    /// the call may be sent and answered on that thread. `None` if the decision takes several calls, or has
    /// to wait before its call.
    pub(crate) fn begin(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
        by_worker: bool,
    ) -> Option<Box<Sent>> {
        let groups = self.groups.get()?;
        let is_one_call = groups.knows_windows(group) && groups.takes_one_call(group, operation);
        is_one_call
            .then(|| Box::new(groups.begin(group, operation, deadline.at_most(self.deadline), by_worker)))
    }

    /// Awaits the outcome of a group that was sent.
    pub(crate) async fn end(&self, group: &[Check<'_>], sent: &mut Sent) -> Result<GroupOutcome, StoreError> {
        self.groups()?.end(group, sent).await
    }
}

impl Store for RedisStore {
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        deadline: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let groups = self.groups()?;
        let mut deadline = deadline.at_most(self.deadline);
        let group = &*groups.in_windows(group, &mut deadline).await;
        let operation = operation.for_group(group);
        match self.begin(group, operation, deadline, false) {
            Some(mut sent) => groups.end(group, &mut sent).await,
            None => groups.end_by_several_calls(group, operation, deadline).await,
        }
    }

    async fn reset(&self, group: &[Check<'_>], deadline: Deadline) -> Result<(), StoreError> {
        let groups = self.groups()?;
        let mut deadline = deadline.at_most(self.deadline);
        let group = groups.in_windows(group, &mut deadline).await;
        groups.reset_each_caller(&group, deadline).await
    }

    async fn refund(&self, reservation: &Reservation<'_>, deadline: Deadline) -> Result<(), StoreError> {
        let groups = self.groups()?;
        let deadline = deadline.at_most(self.deadline);
        groups.refund_each_caller(reservation, deadline).await
    }

    /// Spawns on the thread of the store, which ends after the task: the task keeps the limiter, and so the
    /// store.
    fn spawn(&self, task: Task) -> Result<(), Task> {
        let Some(groups) = self.groups.get() else { return Err(task) };
        groups.shared.runtime.spawn(task);
        Ok(())
    }

    /// Decides by unused units of a lease, or repeats a denial from the denial cache.
    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        let groups = self.groups.get()?;
        groups.known(&in_windows(group, groups.windows_at(group)), operation)
    }

    fn set_instances(&self, instances: NonZeroU32) {
        if let Some(groups) = self.groups.get() {
            groups.set_instances(instances);
        }
    }

    fn is_ready(&self) -> bool {
        self.is_connected()
    }

    fn kind(&self) -> &'static str {
        "redis"
    }

    fn status(&self) -> super::StoreStatus {
        let Some(groups) = self.groups.get() else { return super::StoreStatus::new() };
        super::StoreStatus { connection: Some(groups.status()), ..super::StoreStatus::new() }
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.deadline)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
