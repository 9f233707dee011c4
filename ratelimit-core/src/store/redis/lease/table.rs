//! The counts of which this process holds leases, or may soon: a bounded, sharded table under keyed digests.

mod ends;
mod refunds;
mod shard;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use self::shard::{Entry, Shard, Slot};
use super::count::{Answer, Count, Effects, LeaseRequest, Taken, Terms};
use super::count_name::{LeaseTarget, Origin};
use super::give_backs::GiveBacks;
use super::heat::Heat;
use super::size::is_leasable;
use crate::algorithm::{Operation, State};
use crate::check::Check;
use crate::clock::{Clock, Timestamp};
use crate::error::StoreError;
use crate::noted::Noted;
use crate::observe::log::{LogLimit, help};
use crate::observe::metrics;
use crate::outcome::{GroupOutcome, Numbers, Outcome, Verdict};
use crate::policy::{Leasing, Policy};
use crate::store::LeaseStatus;
use crate::store::redis::denial_cache::{DenialCache, change_bucket};
use crate::store::redis::key::StateKey;
use crate::store::redis::lanes::{ConnectionId, Lanes};
use crate::store::redis::protocol;

/// Number of locks over which the counts are spread.
const SHARDS: usize = 64;

/// From this heat on, answers are kept, so that the next call can ask for a lease.
const WARM: u64 = 2;

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
    shards: Box<[Mutex<Shard>]>,
    /// Number of counts of which something is held, or may be soon.
    counts: AtomicUsize,
    leased_buckets: Noted,
    pub(in crate::store::redis) lanes: Arc<Lanes>,
    pub(super) give_backs: GiveBacks,
    /// Wakes the sweeper when there is a count to sweep.
    pub(in crate::store::redis) has_count: Notify,
    /// One bit per hash of a policy about which a line was logged.
    logged: [AtomicU64; 16],
    odd_answers: LogLimit,
}

