//! The counts of which this process holds leases, or may soon: a bounded, sharded table under keyed digests.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::count::{Answer, Effects, LeaseRequest, LeasedCount, Taken, Terms};
use super::give_backs::{CountId, GiveBacks};
use super::lessors::{LessorConnection, Lessors};
use super::shard::{LeaseShard, Warm};
use super::size::{Heat, is_leasable};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::{Clock, Timestamp};
use crate::observe::log::{Noted, help};
use crate::outcome::{GroupOutcome, Outcome};
use crate::policy::Policy;
use crate::reservation::Charge;
use crate::store::LeaseStatus;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::denial_cache::{DenialCache, change_bucket};
use crate::store::redis::key::StateKey;
use crate::store::redis::protocol::{Encoder, PolicyArg};

/// Number of locks over which the counts are spread.
const SHARDS: usize = 64;

/// From this heat on, answers are kept, so that the next call can ask for a lease.
const WARM: u64 = 2;

/// Shortest and longest pause between two sweeps.
const SWEEP_US: (u64, u64) = (5_000, 250_000);

/// All leases of a store.
#[derive(Debug)]
pub(in crate::store::redis) struct Leases {
    /// A clock that counts while the machine is suspended.
    clock: Arc<dyn Clock>,
    digest_key: [u8; 16],
    /// Lease of policies that set none, in microseconds; 0 for none.
    default_us: u64,
    /// Number of processes that share the limits.
    instances: AtomicU64,
    shards: Box<[Mutex<LeaseShard>]>,
    /// Number of counts of which something is held, or may be soon.
    counts: AtomicUsize,
    pub(in crate::store::redis) lessors: Lessors,
    pub(super) give_backs: GiveBacks,
    /// Wakes the sweeper when there is a count to sweep.
    pub(in crate::store::redis) has_count: Notify,
    /// Policies about which a line was logged, by their states.
    logged: Noted,
}

/// A limit of a queued request whose answer is of use for leases.
#[derive(Debug)]
pub(in crate::store::redis) struct LeaseTarget {
    pub(super) digest: u128,
    pub(super) policy: Policy,
    /// 0 if the answer only tells the leases of the count what has become of it.
    pub(super) interval: u64,
    /// Whether the answer may leave a debt.
    pub(super) is_overdrawn: bool,
    /// Bucket of the denial cache.
    pub(super) bucket: usize,
    /// Index of the limit in its request.
    pub(super) limit: usize,
}

impl LeaseTarget {
    /// Whether the call may ask for the next lease.
    pub(super) const fn fetches(&self) -> bool {
        self.interval > 0
    }

    pub(super) const fn terms(&self, connection: LessorConnection) -> Terms<'_> {
        Terms { policy: &self.policy, interval: self.interval, connection }
    }

    pub(super) fn count_id(&self, key: &StateKey) -> CountId {
        let Self { digest, bucket, ref policy, .. } = *self;
        CountId { digest, bucket, key: key.clone(), policy: PolicyArg::new(policy) }
    }
}

/// A limit of a request, where its count is found.
struct LeaseMember<'a> {
    check: &'a Check<'a>,
    digest: u128,
    interval: u64,
    shard: usize,
}

/// Shards that a request needs at one time, each with its index.
type LockedShards<'l> = SmallVec<[(usize, MutexGuard<'l, LeaseShard>); 2]>;

fn warm_of<'s>(
    locked: &'s mut LockedShards<'_>,
    member: &LeaseMember<'_>,
) -> Option<(&'s mut Warm, &'s mut Heat)> {
    locked.iter_mut().find(|(index, _)| *index == member.shard)?.1.warm(member.digest)
}

/// The outcome of a limit that held units admit.
fn outcome(check: &Check<'_>, taken: &Taken) -> Outcome {
    let outcome = Outcome::unknown(check)
        .with_remaining(taken.remaining)
        .with_reset_after(Duration::from_micros(taken.reset_after))
        .decided_at(Timestamp::from_micros(taken.at));
    match taken.next_unit_after {
        Some(wait) => outcome.with_next_unit_after_us(wait),
        None => outcome,
    }
}

/// The index of a digest's shard.
fn shard_of(digest: u128) -> usize {
    // The upper half; the table uses the lower.
    #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
    let bits = (digest >> 96) as usize;
    bits % SHARDS
}

