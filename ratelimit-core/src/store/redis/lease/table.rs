//! The counts for which this process has leases, or may have some soon, in a bounded, sharded table by keyed
//! digests. This also decides which limits can have leases, and has the events of calls, of time and of
//! resets.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::count::{Answer, Effects, LeaseRequest, LeasedCount, Terms};
use super::give_backs::{CountId, GiveBacks};
use super::nodes::{LeaseNodes, NodeConnection};
use super::shard::{LeaseShard, Warm};
use super::size::{Demand, is_leasable};
use crate::check::{Check, OwnedCheck};
use crate::clock::Clock;
use crate::observe::log::{Noted, help};
use crate::policy::Policy;
use crate::store::LeaseStatus;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::denial_cache::DenialCache;
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Encoder, PolicyArg};

/// Number of locks over which the counts are spread.
const SHARDS: usize = 64;

/// Shortest and longest pause between two sweeps.
const SWEEP_US: (u64, u64) = (5_000, 250_000);

/// All leases of a store.
#[derive(Debug)]
pub(in crate::store::redis) struct Leases {
    /// A clock that counts while the machine is suspended.
    clock: Arc<dyn Clock>,
    digest_key: [u8; 16],
    /// Number of processes that share the limits.
    instances: AtomicU64,
    pub(super) shards: Box<[Mutex<LeaseShard>]>,
    /// Number of counts that have leases, or may have some soon.
    counts: AtomicUsize,
    pub(in crate::store::redis) nodes: LeaseNodes,
    pub(super) give_backs: GiveBacks,
    /// Wakes the sweeper when there is a count to sweep.
    pub(in crate::store::redis) has_count: Notify,
    /// Policies about which a warning was logged, by their states.
    logged: Noted,
}

/// A limit of a queued request whose leases learn from the answer.
#[derive(Debug)]
pub(in crate::store::redis) struct LeaseTarget {
    pub(super) digest: u128,
    pub(super) check: OwnedCheck,
    /// The lease interval; 0 if the call requests no lease of this limit.
    pub(super) interval: u64,
    /// Whether the call may leave a debt.
    pub(super) is_overdrawn: bool,
    /// Bucket of the denial cache.
    pub(super) bucket: usize,
    /// Index of the limit in its request.
    pub(super) limit: usize,
}

impl LeaseTarget {
    /// Whether the call may request the next lease.
    pub(super) const fn fetches(&self) -> bool {
        self.interval > 0
    }

    pub(super) fn terms(&self, connection: NodeConnection) -> Terms<'_> {
        Terms { check: self.check.check(), interval: self.interval, connection }
    }

    pub(super) fn count_id(&self, key: &StateKey) -> CountId {
        let (digest, bucket, policy) = (self.digest, self.bucket, PolicyArg::new(&self.check.check()));
        CountId { digest, bucket, key: key.clone(), policy }
    }
}

/// A count while its shard is locked. When this is dropped, it passes on the effects of events.
pub(super) struct CountGuard<'s> {
    pub(super) count: &'s mut LeasedCount,
    pub(super) count_id: &'s CountId,
    pub(super) demand: &'s mut Demand,
    /// The connection that serves the count now.
    pub(super) connection: NodeConnection,
    pub(super) effects: Effects,
    give_backs: &'s GiveBacks,
}

impl CountGuard<'_> {
    /// The terms of a limit, for events of the count.
    pub(super) const fn terms<'c>(&self, check: Check<'c>, interval: u64) -> Terms<'c> {
        // A lease needs no caller: its digest stands for it.
        Terms { check: check.without_caller(), interval, connection: self.connection }
    }

    pub(super) fn give_back_all(&mut self, now: u64) {
        self.count.give_back_all(self.connection, now, &mut self.effects);
    }
}

impl Drop for CountGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.give_backs.note(self.count_id, &mut self.effects);
    }
}

/// The index of a digest's shard.
pub(super) fn shard_of(digest: u128) -> usize {
    // The upper half, since the table uses the lower one.
    #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
    let bits = (digest >> 96) as usize;
    bits % SHARDS
}

