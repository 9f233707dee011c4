//! Settings of a Redis store: defaults, setters and checks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::RedisStore;
use super::breaker::Breaker;
use super::client::Client;
use super::denial_cache::DenialCache;
use super::key::KeyFormat;
use super::protocol::Encoder;
use super::timeouts::Timeouts;
use super::topology::{self, TlsRoots, Topology};
use crate::clock::{Clock, SystemClock};
use crate::error::ConfigError;
use crate::log_limit::LogLimit;

/// Default of [`RedisStoreBuilder::deadline`]: 100 ms.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// Default of [`RedisStoreBuilder::connect_timeout`]: 500 ms; over TLS twice as long.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Default of [`RedisStoreBuilder::longest_refusal`], the TTL of the denial cache: 1 s.
pub const DEFAULT_LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// Default of [`RedisStoreBuilder::backoff`]: first pause 50 ms, longest pause 400 ms.
pub const DEFAULT_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

/// Default of [`RedisStoreBuilder::open_after`]: 3 timeouts in a row, or 5 error replies in a row.
pub const DEFAULT_OPEN_AFTER: (u32, u32) = (3, 5);

/// Default of [`RedisStoreBuilder::heartbeat`]: 1 s.
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(1);

impl RedisStore {
    /// Starts a store at a URL of one of these forms:
    ///
    /// * `redis://[user:password@]host[:port][/db]`, or `unix:///path`: a single server;
    /// * `redis-sentinel://[user:password@]host:port,host:port/service[/db]`: the present master of a service that these
    ///   sentinels watch; the credentials are those of the servers;
    /// * `redis-cluster://[user:password@]host:port,host:port`: a cluster, of which these nodes are known;
    /// * with the feature `redis-tls`, the same over TLS: `rediss://`, `rediss-sentinel://`, `rediss-cluster://`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use ratelimit_core::{RateLimiter, RedisStore};
    ///
    /// # fn main() -> Result<(), ratelimit_core::ConfigError> {
    /// let store = RedisStore::builder("redis://127.0.0.1/")
    ///     .deadline(Duration::from_millis(50))
    ///     .prefix("shop")
    ///     .build()?;
    /// let limiter = RateLimiter::with_redis(store);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.to_owned(),
            timeouts: Timeouts {
                deadline: DEFAULT_DEADLINE,
                connect: if topology::is_tls(url) { 2 } else { 1 } * DEFAULT_CONNECT_TIMEOUT,
                shortest_pause: DEFAULT_BACKOFF.0,
                longest_pause: DEFAULT_BACKOFF.1,
                heartbeat: DEFAULT_HEARTBEAT,
            },
            breaker: Breaker::new(DEFAULT_OPEN_AFTER.0, DEFAULT_OPEN_AFTER.1),
            prefix: "rl".to_owned(),
            secret: String::new(),
            denial_cache_ttl: DEFAULT_LONGEST_REFUSAL,
            tls_roots: TlsRoots::default(),
            #[cfg(feature = "test-util")]
            clock: None,
        }
    }
}

/// Settings of a [`RedisStore`].
#[must_use = "a builder does nothing until `build`"]
pub struct RedisStoreBuilder {
    url: String,
    timeouts: Timeouts,
    breaker: Breaker,
    prefix: String,
    secret: String,
    denial_cache_ttl: Duration,
    tls_roots: TlsRoots,
    #[cfg(feature = "test-util")]
    clock: Option<crate::clock::FakeClock>,
}