/// The outcome of a limit that held units admit.
pub(super) fn outcome(check: &Check<'_>, taken: &Taken) -> Outcome {
    let outcome = Outcome::from_numbers(Numbers {
        limit: check.policy().capacity(),
        cost: check.cost(),
        remaining: taken.remaining,
        reset_after_us: taken.reset_after,
        verdict: Verdict::Allowed,
    });
    let outcome = outcome.decided_at(Timestamp::from_micros(taken.at)).in_shadow_if(check.is_shadow());
    match taken.next_unit_after {
        Some(wait) => outcome.with_next_unit_after_us(wait),
        None => outcome,
    }
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
            leased_buckets: Noted::default(),
            lanes: Arc::new(Lanes::new(is_cluster)),
            give_backs: GiveBacks::new(denials),
            has_count: Notify::new(),
            logged: Default::default(),
            odd_answers: LogLimit::new(),
        }
    }

    /// Sets the number of processes that share the limits. It only affects how large leases are.
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

    /// The lease interval of a policy, in microseconds; 0 if its callers hold no leases.
    #[inline]
    pub(in crate::store::redis) fn interval(&self, policy: &Policy) -> u64 {
        // The one branch of limits without leases.
        if policy.lease_us() | self.default_us == 0 { 0 } else { self.leasable_interval(policy) }
    }

    fn leasable_interval(&self, policy: &Policy) -> u64 {
        let own = policy.lease_us();
        if policy.has_no_lease() {
            return 0;
        }
        if own == 0 && policy.algorithm().leasing() != Leasing::Returnable {
            // Without refunds and settlements a limit behaves differently, which a default must not change behind its back.
            return 0;
        }
        if is_leasable(policy, self.instances()) {
            return if own > 0 { own } else { self.default_us };
        }
        if own > 0 {
            self.log_useless_lease(policy);
        }
        0
    }

    /// Logs once that a policy with a lease can never hold one.
    #[cold]
    fn log_useless_lease(&self, policy: &Policy) {
        let bits = policy.state_id();
        let word = &self.logged[usize::try_from((bits >> 6) & 15).unwrap_or_default()];
        let bit = 1u64 << (bits & 63);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tracing::warn!(
                policy = policy.name(),
                help = help("lease-that-is-never-held"),
                "this limit never holds a lease: it needs at least 16 units per instance, and sub-windows of at least 50 ms"
            );
        }
    }

    /// Records that a server's answer about a lease does not follow from its state, or grants other units than were requested.
    /// Logged at most once a second.
    #[cold]
    pub(super) fn record_odd_answer(&self) {
        let error = StoreError::protocol(protocol::EXPECTED);
        metrics::failed(&error);
        if self.odd_answers.may_log() {
            tracing::warn!(
                help = help("odd-lease"),
                error = %error,
                "the server's answer about a lease is not used"
            );
        }
    }

    /// The digest of a limit's count.
    pub(super) fn digest(&self, check: &Check<'_>) -> u128 {
        check.digest(&self.digest_key)
    }

    fn lock_shard(&self, digest: u128) -> MutexGuard<'_, Shard> {
        // The upper half; the table uses the lower.
        #[allow(clippy::cast_possible_truncation, reason = "any 32 bits of a digest will do")]
        let bits = (digest >> 96) as usize;
        self.shards[bits % SHARDS].lock()
    }

    /// The leases of this process.
    pub(in crate::store::redis) fn status(&self) -> LeaseStatus {
        let mut status = self.give_backs.units.status();
        for shard in &self.shards {
            for slot in shard.lock().table.iter().filter_map(|entry| entry.slot.as_ref()) {
                let held = slot.count.held();
                status.held += held;
                status.callers += usize::from(held > 0);
            }
        }
        status
    }

    /// The present connection of a lane.
    pub(super) fn connection(&self, lane: u16) -> ConnectionId {
        // Lanes are not removed.
        self.lanes.present(usize::from(lane)).unwrap_or_default()
    }

    /// Admits a request of one limit, if as many units are held. Returns its outcome, and whether it is time for the next
    /// lease.
    pub(in crate::store::redis) fn take(
        &self,
        check: &Check<'_>,
        interval: u64,
    ) -> Option<(GroupOutcome, bool)> {
        let (digest, now) = (self.digest(check), self.now());
        let mut shard = self.lock_shard(digest);
        let Entry { heat, slot, .. } = shard.find(digest)?;
        let Slot { count, origin } = &mut **slot.as_mut()?;
        let terms = Terms { policy: check.policy(), interval, connection: self.connection(count.lane()) };
        let mut effects = Effects::default();
        let taken = count.take(terms, check.cost(), now, &mut effects);
        if taken.is_some() {
            heat.record(check.cost(), now, interval);
        }
        let wants_lease = taken.is_some_and(|taken| taken.wants_lease) && {
            // Another request may consider the next one a little later, whatever comes of this.
            count.delay_prefetch(now);
            count.next_size(heat, self.instances(), now) > 0
        };
        self.give_backs.note(origin, effects);
        drop(shard);
        Some((GroupOutcome::from_one(outcome(check, &taken?)), wants_lease))
    }

    /// Records a request of `cost` units.
    pub(super) fn record(&self, digest: u128, cost: u64, interval: u64, now: u64) {
        let mut shard = self.lock_shard(digest);
        if let Some(entry) = shard.find(digest) {
            entry.interval = interval;
            entry.heat.record(cost, now, interval);
        } else if shard.has_room(now) {
            let mut heat = Heat::default();
            heat.record(cost, now, interval);
            shard.next_sweep = shard.next_sweep.min(now + 2 * interval);
            shard.insert(Entry { digest, heat, interval, slot: None });
        }
    }

    /// Changes a count, if there is one, and passes on what follows from that.
    pub(super) fn change<R>(
        &self,
        digest: u128,
        change: impl FnOnce(&mut Count, &Heat, ConnectionId, &mut Effects) -> R,
    ) -> Option<R> {
        let mut shard = self.lock_shard(digest);
        let Entry { heat, slot, .. } = shard.find(digest)?;
        let Slot { count, origin } = &mut **slot.as_mut()?;
        let mut effects = Effects::default();
        let result = change(count, heat, self.connection(count.lane()), &mut effects);
        self.give_backs.note(origin, effects);
        Some(result)
    }

    /// Whether units of any count are held, or may be soon.
    #[inline]
    pub(super) fn has_counts(&self) -> bool {
        self.counts.load(Ordering::Relaxed) > 0
    }

    /// A limit of a request that is about to be queued, if the answer is of use: callers that come once cost no more than
    /// without leases.
    ///
    /// Answers to checks of a limit with a lease bring the next one. All others are of use for a count of which something is
    /// held, because they may tell a block or a debt.
    pub(in crate::store::redis) fn target(
        &self,
        check: &Check<'_>,
        limit: usize,
        operation: Operation,
    ) -> Option<LeaseTarget> {
        let interval = if operation == Operation::Check { self.interval(check.policy()) } else { 0 };
        if interval == 0 && !self.has_counts() {
            return None;
        }
        let digest = self.digest(check);
        let is_of_use = self.lock_shard(digest).find(digest).is_some_and(|entry| {
            entry.slot.is_some() || (interval > 0 && entry.heat.units(self.now(), interval) >= WARM)
        });
        is_of_use.then(|| LeaseTarget {
            digest,
            policy: check.policy().clone(),
            interval,
            is_overdrawn: operation.overdraws(),
            bucket: change_bucket(check),
            limit,
        })
    }

    /// What to ask the server for in the call that is about to be written.
    pub(super) fn lease_request(
        &self,
        target: &LeaseTarget,
        connection: ConnectionId,
        now: u64,
    ) -> Option<LeaseRequest> {
        let terms = Terms { policy: &target.policy, interval: target.interval, connection };
        let instances = self.instances();
        self.change(target.digest, |count, heat, _, effects| {
            count.lease_request(terms, heat, instances, now, effects)
        })
        .flatten()
    }

    /// Notes the state of a count after a call, and the answer to a request for a lease.
    pub(super) fn settle(
        &self,
        target: &LeaseTarget,
        key: &StateKey,
        connection: ConnectionId,
        answer: Answer,
        lease: Option<(LeaseRequest, bool)>,
    ) {
        let terms = Terms { policy: &target.policy, interval: target.interval, connection };
        let mut shard = self.lock_shard(target.digest);
        // The heat may have been dropped meanwhile.
        let Some(entry) = shard.find(target.digest) else { return };
        let is_new = entry.slot.is_none();
        let slot = entry.slot.get_or_insert_with(|| {
            let origin = Origin::of(target, key.clone());
            self.counts.fetch_add(1, Ordering::Relaxed);
            Box::new(Slot { count: Count::new(terms), origin })
        });
        let Slot { count, origin } = &mut **slot;
        let mut effects = Effects::default();
        match lease {
            Some((request, is_granted)) => {
                count.answer(request, connection, is_granted, answer, &mut effects);
            }
            None => count.tell(terms, answer, &mut effects),
        }
        self.give_backs.note(origin, effects);
        drop(shard);
        if let Some((request, true)) = lease {
            self.give_backs.units.record_lease(request.units);
        }
        if is_new || lease.is_some() {
            self.has_count.notify_one();
        }
    }

    /// Notes the state of a count after a call that took no lease of it.
    pub(super) fn tell(&self, target: &LeaseTarget, connection: ConnectionId, answer: Answer) {
        self.change(target.digest, |count, _, _, effects| count.overhear(connection, answer, effects));
    }

    /// Ends what is held of a count that is blocked now, or may be in debt.
    pub(super) fn end(&self, target: &LeaseTarget, state: &State, at: u64, now: u64) {
        self.change(target.digest, |count, _, connection, effects| {
            if target.is_overdrawn {
                count.close(connection, now, effects);
            }
            count.end_if_blocked(state, at, effects);
        });
    }

    /// Notes that a request for a lease got no answer.
    pub(super) fn abandon(&self, digest: u128, request: LeaseRequest) {
        self.change(digest, |count, _, _, _| count.abandon(request));
    }
}
