//! Warnings about a server behind the first connection: version, eviction of keys, and clock; and whether it
//! keeps its data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redis::FromRedisValue;

use super::server_clock::ClockSample;
use super::topology::{NodeId, ServerConnection};
use crate::observe::log::help;
use crate::policy::Policy;

/// Oldest version whose commands the scripts are written for.
const MIN_VERSION: (u32, u32) = (6, 2);

/// Largest difference of the clocks without a warning. The server's clock decides, so clients are shown odd
/// reset times if the application's clock differs.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// Warns of a server that is too old, that may drop counts, or whose clock is off. Errors are ignored: a user
/// may lack the permission to look, which decisions do not need.
pub(super) async fn warn_about_server(
    servers: &[(NodeId, ServerConnection)],
    clocks: &[ClockSample],
    durability: &Durability,
) {
    // Names no section, since old servers know few of them.
    let infos: Vec<String> = query_nodes(servers, &redis::cmd("INFO")).await;
    if let Some(version) = infos.iter().find_map(|info| old_version(info)) {
        tracing::warn!(
            version,
            help = help("old-server"),
            "this Redis is older than 6.2; rate limits need Redis 6.2, Valkey 7.2, or newer"
        );
    }
    if let Some(policy) = infos.iter().find_map(|info| eviction(info)) {
        tracing::warn!(
            policy,
            help = help("eviction"),
            "this Redis drops keys when its memory is full, and with them counts, so a flood of callers can free a \
             denied one; set `maxmemory-policy noeviction`, or give rate limits a server of their own"
        );
    }
    if infos.iter().any(|info| has_no_copy(info)) {
        // A server that does not permit `CONFIG` counts as one that saves.
        let saves: Vec<Vec<String>> = query_nodes(servers, redis::cmd("CONFIG").arg("GET").arg("save")).await;
        durability.set_volatile(saves.iter().any(|save| save.get(1).is_some_and(String::is_empty)));
    }
    // By the probe's script: a proxy may reply to `TIME` itself.
    let apart = clocks.iter().map(|clock| Duration::from_micros(clock.apart())).max();
    if let Some(apart) = apart.filter(|apart| *apart > CLOCK_TOLERANCE) {
        tracing::warn!(
            apart_ms = u64::try_from(apart.as_millis()).unwrap_or(u64::MAX),
            help = help("clocks-differ"),
            "the clocks of this machine and of Redis differ; limits follow the clock of Redis, and clients see \
             its time of reset; synchronise both with NTP"
        );
    }
}

/// The replies of all servers that reply.
async fn query_nodes<T: FromRedisValue>(
    servers: &[(NodeId, ServerConnection)],
    command: &redis::Cmd,
) -> Vec<T> {
    let replies = join_all(servers.iter().map(|(_, server)| server.send(command))).await;
    replies.into_iter().filter_map(|reply| T::from_redis_value(reply.ok()?).ok()).collect()
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The version, if it is older than [`MIN_VERSION`].
fn old_version(info: &str) -> Option<&str> {
    let version = field(info, "redis_version")?;
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return None };
    ((major, minor) < MIN_VERSION).then_some(version)
}

/// The eviction policy, if the server may evict keys.
fn eviction(info: &str) -> Option<&str> {
    let policy = field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let bounded = field(info, "maxmemory").is_some_and(|bytes| bytes != "0");
    bounded.then_some(policy)
}

/// Whether a master neither logs its changes nor has a replica.
fn has_no_copy(info: &str) -> bool {
    [("aof_enabled", "0"), ("connected_slaves", "0"), ("role", "master")]
        .iter()
        .all(|(name, value)| field(info, name) == Some(*value))
}

/// Shortest window for which a restart of the server is worth a warning, a day.
const LONG_US: u64 = 86_400_000_000;

/// What is known of the server's persistence.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// Whether a restart loses all counts: a server or a node of the cluster neither persists nor replicates.
    is_volatile: AtomicBool,
    has_warned: AtomicBool,
}

impl Durability {
    pub(super) fn set_volatile(&self, is_volatile: bool) {
        self.is_volatile.store(is_volatile, Ordering::Relaxed);
    }

    /// Warns once, if counts of this policy are lost with a restart.
    #[inline]
    pub(super) fn warn_about(&self, policy: &Policy) {
        if policy.window_us() >= LONG_US && self.is_volatile.load(Ordering::Relaxed) {
            self.warn(policy);
        }
    }

    #[cold]
    fn warn(&self, policy: &Policy) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                policy = policy.name(),
                help = help("volatile-server"),
                "this Redis neither persists nor replicates, so a restart begins limits of a day or more anew; set \
                 `appendonly yes` or `save`, or add a replica"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_no_copy_of_its_data_if_it_is_a_master_that_neither_logs_nor_has_a_replica() {
        for (aof, replicas, role, expected) in
            [(0, 0, "master", true), (1, 0, "master", false), (0, 1, "master", false), (0, 0, "slave", false)]
        {
            let info = format!("aof_enabled:{aof}\r\nrole:{role}\r\nconnected_slaves:{replicas}\r\n");
            assert_eq!(has_no_copy(&info), expected, "{info}");
        }
    }
}