impl Leases {
    pub(in crate::store::redis) fn new(
        clock: Arc<dyn Clock>,
        is_cluster: bool,
        denials: Arc<DenialCache>,
    ) -> Self {
        Self {
            clock,
            digest_key: denials.key,
            instances: AtomicU64::new(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            counts: AtomicUsize::new(0),
            nodes: LeaseNodes::new(is_cluster),
            give_backs: GiveBacks::new(denials, is_cluster),
            has_count: Notify::new(),
            logged: Noted::default(),
        }
    }

    /// Sets the number of processes that share the limits, which only changes the size of leases.
    pub(in crate::store::redis) fn set_instances(&self, instances: NonZeroU32) {
        self.instances.store(instances.get().into(), Ordering::Relaxed);
    }

    pub(super) fn instances(&self) -> u64 {
        self.instances.load(Ordering::Relaxed)
    }

    /// The local time, in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// The lease interval of a policy, in microseconds; 0 if its callers get no leases.
    #[inline]
    pub(super) fn interval(&self, policy: &Policy) -> u64 {
        // Limits without leases take only this branch.
        if policy.lease_us() == 0 { 0 } else { self.leased_interval(policy) }
    }

    fn leased_interval(&self, policy: &Policy) -> u64 {
        if is_leasable(policy, self.instances()) {
            return policy.lease_us();
        }
        self.log_useless_lease(policy);
        0
    }

    /// Logs once that callers of a policy with a lease interval never get a lease.
    #[cold]
    fn log_useless_lease(&self, policy: &Policy) {
        if self.logged.note(policy.state_id()) {
            tracing::warn!(
                policy = policy.name(),
                help = help("lease-that-is-never-granted"),
                "this limit never gets a lease: it needs at least 16 units per instance, and sub-windows of at least 50 ms"
            );
        }
    }

    /// The leases of this process.
    pub(in crate::store::redis) fn status(&self) -> LeaseStatus {
        let mut status = LeaseStatus::default();
        self.give_backs.observer.report(&mut status);
        for shard in &self.shards {
            for warm in shard.lock().table.iter().filter_map(|entry| entry.warm.as_ref()) {
                let unused = warm.count.unused();
                status.held += unused;
                status.callers += usize::from(unused > 0);
            }
        }
        status
    }

    pub(super) fn digest(&self, check: &Check<'_>) -> u128 {
        check.digest_in_window(&self.digest_key)
    }

    pub(super) fn lock_shard(&self, digest: u128) -> MutexGuard<'_, LeaseShard> {
        self.shards[shard_of(digest)].lock()
    }

    /// The count of this digest in its locked shard, if it is warm.
    #[inline]
    pub(super) fn count_in<'s>(&'s self, shard: &'s mut LeaseShard, digest: u128) -> Option<CountGuard<'s>> {
        let (warm, demand) = shard.warm(digest)?;
        Some(self.guard(warm, demand))
    }

