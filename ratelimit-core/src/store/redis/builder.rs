//! Settings of a Redis store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::RedisStore;
use super::breaker::Breaker;
use super::client::Connection;
use super::denial_cache::Refusals;
use super::key::Namer;
use super::protocol::Encoder;
use super::timeouts::Timeouts;
use super::topology::{self, Topology, Trust};
use crate::clock::{Clock, SystemClock};
use crate::error::ConfigError;
use crate::log_limit::LogLimit;

/// How long a decision may take before it is an error, unless told otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

/// How long an attempt to connect may take, in the background, unless told otherwise; over TLS twice as long.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a denied caller is denied without asking the server again, unless told otherwise.
pub const DEFAULT_LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// The first pause between two attempts to connect, and the longest, to which they double, unless told otherwise. Up to as
/// much again is added at random.
pub const DEFAULT_BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));

/// Timeouts in a row, or refusals in a row, after which requests no longer wait for the store, unless told otherwise.
pub const DEFAULT_OPEN_AFTER: (u32, u32) = (3, 5);

/// How often an idle connection is tried, unless told otherwise.
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(1);

impl RedisStore {
    /// Settings for a store at one of
    ///
    /// * `redis://[user:password@]host[:port][/db]`, or `unix:///path`;
    /// * `redis-sentinel://[user:password@]host:port,host:port/service[/db]`: the master of a service that these
    ///   sentinels watch, whoever it is at the time; the credentials are those of the servers;
    /// * `redis-cluster://[user:password@]host:port,host:port`: a cluster, of which these nodes are known;
    /// * with the feature `redis-tls`, the same over TLS: `rediss://`, `rediss-sentinel://`, `rediss-cluster://`.
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
            longest_refusal: DEFAULT_LONGEST_REFUSAL,
            trust: Trust::default(),
            #[cfg(feature = "test-util")]
            clock: None,
        }
    }
}

/// Settings for a [`RedisStore`].
#[must_use = "a builder does nothing until `build`"]
pub struct RedisStoreBuilder {
    url: String,
    timeouts: Timeouts,
    breaker: Breaker,
    prefix: String,
    secret: String,
    longest_refusal: Duration,
    trust: Trust,
    #[cfg(feature = "test-util")]
    clock: Option<crate::clock::FakeClock>,
}

impl RedisStoreBuilder {
    /// How long a decision may take, all in all, before it is an error: 1 ms to 1 h; the default is 100 ms. It covers
    /// waiting for a connection, the way there and back, and asking again where that is allowed.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.timeouts.deadline = deadline;
        self
    }

    /// How long one attempt to connect may take: 1 ms to 1 h; the default is 500 ms, and 1 s over TLS. Attempts are made
    /// in the background, and no request waits for more than the deadline.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// The pauses between attempts to connect, each from 1 ms to 1 h: the first, and the longest, to which they double.
    /// Up to as much again is added to each at random, so that processes do not come at once. The default is 50 ms and
    /// 400 ms.
    ///
    /// A server that is back is used again after twice the longest pause at most.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.timeouts.shortest_pause, self.timeouts.longest_pause) = (first, longest);
        self
    }

    /// After how many timeouts in a row, or how many refusals in a row, requests no longer wait for the store, until a new
    /// connection has been made: each 1 to 1000; the default is 3 and 5.
    ///
    /// About as many also suffice when they are half of the answers. A timeout costs a request the deadline, so this
    /// bounds how many wait in vain.
    pub fn open_after(mut self, timeouts: u32, refusals: u32) -> Self {
        self.breaker = Breaker::new(timeouts, refusals);
        self
    }

    /// How often an idle connection is tried: 1 ms to 1 h; the default is 1 s. What a firewall has dropped is noticed then,
    /// and not by the next request. A cluster's client tries its connections by itself.
    pub fn heartbeat(mut self, pause: Duration) -> Self {
        self.timeouts.heartbeat = pause;
        self
    }

    /// What all keys begin with; the default is `rl`. Applications that share a server want their own: 1 to 32 letters,
    /// digits, `-`, `_` or `.`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Keys the digest of callers (BLAKE3) with a secret; empty unless set.
    ///
    /// Without a secret, anyone can compute the digest of a caller. A reader of the server can then try addresses until one
    /// matches, and a client that can choose its caller, such as an IPv6 network or an account name, can choose the cluster
    /// node that holds its counts and aim many callers at one node. Set it for clusters and for personal data.
    ///
    /// All instances need the same secret; another secret begins new counts.
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secret = secret.into();
        self
    }

    /// How long at most this process goes on denying whom the server denied, without asking it again; 1 s unless set, and
    /// zero asks every time.
    ///
    /// A refusal ends with its own `retry_after` in any case, so nobody is denied who would have passed, with one
    /// exception: what *another* process resets or gives back is seen this much later.
    pub fn longest_refusal(mut self, longest: Duration) -> Self {
        self.longest_refusal = longest;
        self
    }

    /// The certificates, in PEM, that may vouch for the servers of a `rediss` URL, instead of those that the system
    /// trusts: for an authority of your own.
    #[cfg(feature = "redis-tls")]
    pub fn root_certificate_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.trust.root = Some(pem.into());
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
        self.timeouts.validate()?;
        self.breaker.validate()?;
        let topology = Topology::parse(&self.url, self.timeouts, &self.trust)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let now: Box<dyn Fn() -> Option<u64> + Send + Sync> = Box::new(|| None);
        #[cfg(feature = "test-util")]
        let (clock, now) = match self.clock {
            Some(fake) => (Arc::new(fake.clone()) as _, Box::new(move || Some(fake.now().as_micros())) as _),
            None => (clock, now),
        };
        let encoder = Arc::new(Encoder { namer, now });
        let connection = Connection::start(topology, self.timeouts, self.breaker, &encoder)?;
        let refusals = Arc::new(Refusals::new(clock, self.longest_refusal));
        Ok(RedisStore { connection, encoder, refusals, give_back_failed: LogLimit::new() })
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