impl Leases {
    pub(in crate::store::redis) fn new(
        clock: Arc<dyn Clock>,
        default_us: u64,
        is_cluster: bool,
        denials: Arc<DenialCache>,
    ) -> Self {
        Self {
            clock,
            digest_key: denials.digest_key(),
            default_us,
            instances: AtomicU64::new(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            counts: AtomicUsize::new(0),
            lessors: Lessors::new(is_cluster),
            give_backs: GiveBacks::new(denials),
            has_count: Notify::new(),
            logged: Noted::default(),
        }
    }

    /// Sets the number of processes that share the limits. It only affects how large leases are.
    pub(in crate::store::redis) fn set_instances(&self, instances: NonZeroU32) {
        self.instances.store(instances.get().into(), Ordering::Relaxed);
    }

    fn instances(&self) -> u64 {
        self.instances.load(Ordering::Relaxed)
    }

    /// The local time, in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    /// The lease interval of a policy, in microseconds; 0 if its callers hold no leases.
    #[inline]
    fn interval(&self, policy: &Policy) -> u64 {
        // The one branch of limits without leases.
        if self.may_lease(policy) { self.leasable_interval(policy) } else { 0 }
    }

    /// Whether callers of a policy may hold leases, now or with another number of processes.
    #[inline]
    pub(in crate::store::redis) fn may_lease(&self, policy: &Policy) -> bool {
        policy.lease_us() | self.default_us != 0
            && !policy.has_no_lease()
            && policy.algorithm().spec().is_leasable
    }

    fn leasable_interval(&self, policy: &Policy) -> u64 {
        let own = policy.lease_us();
        if is_leasable(policy, self.instances()) {
            return if own > 0 { own } else { self.default_us };
        }
        if own > 0 {
            self.log_useless_lease(policy);
        }
        0
    }

    /// Whether the answer to the group brings the next leases of its limits: every limit can have one.
    fn may_fetch(&self, group: &[Check<'_>], operation: Operation) -> bool {
        operation == Operation::Check && group.iter().all(|check| self.interval(check.policy()) > 0)
    }

    /// Logs once that a policy with a lease can never hold one.
    #[cold]
    fn log_useless_lease(&self, policy: &Policy) {
        if self.logged.note(policy.state_id()) {
            tracing::warn!(
                policy = policy.name(),
                help = help("lease-that-is-never-held"),
                "this limit never holds a lease: it needs at least 16 units per instance, and sub-windows of at least 50 ms"
            );
        }
    }

    /// The leases of this process.
    pub(in crate::store::redis) fn status(&self) -> LeaseStatus {
        let mut status = LeaseStatus::default();
        self.give_backs.observer.report(&mut status);
        for shard in &self.shards {
            for warm in shard.lock().table.iter().filter_map(|entry| entry.warm.as_ref()) {
                let held = warm.count.held();
                status.held += held;
                status.callers += usize::from(held > 0);
            }
        }
        status
    }

    pub(super) fn digest(&self, check: &Check<'_>) -> u128 {
        check.digest_in_window(&self.digest_key)
    }

    fn lock_shard(&self, digest: u128) -> MutexGuard<'_, LeaseShard> {
        self.shards[shard_of(digest)].lock()
    }

    /// The present connection of a lessor.
    pub(super) fn connection(&self, lessor: u16) -> LessorConnection {
        // Lessors are not removed.
        self.lessors.present(usize::from(lessor)).unwrap_or_default()
    }

    /// Changes a count, if there is one, and passes on what follows from that.
    pub(super) fn change<R>(
        &self,
        digest: u128,
        change: impl FnOnce(&mut LeasedCount, &Heat, LessorConnection, &mut Effects) -> R,
    ) -> Option<R> {
        self.change_and(digest, change, |_, _| {})
    }

    /// The same. `take` may take out what is given back.
    fn change_and<R>(
        &self,
        digest: u128,
        change: impl FnOnce(&mut LeasedCount, &Heat, LessorConnection, &mut Effects) -> R,
        take: impl FnOnce(&CountId, &mut Effects),
    ) -> Option<R> {
        let mut shard = self.lock_shard(digest);
        let (Warm { count, count_id }, heat) = shard.warm(digest)?;
        let mut effects = Effects::default();
        let result = change(count, heat, self.connection(count.lessor()), &mut effects);
        take(count_id, &mut effects);
        self.give_backs.note(count_id, effects);
        Some(result)
    }

    /// Whether units of any count are held, or may be soon.
    #[inline]
    pub(super) fn has_counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed) > 0
    }

    // ---- Take

    /// Admits a group, if all units of all its limits are held. Returns the outcome, and the indices of
    /// limits for which it is time for the next lease. A peek uses nothing.
    #[inline]
    pub(in crate::store::redis) fn take(
        &self,
        group: &[Check<'_>],
        operation: Operation,
    ) -> Option<(GroupOutcome, SmallVec<[usize; 1]>)> {
        if !self.has_counts() {
            return None;
        }
        let is_peek = operation == Operation::Peek;
        match group {
            // Most requests have one limit, which needs no lists.
            [check] => {
                let member = self.member(check)?;
                let now = self.now();
                let mut shard = self.shards[member.shard].lock();
                let (warm, heat) = shard.warm(member.digest)?;
                if !self.holds(warm, &member, is_peek, now) {
                    return None;
                }
                let (outcome, wants_lease) = self.use_held(&mut warm.count, heat, &member, is_peek, now);
                Some((GroupOutcome::from(outcome), wants_lease.then_some(0).into_iter().collect()))
            }
            [] => None,
            _ => self.take_of_each(group, is_peek),
        }
    }

    /// A limit that may have a lease.
    #[inline]
    fn member<'a>(&self, check: &'a Check<'a>) -> Option<LeaseMember<'a>> {
        let interval = self.interval(check.policy());
        if interval == 0 {
            return None;
        }
        let digest = self.digest(check);
        Some(LeaseMember { check, digest, interval, shard: shard_of(digest) })
    }

    /// [`take`](Self::take) of several limits.
    fn take_of_each(
        &self,
        group: &[Check<'_>],
        is_peek: bool,
    ) -> Option<(GroupOutcome, SmallVec<[usize; 1]>)> {
        let members: SmallVec<[LeaseMember<'_>; 2]> =
            group.iter().map(|check| self.member(check)).collect::<Option<_>>()?;
        let now = self.now();
        // In one order everywhere, so that no two requests wait for each other.
        let mut shards: SmallVec<[usize; 2]> = members.iter().map(|member| member.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut locked: LockedShards<'_> =
            shards.into_iter().map(|shard| (shard, self.shards[shard].lock())).collect();
        for (index, member) in members.iter().enumerate() {
            let (warm, _) = warm_of(&mut locked, member)?;
            let is_held = self.holds(warm, member, is_peek, now);
            // A count that occurs twice is decided by the sum, which the server knows.
            let is_shared = members[..index].iter().any(|other| other.digest == member.digest);
            if !is_held || is_shared {
                return None;
            }
        }
        let mut wanted = SmallVec::new();
        let mut outcomes = SmallVec::<[Outcome; 2]>::new();
        for (index, member) in members.iter().enumerate() {
            let (Warm { count, .. }, heat) = warm_of(&mut locked, member)?;
            let (outcome, wants_lease) = self.use_held(count, heat, member, is_peek, now);
            wanted.extend(wants_lease.then_some(index));
            outcomes.push(outcome);
        }
        Some((GroupOutcome::decided_apart(outcomes), wanted))
    }

    /// Whether all units of a limit are held. A cost of nothing is decided by the state, which the server
    /// knows.
    #[inline]
    fn holds(&self, warm: &mut Warm, member: &LeaseMember<'_>, is_peek: bool, now: u64) -> bool {
        let Warm { count, count_id } = warm;
        let (policy, cost) = (member.check.policy(), member.check.cost());
        let terms = Terms { policy, interval: member.interval, connection: self.connection(count.lessor()) };
        let mut effects = Effects::default();
        let is_held = count.holds(terms, cost, now, &mut effects);
        self.give_backs.note(count_id, effects);
        is_held && (cost > 0 || is_peek)
    }

    /// Uses the units of a limit, which are [held](Self::holds). Returns its outcome, and whether it is time
    /// for the next lease.
    #[inline]
    fn use_held(
        &self,
        count: &mut LeasedCount,
        heat: &mut Heat,
        member: &LeaseMember<'_>,
        is_peek: bool,
        now: u64,
    ) -> (Outcome, bool) {
        let cost = if is_peek { 0 } else { member.check.cost() };
        let taken = count.take(cost, now);
        if !is_peek {
            heat.record(cost, now, member.interval);
        }
        let wants_lease = !is_peek && taken.wants_lease && count.may_prefetch(heat, self.instances(), now);
        (outcome(member.check, &taken), wants_lease)
    }

    /// Adds what is held to the server's answer about a group. A request that was only looked at passes by
    /// held units as well.
    pub(in crate::store::redis) fn with_held(
        &self,
        group: &[Check<'_>],
        answer: GroupOutcome,
        operation: Operation,
    ) -> GroupOutcome {
        if !self.has_counts() || group.iter().all(|check| self.interval(check.policy()) == 0) {
            return answer;
        }
        answer.map(|index, outcome| {
            let check = &group[index];
            let held = match self.interval(check.policy()) {
                0 => 0,
                _ => self.change(self.digest(check), |count, _, _, _| count.held()).unwrap_or(0),
            };
            if held == 0 {
                return outcome;
            }
            let remaining = outcome.remaining().saturating_add(held).min(outcome.limit());
            let passes = operation == Operation::Peek && !outcome.fits() && check.cost() <= remaining;
            if passes { outcome.admitted() } else { outcome }.with_remaining(remaining)
        })
    }

    // ---- Give back

    /// Notes a request that the server decides as a whole, and returns the commands that give back what is
    /// held of its limits, as far as it is in the way: they have to go before the request, over the same
    /// connection. A settlement gives back what is held of the count by any limit.
    pub(in crate::store::redis) fn make_way(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        encoder: &Encoder,
        is_cluster: bool,
    ) -> Vec<GuardedCommand> {
        let (now, instances) = (self.now(), self.instances());
        let mut given_back = Vec::new();
        let mut take = |count_id: &CountId, effects: &mut Effects| {
            given_back.extend(effects.give_backs.drain(..).map(|back| (count_id.clone(), back)));
        };
        let is_fetched = self.may_fetch(group, operation);
        for check in group {
            let interval = self.interval(check.policy());
            // A cost above the limit never passes, so it says nothing about how large leases should be.
            let is_possible = interval > 0 && check.cost() <= check.policy().max();
            if is_possible && is_fetched {
                let digest = self.digest(check);
                self.lock_shard(digest).record(digest, check.cost(), interval, now);
            }
            if !self.has_counts() {
                continue;
            }
            if operation.overdraws() {
                let change = |count: &mut LeasedCount, _: &Heat, connection, effects: &mut Effects| {
                    count.give_back_all(connection, now, effects);
                };
                self.change_and(self.digest(check), change, &mut take);
            } else if is_possible {
                let change = |count: &mut LeasedCount, heat: &Heat, connection, effects: &mut Effects| {
                    let terms = Terms { policy: check.policy(), interval, connection };
                    let asked = heat.units(now, interval).saturating_mul(instances);
                    count.make_way(terms, check.cost(), asked, now, effects);
                };
                self.change_and(self.digest(check), change, &mut take);
            }
        }
        self.give_backs.encode_all(&given_back, encoder, is_cluster)
    }

    /// Puts the units of a charge back into a lease. Returns false if the server has to refund them.
    pub(in crate::store::redis) fn put_back(&self, charge: &Charge<'_>) -> bool {
        let check = charge.check();
        let interval = self.interval(check.policy());
        if interval == 0 {
            return false;
        }
        let now = self.now();
        let is_back = self.change(self.digest(&check), |count, _, connection, effects| {
            let terms = Terms { policy: check.policy(), interval, connection };
            count.put_back(terms, check.cost(), charge.at().as_micros(), now, effects)
        });
        is_back.unwrap_or(false)
    }

    /// Ends what may no longer be used, and gives back what was not used for an interval. Returns the pause
    /// until the next sweep, and `None` when nothing is left to sweep.
    pub(in crate::store::redis) fn sweep(&self) -> Option<Duration> {
        let (now, mut shortest, mut held) = (self.now(), None, 0);
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.table.retain(|entry| {
                if let Some(warm) = &mut entry.warm {
                    let mut effects = Effects::default();
                    let connection = self.connection(warm.count.lessor());
                    let is_idle = warm.count.sweep(connection, now, &mut effects);
                    self.give_backs.note(&warm.count_id, effects);
                    held += warm.count.held();
                    shortest = Some(shortest.map_or(entry.interval, |one: u64| one.min(entry.interval)));
                    if is_idle && entry.is_cold(now) {
                        entry.warm = None;
                        self.counts.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                entry.warm.is_some() || !entry.is_cold(now)
            });
        }
        self.give_backs.observer.held(held);
        shortest.map(|interval| Duration::from_micros((interval / 4).clamp(SWEEP_US.0, SWEEP_US.1)))
    }

    /// Gives back everything that is held, at the end of the process.
    pub(in crate::store::redis) fn close(&self) {
        let now = self.now();
        for shard in &self.shards {
            for entry in shard.lock().table.drain() {
                if let Some(mut warm) = entry.warm {
                    self.counts.fetch_sub(1, Ordering::Relaxed);
                    let mut effects = Effects::default();
                    warm.count.give_back_all(self.connection(warm.count.lessor()), now, &mut effects);
                    self.give_backs.note(&warm.count_id, effects);
                }
            }
        }
    }

    /// Takes out the units that wait to be given back, as commands.
    pub(in crate::store::redis) fn take_give_backs(
        &self,
        encoder: &Encoder,
        is_cluster: bool,
    ) -> Vec<GuardedCommand> {
        self.give_backs.take(&self.lessors, encoder, is_cluster)
    }

    /// Drops the leases of these counts before a command that resets them on the server, and again at its
    /// end.
    pub(in crate::store::redis) fn reset_on_drop(self: &Arc<Self>, checks: &[Check<'_>]) -> ResetOnDrop {
        // Those of limits without a lease as well: another limit may lease the same count.
        let digests: Vec<u128> = checks.iter().map(|check| self.digest(check)).collect();
        for &digest in &digests {
            self.give_backs.forget(digest);
            self.change(digest, |count, _, _, effects| count.begin_reset(effects));
        }
        ResetOnDrop { leases: Arc::clone(self), digests }
    }

    // ---- Learn

    /// The limits of a request that is about to be queued whose answers are of use: callers that come once
    /// cost no more than without leases.
    ///
    /// Answers to checks of a group that leases can admit bring the next ones. All others are of use for a
    /// count of which something is held, because they may tell a block or a debt.
    pub(in crate::store::redis) fn targets(
        &self,
        group: &[Check<'_>],
        operation: Operation,
    ) -> Box<[LeaseTarget]> {
        let is_fetched = self.may_fetch(group, operation);
        if !is_fetched && !self.has_counts() {
            return Box::default();
        }
        let target = |(limit, check): (usize, &Check<'_>)| {
            let digest = self.digest(check);
            let interval = if is_fetched { self.interval(check.policy()) } else { 0 };
            let is_of_use = self.lock_shard(digest).find(digest).is_some_and(|entry| {
                entry.warm.is_some() || (interval > 0 && entry.heat.units(self.now(), interval) >= WARM)
            });
            let (is_overdrawn, bucket) = (operation.overdraws(), change_bucket(check));
            is_of_use.then(|| LeaseTarget {
                digest,
                policy: check.policy().clone(),
                interval,
                is_overdrawn,
                bucket,
                limit,
            })
        };
        group.iter().enumerate().filter_map(target).collect()
    }

    /// What to ask the server for in the call that is about to be written.
    pub(super) fn lease_request(
        &self,
        target: &LeaseTarget,
        connection: LessorConnection,
        now: u64,
    ) -> Option<LeaseRequest> {
        let (terms, instances) = (target.terms(connection), self.instances());
        self.change(target.digest, |count, heat, _, effects| {
            count.lease_request(terms, heat, instances, now, effects)
        })
        .flatten()
    }

    /// Learns what an answer tells about a count.
    pub(super) fn learn(&self, target: &LeaseTarget, key: &StateKey, mut answer: Answer) {
        let mut shard = self.lock_shard(target.digest);
        // The heat may have been dropped meanwhile.
        let Some(entry) = shard.find(target.digest) else { return };
        let is_new = entry.warm.is_none();
        if is_new && !(target.fetches() && answer.is_present) {
            return;
        }
        let Warm { count, count_id } = &mut **entry.warm.get_or_insert_with(|| {
            self.counts.fetch_add(1, Ordering::Relaxed);
            let count = LeasedCount::new(target.terms(answer.connection));
            Box::new(Warm { count, count_id: target.count_id(key) })
        });
        if !answer.is_present {
            answer.connection = self.connection(count.lessor());
        }
        let (mut effects, lease) = (Effects::default(), answer.lease);
        count.learn(answer, &mut effects);
        self.give_backs.note(count_id, effects);
        drop(shard);
        if let Some((request, true)) = lease {
            self.give_backs.observer.granted(request.units);
        }
        if is_new || lease.is_some() {
            self.has_count.notify_one();
        }
    }

    /// Learns that a request for a lease got no answer.
    pub(super) fn abandon(&self, digest: u128, request: LeaseRequest) {
        self.change(digest, |count, _, _, _| count.abandon(request));
    }
}

/// Ends a reset of counts when it is dropped. It travels with the command, and is dropped at its end.
pub(in crate::store::redis) struct ResetOnDrop {
    leases: Arc<Leases>,
    digests: Vec<u128>,
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        for &digest in &self.digests {
            self.leases.give_backs.forget(digest);
            self.leases.change(digest, |count, _, _, effects| count.end_reset(effects));
        }
    }
}
