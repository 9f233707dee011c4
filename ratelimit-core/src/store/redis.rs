//! The shared store: one Lua script a decision, in Redis or Valkey.

mod connection;
mod keys;
mod scripts;
mod wire;

use std::fmt;
use std::net::ToSocketAddrs;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};

use self::connection::{Call, Connection, Keys};
use self::keys::Namer;
use super::{Check, Reservation, Store};
use crate::algorithm::Mode;
use crate::error::{ConfigError, StoreError};
use crate::outcome::GroupOutcome;

/// How long a decision may take before it is an error, unless told otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// Counts shared by every process that uses the same Redis server.
///
/// * A decision is one call of one script, for one limit or a group, whatever the algorithms.
/// * The server's clock decides, so instances need not agree on the time.
/// * No call waits longer than the deadline, 100 ms unless set: not for a slow server, not for a lost connection.
/// * The connection lives on a thread of its own and is made again whenever it is lost, so the store works from any
///   runtime and outlives each.
/// * Keys look like `rl1:user-api:c1m:{digest}`: the policy in clear text, the caller as a 128-bit BLAKE3 digest.
pub struct RedisStore {
    connection: Connection,
    namer: Namer,
    #[cfg(feature = "test-util")]
    clock: Option<crate::clock::FakeClock>,
}

impl RedisStore {
    /// Settings for a store at `redis://[user:password@]host[:port][/db]` or `unix:///path`.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.to_owned(),
            deadline: DEFAULT_DEADLINE,
            prefix: "rl".to_owned(),
            secret: String::new(),
            #[cfg(feature = "test-util")]
            clock: None,
        }
    }

    /// The instant that scripts are to believe, in microseconds; 0 is the server's own clock.
    #[cfg_attr(
        not(feature = "test-util"),
        allow(clippy::unused_self, reason = "only tests have another clock")
    )]
    fn injected_now(&self) -> u64 {
        #[cfg(feature = "test-util")]
        if let Some(clock) = &self.clock {
            return crate::clock::Clock::now(clock).as_micros();
        }
        0
    }

    async fn decide(&self, group: &[Check<'_>], mode: Mode) -> Result<GroupOutcome, StoreError> {
        let mut keys = Keys::new();
        let mut arguments = wire::CheckArguments::new(self.injected_now(), mode, group.len());
        for check in group {
            let key = self.namer.key(check);
            let known = keys.iter().position(|other| *other == key);
            let place = known.unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            arguments.push(place, check);
        }
        let script = scripts::check(group.iter().map(|check| check.policy().algorithm()));
        let reply = self.connection.run(Call { script, keys, arguments: arguments.into_bytes() }).await?;
        wire::decode_check(&reply, group)
    }
}

impl Store for RedisStore {
    async fn check(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.decide(group, Mode::Check).await
    }

    async fn peek(&self, group: &[Check<'_>]) -> Result<GroupOutcome, StoreError> {
        self.decide(group, Mode::Peek).await
    }

    async fn reset(&self, group: &[Check<'_>]) -> Result<(), StoreError> {
        if group.is_empty() {
            return Ok(());
        }
        self.connection.delete(group.iter().map(|check| self.namer.key(check)).collect()).await
    }

    async fn refund(&self, reservation: &Reservation<'_>) -> Result<(), StoreError> {
        let mut keys = Keys::new();
        let mut arguments = wire::RefundArguments::new(self.injected_now());
        for (check, until) in reservation.taken() {
            keys.push(self.namer.key(&check));
            arguments.push(&check, reservation.at(), until);
        }
        let script = scripts::refund(reservation.taken().map(|(check, _)| check.policy().algorithm()));
        self.connection.run(Call { script, keys, arguments: arguments.into_bytes() }).await.map(drop)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").finish_non_exhaustive()
    }
}

/// Settings for a [`RedisStore`].
#[must_use = "a builder does nothing until `build`"]
pub struct RedisStoreBuilder {
    url: String,
    deadline: Duration,
    prefix: String,
    secret: String,
    #[cfg(feature = "test-util")]
    clock: Option<crate::clock::FakeClock>,
}

impl RedisStoreBuilder {
    /// How long a decision may take, all in all, before it is an error; the default is 100 ms.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What all keys begin with; the default is `rl`. Applications that share a server want their own: 1 to 32 letters,
    /// digits, `-`, `_`, `.` or `:`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Keys the digest of callers, so that somebody who reads the server cannot try addresses until one matches.
    ///
    /// All instances need the same secret; another secret begins new counts.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = secret.into();
        self
    }

    /// Makes the scripts believe this clock instead of the server's.
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: crate::clock::FakeClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The store. Returns at once, except for looking up the host's address; the connection is made in the background.
    ///
    /// # Errors
    ///
    /// When the URL is not one, its host has no address, or a setting is out of its bounds.
    pub fn build(self) -> Result<RedisStore, ConfigError> {
        let namer = Namer::new(&self.prefix, &self.secret).ok_or(ConfigError::Prefix)?;
        let connection = Connection::start(client(&self.url)?, self.deadline)?;
        Ok(RedisStore {
            connection,
            namer,
            #[cfg(feature = "test-util")]
            clock: self.clock,
        })
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the URL nor the secret.
        f.debug_struct("RedisStoreBuilder")
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// A client for the URL, or what is wrong with it.
fn client(url: &str) -> Result<redis::Client, ConfigError> {
    let invalid = |problem: &str| ConfigError::RedisUrl { problem: problem.to_owned() };
    let parsed = url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
    match parsed.scheme() {
        "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => {}
        "rediss" | "valkeys" => return Err(invalid("TLS is not built in")),
        // A host without a scheme parses as one, `localhost:6379`; it is not repeated, as it may be a secret.
        _ => return Err(invalid("unknown scheme")),
    }
    // The client's texts for what is left do not repeat the URL either.
    let info = url.into_connection_info().map_err(|error| invalid(&error.to_string()))?;
    if let ConnectionAddr::Tcp(host, port) = info.addr() {
        let resolved = (host.as_str(), *port).to_socket_addrs();
        let addresses = resolved.map_err(|source| ConfigError::RedisHost { host: host.clone(), source })?;
        if addresses.len() == 0 {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(ConfigError::RedisHost { host: host.clone(), source });
        }
    }
    let tcp = connection::tcp_settings();
    redis::Client::open(info.set_tcp_settings(tcp)).map_err(|error| invalid(&error.to_string()))
}
