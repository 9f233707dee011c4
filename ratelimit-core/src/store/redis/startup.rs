//! What is worth a warning about a server, looked at once, when it is first connected to.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{FromRedisValue, Value};

use super::topology::Wire;

/// Oldest version whose commands the scripts are written for.
const MIN_VERSION: (u32, u32) = (6, 2);

/// The server's clock decides, so an application that is off by so much shows its clients odd times of reset.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// Warns of a server that is too old, that may drop counts, or whose clock is off. Looking is not allowed to everybody,
/// and not necessary for deciding, so what cannot be seen is passed over.
pub(super) async fn look(mut wire: Wire) {
    if let Some(info) = ask::<String>(&mut wire, redis::cmd("INFO").arg("everything")).await {
        check_version(&info);
        check_eviction(&info);
    }
    if let Some((seconds, micros)) = ask::<(u64, u32)>(&mut wire, &redis::cmd("TIME")).await {
        check_clock(Duration::new(seconds, micros * 1000));
    }
}

async fn ask<T: FromRedisValue>(wire: &mut Wire, command: &redis::Cmd) -> Option<T> {
    let answer = match wire.send(command).await.ok()? {
        // Each node of a cluster answers; the first speaks for all.
        Value::Map(nodes) => nodes.into_iter().next()?.1,
        answer => answer,
    };
    T::from_redis_value(answer).ok()
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn check_version(info: &str) {
    let Some(version) = field(info, "redis_version") else { return };
    let mut parts = version.split('.').map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next())
        && (major, minor) < MIN_VERSION
    {
        tracing::warn!(
            version,
            "this Redis is older than 6.2; rate limits need Redis 6.2, Valkey 7.2, or newer"
        );
    }
}

fn check_eviction(info: &str) {
    let policy = field(info, "maxmemory_policy").unwrap_or("noeviction");
    let bounded = field(info, "maxmemory").is_some_and(|bytes| bytes != "0");
    if bounded && policy != "noeviction" {
        tracing::warn!(
            policy,
            "this Redis drops keys when its memory is full, and with them counts, so a flood of callers can free one \
             who is denied; set `maxmemory-policy noeviction`, or give rate limits a server of their own"
        );
    }
}

#[allow(clippy::disallowed_methods, reason = "compares two clocks; decides nothing")]
fn check_clock(server: Duration) {
    let Ok(here) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
    let apart = here.abs_diff(server);
    if apart > CLOCK_TOLERANCE {
        tracing::warn!(
            apart_ms = u64::try_from(apart.as_millis()).unwrap_or(u64::MAX),
            "the clocks of this machine and of Redis differ; limits follow the clock of Redis, and clients are told \
             its time of reset; synchronise both with NTP"
        );
    }
}
