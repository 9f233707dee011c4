//! Settings of a Redis store: defaults, setters and checks.

use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
#[cfg(feature = "redis-tls-no-provider")]
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::RedisStore;
use super::attachments::Attachments;
use super::breaker::Breaker;
use super::credentials::{CredentialsFunction, CredentialsSource, RedisCredentials};
use super::denial_cache::DenialCache;
use super::error::RedisConfigError;
use super::groups::Groups;
use super::key::KeyFormat;
use super::protocol::Encoder;
use super::timeouts::Timeouts;
#[cfg(feature = "redis-tls-no-provider")]
use super::topology::Pem;
use super::topology::{self, ConnectSettings, TlsSettings, Topology};
use crate::clock::{Clock, SystemClock};

/// Default of [`RedisStoreBuilder::deadline`]: 100 ms.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// Default of [`RedisStoreBuilder::connect_timeout`]: 500 ms; over TLS 1 s.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Default of [`RedisStoreBuilder::denial_cache_ttl`]: 1 s.
pub const DEFAULT_DENIAL_CACHE_TTL: Duration = Duration::from_secs(1);

/// Default of [`RedisStoreBuilder::backoff`]: pauses from 50 ms to 400 ms.
pub const DEFAULT_BACKOFF: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(400);

/// Default of [`RedisStoreBuilder::breaker`]: 3 timeouts in a row, or 5 error replies in a row.
pub const DEFAULT_BREAKER: Breaker = Breaker::new();

/// Default of [`RedisStoreBuilder::ping_interval`]: 1 s.
pub const DEFAULT_PING_INTERVAL: Duration = Duration::from_secs(1);

impl RedisStore {
    /// Starts the settings of a store at a URL of one of these forms:
    ///
    /// * `redis://[user:password@]host[:port][/db]`, or `unix:///path`: a single server;
    /// * `redis-sentinel://[user:password@]host:port,host:port/service[/db]`: the present master of a service
    ///   that these sentinels watch; the credentials are for the servers;
    /// * `redis-cluster://[user:password@]host:port,host:port`: a cluster, of which these nodes are known;
    /// * with the feature `redis-tls`, the same over TLS: `rediss://`, `rediss-sentinel://`,
    ///   `rediss-cluster://`.
    ///
    /// The URL is checked by [`build`](RedisStoreBuilder::build). Each caller takes about 190 bytes of the
    /// server's memory per policy until its state expires; a sliding window log takes 6 to 9 bytes more for
    /// each entry.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use ratelimit_core::{Breaker, RateLimiter, RedisStore};
    ///
    /// # fn main() -> Result<(), ratelimit_core::RedisConfigError> {
    /// let store = RedisStore::builder("redis://127.0.0.1/")
    ///     .prefix("shop")
    ///     .deadline(Duration::from_millis(50))
    ///     .backoff(Duration::from_millis(100)..=Duration::from_secs(2))
    ///     .breaker(Breaker::new().timeouts(5))
    ///     .build()?;
    /// let limiter = RateLimiter::new(store);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.to_owned(),
            timeouts: Timeouts {
                deadline: DEFAULT_DEADLINE,
                connect: if topology::is_tls(url) { 2 } else { 1 } * DEFAULT_CONNECT_TIMEOUT,
                shortest_pause: *DEFAULT_BACKOFF.start(),
                longest_pause: *DEFAULT_BACKOFF.end(),
                ping_interval: DEFAULT_PING_INTERVAL,
            },
            breaker: DEFAULT_BREAKER,
            prefix: "rl".to_owned(),
            secret: String::new(),
            denial_cache_ttl: DEFAULT_DENIAL_CACHE_TTL,
            connections: 1 + thread::available_parallelism().map_or(1, NonZeroUsize::get),
            tls: TlsSettings::default(),
            credentials: None,
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
    connections: usize,
    tls: TlsSettings,
    credentials: Option<Arc<CredentialsFunction>>,
    #[cfg(feature = "test-util")]
    clock: Option<crate::clock::FakeClock>,
}

