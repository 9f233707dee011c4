//! The shared store: one Lua script per decision, in Redis or Valkey.

mod breaker;
mod builder;
#[cfg(feature = "stats")]
mod call_stats;
mod client;
mod cluster_group;
mod command;
mod config_error;
mod deadline;
mod denial_cache;
mod error;
mod key;
mod lanes;
mod lease;
mod link;
mod protocol;
mod queue;
mod remedy;
mod script;
mod server_check;
mod supervisor;
mod sweeper;
mod timeouts;
mod topology;

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use smallvec::SmallVec;

pub use self::breaker::Breaker;
pub use self::builder::{
    DEFAULT_BACKOFF, DEFAULT_BREAKER, DEFAULT_CONNECT_TIMEOUT, DEFAULT_DEADLINE, DEFAULT_DENIAL_CACHE_TTL,
    DEFAULT_PING_INTERVAL, RedisStoreBuilder,
};
use self::cluster_group::GroupClient;
pub use self::config_error::RedisConfigError;
use self::deadline::RequestDeadline;
use super::{Store, up_to};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::error::StoreError;
use crate::outcome::GroupOutcome;
use crate::reservation::Reservation;

/// Counts shared by every process that uses the same Redis server.
///
/// * A decision is one call of one script, for one limit or a group, whatever the algorithms. One call for each 100 µs of
///   the round trip, at least one, goes at once; requests that come meanwhile share the next calls.
/// * In a cluster, a group with several callers takes one call per caller: they are charged in order, and if a later one
///   is denied, the earlier ones are refunded. More units than the limit never pass, but until the refund another request
///   may be denied.
/// * The server's clock decides, so the instances' clocks need not agree.
/// * Denial cache: a caller that was just denied stays denied in this process until its `retry_after`, at most 1 s, without
///   another round trip.
/// * Leases, if a policy [sets one](crate::PolicyBuilder::lease): a hot caller below its limit is decided in this process,
///   and never more pass than without.
/// * Deadline: no call waits longer than 100 ms unless set, whether for a slow server, a lost connection or several nodes
///   of a cluster. After repeated failures a circuit breaker opens, and calls fail at once.
/// * The connection lives on a thread of its own and is made again whenever it is lost, so the store works from any
///   runtime and outlives each.
/// * Keys look like `rl1:user-api:c1m:{digest}`: the policy in clear text, the caller as a 128-bit BLAKE3 digest. A key and
///   its state take about 128 bytes of the server's memory; a log takes 6 to 9 bytes more for each entry of one unit.
pub struct RedisStore {
    groups: GroupClient,
}

impl RedisStore {
    /// Whether there is a connection that serves, for a readiness probe. A part of a cluster may be out.
    pub fn is_connected(&self) -> bool {
        self.groups.client.is_up()
    }

    /// The deadline of a request that begins now.
    fn deadline_within(&self, limit: Duration) -> RequestDeadline {
        RequestDeadline::after(limit.min(self.groups.client.deadline()))
    }
}

impl Store for RedisStore {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        match self.try_check(group) {
            Some(denial) => Ok(denial),
            None => self.check_within(group, Duration::MAX).await,
        }
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.peek_within(group, Duration::MAX).await
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        self.reset_within(group, Duration::MAX).await
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        self.refund_within(reservation, Duration::MAX).await
    }

    /// Admits a request by held units of a lease, or repeats a denial from the denial cache.
    fn try_check(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if let Some(outcome) = self.groups.try_leases(group) {
            return Some(outcome);
        }
        let denial = self.groups.denials.get(group)?;
        #[cfg(feature = "metrics")]
        crate::metrics::denial_cache_hit();
        #[cfg(feature = "stats")]
        self.groups.denials.hits.add(1);
        Some(denial)
    }

    fn set_instances(&self, instances: NonZeroU32) {
        self.groups.leases.set_instances(instances);
    }

    fn is_ready(&self) -> bool {
        self.is_connected()
    }

    fn kind(&self) -> &'static str {
        "redis"
    }

    #[cfg(feature = "stats")]
    fn status(&self) -> super::StoreStatus {
        let connection = super::ConnectionStatus {
            cached_denials: self.groups.denials.len(),
            denial_cache_hits: self.groups.denials.hits.get(),
            leases: self.groups.leases.status(),
            ..self.groups.client.status()
        };
        super::StoreStatus { connection: Some(connection), ..super::StoreStatus::new() }
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.groups.client.deadline())
    }

    /// Decides by the server, and caches a denial.
    async fn check_within(&self, group: &[Check<'_>], limit: Duration) -> Result<GroupOutcome, StoreError> {
        let lookup = self.groups.denials.begin_lookup(group);
        let outcome = self.groups.check(group, self.deadline_within(limit)).await?;
        let begins_block = self.groups.denials.record_decision(group, &outcome);
        if let Some(lookup) = lookup.filter(|_| !begins_block) {
            self.groups.denials.insert(group, lookup, &outcome);
        }
        Ok(outcome)
    }

    async fn peek_within(&self, group: &[Check<'_>], limit: Duration) -> Result<GroupOutcome, StoreError> {
        if let Some(outcome) = self.groups.leases.peek_group(group) {
            return Ok(outcome);
        }
        let outcome = self.groups.decide(group, Operation::Peek, self.deadline_within(limit)).await?;
        Ok(self.groups.leases.with_held(group, outcome))
    }

    async fn check_up_to_within(
        &self,
        group: &[Check<'_>],
        units: u64,
        limit: Duration,
    ) -> Result<GroupOutcome, StoreError> {
        if self.groups.is_split(group) {
            return up_to::check(self, group, units, limit).await;
        }
        let group: SmallVec<[Check<'_>; 2]> = group.iter().map(|check| check.with_cost(units)).collect();
        let outcome = self.groups.decide(&group, Operation::UpTo, self.deadline_within(limit)).await?;
        self.groups.denials.record_decision(&group, &outcome);
        Ok(outcome)
    }

    async fn overdraw_within(&self, group: &[Check<'_>], limit: Duration) -> Result<(), StoreError> {
        let deadline = self.deadline_within(limit);
        for check in group {
            self.groups.overdraw(check, deadline).await?;
        }
        Ok(())
    }

    async fn reset_within(&self, group: &[Check<'_>], limit: Duration) -> Result<(), StoreError> {
        self.groups.reset_each_caller(group, self.deadline_within(limit)).await
    }

    async fn refund_within(&self, reservation: &Reservation<'_>, limit: Duration) -> Result<(), StoreError> {
        self.groups.refund_each_caller(reservation, self.deadline_within(limit)).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}
