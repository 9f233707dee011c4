//! The shared store: one Lua script a decision, in Redis or Valkey.

mod denial_cache;
mod error;
mod key;
mod protocol;
mod queue;
mod script;
mod server_check;
mod supervisor;
mod timeouts;
mod topology;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use self::denial_cache::Refusals;
use self::key::Namer;
use self::protocol::{Encoder, Limit, Request};
use self::queue::{Patience, Pending};
use self::supervisor::{Call, Connection, Keys, Started};
use self::timeouts::{Breaker, Timeouts};
use self::topology::{Topology, Trust};
use super::{Check, Reservation, Store, Taken};
use crate::algorithm::Mode;
use crate::clock::{Clock, SystemClock};
use crate::error::{ConfigError, StoreError};
use crate::fallback::LogLimit;
use crate::outcome::GroupOutcome;

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

    pub(crate) async fn reset_within(&self, group: &[Check<'_>], limit: Duration) -> Result<(), StoreError> {
        let patience = self.patience(limit);
        let started: SmallVec<[Started; 2]> = by_caller(group)
            .into_iter()
            .map(|part| {
                let namer = &self.encoder.namer;
                let keys = part.checks.iter().map(|check| namer.name(&namer.key(check))).collect();
                self.connection.delete(keys, patience, self.refusals.forget_after(&part.checks))
            })
            .collect();
        all(started).await
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

    async fn decide(
        &self,
        group: &[Check<'_>],
        mode: Mode,
        patience: Patience,
    ) -> Result<GroupOutcome, StoreError> {
        if self.connection.is_cluster() {
            let parts = by_caller(group);
            if parts.len() > 1 {
                return self.decide_in_parts(group.len(), &parts, mode, patience).await;
            }
        }
        self.submit(group, mode, patience).reply().await?.into_outcome(group)
    }

    /// Decides about several callers, who are on different nodes: charges them in order, and gives back what was charged
    /// when one of them is denied. All of that has one deadline.
    async fn decide_in_parts(
        &self,
        size: usize,
        parts: &[Part<'_>],
        mode: Mode,
        patience: Patience,
    ) -> Result<GroupOutcome, StoreError> {
        let mut outcomes: SmallVec<[GroupOutcome; 2]> = SmallVec::new();
        // The part that was denied, once there is one.
        let mut denied = None;
        if mode == Mode::Check {
            for (place, part) in parts.iter().enumerate() {
                let reply = self.submit(&part.checks, Mode::Check, patience).reply().await;
                match reply.and_then(|reply| reply.into_outcome(&part.checks)) {
                    Ok(outcome) if outcome.is_allowed() => outcomes.push(outcome),
                    Ok(outcome) => {
                        self.give_back(parts, &outcomes, patience).await;
                        denied = Some((place, outcome));
                        break;
                    }
                    Err(error) => {
                        self.give_back(parts, &outcomes, patience).await;
                        return Err(error);
                    }
                }
            }
        }
        let allowed = denied.is_none();
        if mode == Mode::Peek || !allowed {
            // Nothing more is charged, so all other nodes are asked at once: the client is told about all limits.
            let looks: SmallVec<[Look; 2]> = (parts.iter().enumerate())
                .map(|(place, part)| match denied.take_if(|(known, _)| *known == place) {
                    Some((_, outcome)) => Look::Known(outcome),
                    None => Look::Pending(self.submit(&part.checks, Mode::Peek, patience)),
                })
                .collect();
            outcomes.clear();
            for (look, part) in looks.into_iter().zip(parts) {
                outcomes.push(match look {
                    Look::Known(outcome) => outcome,
                    Look::Pending(pending) => pending.reply().await?.into_outcome(&part.checks)?,
                });
            }
        }
        let allowed = allowed && outcomes.iter().all(GroupOutcome::is_allowed);
        let places = parts.iter().map(|part| &part.places[..]);
        Ok(GroupOutcome::join(size, allowed, places.zip(&outcomes)))
    }

    /// Gives back what was charged for the first parts of a group, one outcome for each.
    async fn give_back(&self, parts: &[Part<'_>], outcomes: &[GroupOutcome], patience: Patience) {
        let started = parts.iter().zip(outcomes).filter_map(|(part, outcome)| {
            Some(self.start_refund(&outcome.reservation(&part.checks)?, patience))
        });
        let started: SmallVec<[Started; 2]> = started.flatten().collect();
        if let Err(error) = all(started).await
            && self.give_back_failed.may_log()
        {
            // It then counts until its window is over: one request too few passes, never one too many.
            tracing::warn!(error = %error, "could not give back what a denied group had taken");
        }
    }

    /// Sends a refund for each caller of a reservation.
    fn start_refund(&self, reservation: &Reservation<'_>, patience: Patience) -> SmallVec<[Started; 2]> {
        let namer = &self.encoder.namer;
        let taken: SmallVec<[Taken<'_>; 2]> = reservation.taken().collect();
        taken
            .chunk_by(|one, next| one.check().partition() == next.check().partition())
            .map(|caller| {
                let mut keys = Keys::new();
                let mut arguments = protocol::RefundArguments::new((self.encoder.now)());
                for taken in caller {
                    keys.push(namer.name(&namer.key(&taken.check())));
                    arguments.push(taken);
                }
                let script = script::refund(caller.iter().map(|taken| taken.check().policy().algorithm()));
                let checks: SmallVec<[Check<'_>; 2]> = caller.iter().map(Taken::check).collect();
                let call = Call { script, keys, arguments: smallvec![arguments.into_bytes()] };
                self.connection.run(call, patience, self.refusals.forget_after(&checks))
            })
            .collect()
    }

    /// Queues a group whose callers are on one node.
    fn submit(&self, group: &[Check<'_>], mode: Mode, patience: Patience) -> Pending {
        let limits = group.iter().map(|check| Limit::new(self.encoder.namer.key(check), check));
        self.connection.submit(Request { mode, limits: limits.collect() }, patience)
    }
}

/// Waits for all of them; the first error, if any.
async fn all(started: SmallVec<[Started; 2]>) -> Result<(), StoreError> {
    let mut result = Ok(());
    for one in started {
        result = result.and(one.answer().await);
    }
    result
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

/// What is known of a part of a group while nothing is charged.
enum Look {
    Known(GroupOutcome),
    Pending(Pending),
}

/// The checks of a group that are about one caller, whose keys share a hash tag, and their places in the group.
struct Part<'a> {
    checks: SmallVec<[Check<'a>; 2]>,
    places: SmallVec<[usize; 2]>,
}

fn by_caller<'a>(group: &[Check<'a>]) -> SmallVec<[Part<'a>; 2]> {
    let mut parts: SmallVec<[Part<'a>; 2]> = SmallVec::new();
    for (place, check) in group.iter().enumerate() {
        match parts.iter_mut().find(|part| part.checks[0].partition() == check.partition()) {
            Some(part) => {
                part.checks.push(*check);
                part.places.push(place);
            }
            None => parts.push(Part { checks: smallvec![*check], places: smallvec![place] }),
        }
    }
    parts
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