impl RedisStoreBuilder {
    /// Longest time for a decision before it is an error, from 1 ms to 1 h; by default 100 ms. It covers
    /// waiting for a connection, the round trip, and sending again if that is safe. When it has passed,
    /// replies have a grace of 5 ms. If the process stood still, the grace is as long as it did, at most
    /// 250 ms.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.timeouts.deadline = deadline;
        self
    }

    /// Longest time for one attempt to connect, from 1 ms to 1 h; by default 500 ms, over TLS 1 s. Attempts
    /// are made in the background; requests wait for the [deadline](Self::deadline) at most.
    ///
    /// An attempt first waits for the look-up of the host, the function for credentials and files of
    /// certificates, each for this time. If one takes longer, it goes on, and the next attempt takes its
    /// result, unless that is older than 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// Pauses between two attempts to connect: the first is the start of the range, the longest its end. Each
    /// is from 1 ms to 1 h; by default 50 ms to 400 ms.
    ///
    /// Pauses double up to the longest. Up to as much again is added to each at random, so that processes do
    /// not reconnect at the same time. A server that is back is used again after at most twice the longest
    /// pause.
    pub fn backoff(mut self, pauses: RangeInclusive<Duration>) -> Self {
        (self.timeouts.shortest_pause, self.timeouts.longest_pause) = pauses.into_inner();
        self
    }

    /// Thresholds of the circuit breaker; by default 3 timeouts in a row, or 5 error replies in a row.
    ///
    /// While the breaker is open, requests fail at once, and each limit follows its
    /// [`OnError`](crate::OnError). It closes when a new connection has been made and verified. It also opens
    /// when half of the calls time out, after some tens of calls.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.breaker = breaker;
        self
    }

    /// Interval of pings on every connection, from 1 ms to 1 h; by default 1 s. A connection that a
    /// firewall has dropped is then noticed before the next request. In a cluster, the connections to all
    /// masters are pinged.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.timeouts.ping_interval = interval;
        self
    }

    /// First part of all keys: 1 to 64 letters, digits, `-`, `_` or `.`; by default `rl`. Applications that
    /// share a server need different prefixes.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Secret that keys the digest of callers (BLAKE3); by default empty.
    ///
    /// Without a secret, anyone can compute the digest of a caller. A reader of the server can then try
    /// addresses until one matches, and a client that can choose its caller, such as an IPv6 network or an
    /// account name, can choose the cluster node that has its counts and aim many callers at one node. Set
    /// it for clusters and for personal data.
    ///
    /// All instances need the same secret; another secret starts new counts.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = secret.into();
        self
    }

    /// TTL of the denial cache: longest time for which a caller that the server denied stays denied in this
    /// process without another round trip; by default 1 s. Zero disables the cache.
    ///
    /// An entry ends with its `retry_after` in any case. Only a reset or a refund by *another* process is
    /// seen up to this much later.
    pub fn denial_cache_ttl(mut self, ttl: Duration) -> Self {
        self.denial_cache_ttl = ttl;
        self
    }

    /// Function that returns user and password of each connection, instead of the URL: for passwords that
    /// change, and tokens that expire.
    ///
    /// It is called for each attempt to connect to a server, not to a sentinel; in a cluster for each node. A
    /// connection that is open goes on with the credentials that it began with. An error fails the attempt,
    /// is logged with its text, and the next attempt calls again; so does a panic.
    ///
    /// It may block: it runs on a thread of its own, one call at a time, and no request waits for it. All
    /// attempts that begin while it runs take its result. While a call takes longer than the
    /// [connect timeout](Self::connect_timeout), attempts fail, and the next one waits for the same call.
    /// Keep a token that takes long to fetch.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use ratelimit_core::{RedisCredentials, RedisStore};
    ///
    /// # fn main() -> Result<(), ratelimit_core::RedisConfigError> {
    /// let store = RedisStore::builder("redis://redis.internal/")
    ///     .credentials(|| {
    ///         let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///         Ok(RedisCredentials::new("limiter", password.trim_end()))
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials(
        mut self,
        function: impl Fn() -> Result<RedisCredentials, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        self.credentials = Some(Arc::new(function));
        self
    }

    /// Most connections to the server, or to each master of a cluster; by default one for each processor, and
    /// one more. At least 1.
    ///
    /// Each worker of an Actix server has a connection of its own, so that a request crosses no thread. One
    /// more belongs to the store's own thread. It serves all other callers, such as [`check`] in a job,
    /// workers beyond this number, leases and concurrency limits, and all requests of a worker while its
    /// connection is being made.
    ///
    /// [`check`]: crate::RateLimiter::check
    pub fn connections(mut self, most: usize) -> Self {
        self.connections = most;
        self
    }

    /// Root certificates, in PEM, that `rediss` URLs trust instead of the system's: for an authority of your
    /// own.
    #[cfg(feature = "redis-tls-no-provider")]
    pub fn root_certificate_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.root = Some(Arc::new(Pem::Text(pem.into())));
        self
    }

    /// The same as a file, which each attempt to connect reads, so that another authority needs no restart.
    /// If a new file has a mistake, the last good one stays in use, and a warning is logged.
    #[cfg(feature = "redis-tls-no-provider")]
    pub fn root_certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.root = Some(Arc::new(Pem::File(path.into())));
        self
    }

    /// Certificate that a server may require (`tls-auth-clients`, on by default), for `rediss` URLs: the
    /// chain in PEM, with the client's certificate first, and the private key of that certificate in PEM,
    /// without a passphrase. Both may be in one text. Sentinels and the nodes of a cluster get the same.
    #[cfg(feature = "redis-tls-no-provider")]
    pub fn client_certificate_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.client = Some(Arc::new((Pem::Text(chain.into()), Pem::Text(key.into()))));
        self
    }

    /// The same as files, which each attempt to connect reads, so that a certificate that is renewed needs no
    /// restart. If a new file has a mistake, or the key does not belong to the certificate, the last good
    /// pair stays in use, and a warning is logged. Both may be one file.
    #[cfg(feature = "redis-tls-no-provider")]
    pub fn client_certificate_files(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.client = Some(Arc::new((Pem::File(chain.into()), Pem::File(key.into()))));
        self
    }

    /// Clock that the scripts use instead of the server's.
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: crate::clock::FakeClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the store, and starts the thread that connects in the background. Reads files of certificates,
    /// and then returns without waiting for a connection.
    ///
    /// A host without an address is no error here: it may get an address later. Each attempt that fails is
    /// logged, the first as an error that names the host, and decisions follow their
    /// [`OnError`](crate::OnError) meanwhile.
    ///
    /// # Errors
    ///
    /// [`RedisConfigError::Url`] if the URL is invalid, [`RedisConfigError::Prefix`] or
    /// [`RedisConfigError::Setting`] if a setting is out of bounds or no certificate or key in PEM,
    /// `RedisConfigError::File` if their file cannot be read, and [`RedisConfigError::Thread`] if the thread
    /// does not start. With `redis-tls-no-provider` and without `redis-tls`,
    /// `RedisConfigError::NoCryptoProvider` if a URL has TLS and the process has installed no provider.
    pub fn build(self) -> Result<RedisStore, RedisConfigError> {
        let key_format = KeyFormat::new(&self.prefix, &self.secret).ok_or(RedisConfigError::Prefix)?;
        self.timeouts.validate()?;
        self.breaker.validate()?;
        if self.connections == 0 {
            return Err(RedisConfigError::Setting { setting: "connections", expected: "at least 1" });
        }
        let credentials = self.credentials.map(|function| CredentialsSource::new(function, &self.timeouts));
        let settings = ConnectSettings { timeouts: self.timeouts, tls: self.tls, credentials };
        let topology = Topology::parse(&self.url, settings)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now: Box<dyn Fn() -> Option<u64> + Send + Sync> = Box::new(|| None);
        #[cfg(feature = "test-util")]
        let (clock, now) = match self.clock {
            Some(fake) => {
                let clock: Arc<dyn Clock> = Arc::new(fake.clone());
                (clock, Box::new(move || Some(fake.now().as_micros())) as _)
            }
            None => (clock, now),
        };
        let encoder = Encoder::new(key_format, now);
        let denials = Arc::new(DenialCache::new(Arc::clone(&clock), self.denial_cache_ttl));
        let is_cluster = topology.nodes().is_some();
        let attachments = Attachments::new(&clock, is_cluster, &denials);
        let most = self.connections;
        let own = (denials, attachments);
        let groups = Groups::start(topology, self.timeouts, self.breaker, encoder, own, most)?;
        Ok(RedisStore::new(groups, self.timeouts.deadline))
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