    #[inline]
    fn guard<'s>(&'s self, warm: &'s mut Warm, demand: &'s mut Demand) -> CountGuard<'s> {
        let Warm { count, count_id } = warm;
        // Nodes are never removed, so the node of a count is known.
        let connection = self.nodes.present(usize::from(count.node())).unwrap_or_default();
        let (effects, give_backs) = (Effects::default(), &self.give_backs);
        CountGuard { count, count_id, demand, connection, effects, give_backs }
    }

    /// Whether any count has leases, or may have some soon.
    #[inline]
    pub(super) fn has_counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed) > 0
    }

    /// The request for the next lease in the call that is about to be written.
    pub(super) fn lease_request(
        &self,
        target: &LeaseTarget,
        connection: NodeConnection,
        now: u64,
    ) -> Option<LeaseRequest> {
        let (terms, instances) = (target.terms(connection), self.instances());
        let mut shard = self.lock_shard(target.digest);
        let mut guard = self.count_in(&mut shard, target.digest)?;
        guard.count.lease_request(terms, guard.demand, instances, now, &mut guard.effects)
    }

    /// Lets a count learn from an answer.
    pub(super) fn learn(&self, target: &LeaseTarget, key: &StateKey, mut answer: Answer) {
        let mut shard = self.lock_shard(target.digest);
        // The entry may have been removed meanwhile.
        let Some(entry) = shard.find(target.digest) else { return };
        let is_new = entry.warm.is_none();
        if is_new && !(target.fetches() && answer.is_present) {
            return;
        }
        let warm = entry.warm.get_or_insert_with(|| {
            self.counts.fetch_add(1, Ordering::Relaxed);
            let count = LeasedCount::new(target.terms(answer.connection));
            Box::new(Warm { count, count_id: target.count_id(key) })
        });
        let mut guard = self.guard(warm, &mut entry.demand);
        if !answer.is_present {
            answer.connection = guard.connection;
        }
        let lease = answer.lease;
        guard.count.learn(answer, &mut guard.effects);
        drop(guard);
        drop(shard);
        if let Some((request, true)) = lease {
            self.give_backs.observer.granted(request.units);
        }
        if is_new || lease.is_some() {
            self.has_count.notify_one();
        }
    }

    /// Notes that a request for a lease gets no answer.
    pub(super) fn abandon(&self, digest: u128, request: LeaseRequest) {
        let mut shard = self.lock_shard(digest);
        if let Some(guard) = self.count_in(&mut shard, digest) {
            guard.count.abandon(request);
        }
    }

    /// Ends leases whose units may no longer be used, and gives back leases that were not used for an
    /// interval. Returns the pause until the next sweep, or `None` if the table has no counts.
    pub(in crate::store::redis) fn sweep(&self) -> Option<Duration> {
        let (now, mut shortest, mut unused) = (self.now(), None, 0);
        for shard in &self.shards {
            shard.lock().table.retain(|entry| {
                let Some(warm) = &mut entry.warm else { return !entry.is_cold(now) };
                let mut guard = self.guard(warm, &mut entry.demand);
                let is_idle = guard.count.sweep(guard.connection, now, &mut guard.effects);
                unused += guard.count.unused();
                drop(guard);
                shortest = Some(shortest.map_or(entry.interval, |other: u64| other.min(entry.interval)));
                let is_over = is_idle && entry.is_cold(now);
                if is_over {
                    self.counts.fetch_sub(1, Ordering::Relaxed);
                }
                !is_over
            });
        }
        self.give_backs.observer.held(unused);
        shortest.map(|interval| Duration::from_micros((interval / 4).clamp(SWEEP_US.0, SWEEP_US.1)))
    }

    /// Gives back all unused units, when the store is dropped.
    pub(in crate::store::redis) fn close(&self) {
        let now = self.now();
        for shard in &self.shards {
            for mut entry in shard.lock().table.drain() {
                if let Some(warm) = &mut entry.warm {
                    self.counts.fetch_sub(1, Ordering::Relaxed);
                    self.guard(warm, &mut entry.demand).give_back_all(now);
                }
            }
        }
    }

    /// Takes out the units that wait to be given back, as commands.
    pub(in crate::store::redis) fn take_give_backs(&self, encoder: &Encoder) -> Vec<GuardedCommand> {
        self.give_backs.take(&self.nodes, encoder)
    }

    /// Drops the leases of these counts before a command that resets them on the server, and again when what
    /// this returns is dropped.
    pub(in crate::store::redis) fn reset_on_drop(self: &Arc<Self>, checks: &[Check<'_>]) -> ResetOnDrop {
        // Also for limits without leases, because another limit may lease units of the same count.
        let digests: Vec<u128> = checks.iter().map(|check| self.digest(check)).collect();
        self.reset(&digests, LeasedCount::begin_reset);
        ResetOnDrop { leases: Arc::clone(self), digests }
    }

    /// Begins or ends a reset of these counts.
    fn reset(&self, digests: &[u128], event: fn(&mut LeasedCount, &mut Effects)) {
        for &digest in digests {
            self.give_backs.forget(digest);
            let mut shard = self.lock_shard(digest);
            if let Some(mut guard) = self.count_in(&mut shard, digest) {
                event(guard.count, &mut guard.effects);
            }
        }
    }
}

/// Ends a reset of counts when it is dropped. The command keeps this until it has ended.
pub(in crate::store::redis) struct ResetOnDrop {
    leases: Arc<Leases>,
    digests: Vec<u128>,
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        self.leases.reset(&self.digests, LeasedCount::end_reset);
    }
}