impl RedisStoreBuilder {
    /// Longest time for a decision before it is an error, from 1 ms to 1 h; by default 100 ms. It covers waiting for a
    /// connection, the round trip, and sending again where that is safe.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.timeouts.deadline = deadline;
        self
    }

    /// Longest time for one attempt to connect, from 1 ms to 1 h; by default 500 ms, over TLS 1 s. Attempts are made in the
    /// background; requests wait for the [deadline](Self::deadline) at most.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// First and longest pause between two attempts to connect, each from 1 ms to 1 h; by default 50 ms and 400 ms.
    ///
    /// Pauses double up to the longest. Up to as much again is added to each at random, so that processes do not reconnect
    /// at the same time. A server that is back is used again after at most twice the longest pause.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.timeouts.shortest_pause, self.timeouts.longest_pause) = (first, longest);
        self
    }

    /// Thresholds of the circuit breaker, each from 1 to 1000; by default 3 timeouts in a row, or 5 error replies in a row,
    /// such as `LOADING` or `OOM`.
    ///
    /// While the breaker is open, requests fail at once, and each limit follows its [`OnError`](crate::OnError). It closes
    /// when a new connection has been made and verified. About as many failures also open it when they are half of the
    /// replies. A timeout costs a request the deadline, so this bounds how many requests wait in vain.
    pub fn open_after(mut self, timeouts: u32, errors: u32) -> Self {
        self.breaker = Breaker::new(timeouts, errors);
        self
    }

    /// Interval of pings on an idle connection, from 1 ms to 1 h; by default 1 s. A connection that a firewall has dropped
    /// is then noticed before the next request. A cluster's client pings by itself.
    pub fn heartbeat(mut self, pause: Duration) -> Self {
        self.timeouts.heartbeat = pause;
        self
    }

    /// First part of all keys: 1 to 32 letters, digits, `-`, `_` or `.`; by default `rl`. Applications that share a server
    /// need different prefixes.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Secret that keys the digest of callers (BLAKE3); by default empty.
    ///
    /// Without a secret, anyone can compute the digest of a caller. A reader of the server can then try addresses until one
    /// matches, and a client that can choose its caller, such as an IPv6 network or an account name, can choose the cluster
    /// node that holds its counts and aim many callers at one node. Set it for clusters and for personal data.
    ///
    /// All instances need the same secret; another secret starts new counts.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = secret.into();
        self
    }

    /// TTL of the denial cache: longest time for which a caller that the server denied stays denied in this process without
    /// another round trip; by default 1 s. Zero disables the cache.
    ///
    /// An entry ends with its `retry_after` in any case. Only a reset or a refund by *another* process is seen up to this
    /// much later.
    pub fn longest_refusal(mut self, longest: Duration) -> Self {
        self.denial_cache_ttl = longest;
        self
    }

    /// Root certificates, in PEM, to trust for `rediss` URLs instead of those that the system trusts: for an authority of
    /// your own.
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls_roots.root = Some(pem.into());
        self
    }

    /// Clock that the scripts use instead of the server's.
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: crate::clock::FakeClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the store, and starts the thread that connects in the background.
    ///
    /// Resolves the host of the URL on the calling thread, which blocks while DNS replies.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RedisUrl`] or [`ConfigError::RedisHost`] if the URL is invalid or its host has no address,
    /// [`ConfigError::Prefix`] or [`ConfigError::Setting`] if a setting is out of bounds, and [`ConfigError::Thread`] if
    /// the thread does not start.
    pub fn build(self) -> Result<RedisStore, ConfigError> {
        let key_format = KeyFormat::new(&self.prefix, &self.secret).ok_or(ConfigError::Prefix)?;
        self.timeouts.validate()?;
        self.breaker.validate()?;
        let topology = Topology::parse(&self.url, self.timeouts, &self.tls_roots)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now: Box<dyn Fn() -> Option<u64> + Send + Sync> = Box::new(|| None);
        #[cfg(feature = "test-util")]
        let (clock, now) = match self.clock {
            Some(fake) => (Arc::new(fake.clone()) as _, Box::new(move || Some(fake.now().as_micros())) as _),
            None => (clock, now),
        };
        let encoder = Arc::new(Encoder { key_format, now });
        let client = Client::start(topology, self.timeouts, self.breaker, &encoder)?;
        let denials = Arc::new(DenialCache::new(clock, self.denial_cache_ttl));
        Ok(RedisStore { client, encoder, denials, refund_log: LogLimit::new() })
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the URL nor the secret.
        f.debug_struct("RedisStoreBuilder")
            .field("timeouts", &self.timeouts)
            .field("breaker", &self.breaker)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
