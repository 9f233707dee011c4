//! Leases at each request. Unused units admit the request, or are given back before the server decides it.
//! Units of a refund are put back. This also chooses the limits whose leases learn from the answer.

use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::count::Taken;
use super::shard::LeaseShard;
use super::table::{CountGuard, LeaseTarget, Leases, shard_of};
use crate::algorithm::Operation;
use crate::check::{Check, OwnedCheck};
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Charge;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::denial_cache::change_bucket;
use crate::store::redis::protocol::Encoder;

/// From this demand on, the count keeps answers, so that the next call can request a lease.
const WARM: u64 = 2;

/// A limit of a request, with the digest of its count.
struct LeaseMember<'a> {
    check: &'a Check<'a>,
    digest: u128,
    interval: u64,
    is_peek: bool,
}

impl LeaseMember<'_> {
    /// Whether unused units cover the cost. A cost of 0 needs the state, which only the server has.
    #[inline]
    fn is_covered(&self, guard: &mut CountGuard<'_>, now: u64) -> bool {
        let (terms, cost) = (guard.terms(*self.check, self.interval), self.check.cost());
        guard.count.covers(terms, cost, now, &mut guard.effects) && (cost > 0 || self.is_peek)
    }
}

/// The outcome of a group, and the indices of limits for which it is time for the next lease.
type Admission = (GroupOutcome, SmallVec<[usize; 1]>);

/// The locked shards of a group, each with its index.
type LockedShards<'l> = SmallVec<[(usize, MutexGuard<'l, LeaseShard>); 2]>;

fn shard_in<'s>(locked: &'s mut LockedShards<'_>, member: &LeaseMember<'_>) -> Option<&'s mut LeaseShard> {
    Some(&mut locked.iter_mut().find(|(index, _)| *index == shard_of(member.digest))?.1)
}

/// The outcome of a limit that unused units admit.
fn outcome(check: &Check<'_>, taken: &Taken) -> Outcome {
    let outcome = Outcome::unknown(check)
        .with_remaining(taken.remaining)
        .with_reset_after(Duration::from_micros(taken.reset_after))
        .with_at(Timestamp::from_micros(taken.at));
    match taken.next_unit_after {
        Some(wait) => outcome.with_next_unit_after_us(wait),
        None => outcome,
    }
}

impl Leases {
    /// Whether the call for the group may request leases, which it may if every limit can have leases.
    fn may_fetch(&self, group: &[Check<'_>], operation: Operation) -> bool {
        operation == Operation::Check && group.iter().all(|check| self.interval(check.policy()) > 0)
    }

    /// Admits a group if unused units cover the cost of each limit. A peek uses no units.
    #[inline]
    pub(in crate::store::redis) fn take(
        &self,
        group: &[Check<'_>],
        operation: Operation,
    ) -> Option<Admission> {
        if !self.has_counts() {
            return None;
        }
        let is_peek = operation == Operation::Peek;
        match group {
            // Most requests have one limit. They need no lists.
            [check] => {
                let member = self.member(check, is_peek)?;
                let now = self.now();
                let mut shard = self.lock_shard(member.digest);
                let mut guard = self.count_in(&mut shard, member.digest)?;
                if !member.is_covered(&mut guard, now) {
                    return None;
                }
                let (outcome, wants_lease) = self.use_units(&mut guard, &member, now);
                Some((GroupOutcome::from(outcome), wants_lease.then_some(0).into_iter().collect()))
            }
            [] => None,
            _ => self.take_of_each(group, is_peek),
        }
    }

    /// A limit that may have a lease.
    #[inline]
    fn member<'a>(&self, check: &'a Check<'a>, is_peek: bool) -> Option<LeaseMember<'a>> {
        let interval = self.interval(check.policy());
        (interval > 0).then(|| LeaseMember { check, digest: self.digest(check), interval, is_peek })
    }

    /// [`take`](Self::take) of several limits.
    fn take_of_each(&self, group: &[Check<'_>], is_peek: bool) -> Option<Admission> {
        let members: SmallVec<[LeaseMember<'_>; 2]> =
            group.iter().map(|check| self.member(check, is_peek)).collect::<Option<_>>()?;
        let now = self.now();
        // All requests lock in the same order, so that no two of them wait for each other.
        let mut shards: SmallVec<[usize; 2]> = members.iter().map(|member| shard_of(member.digest)).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut locked: LockedShards<'_> =
            shards.into_iter().map(|shard| (shard, self.shards[shard].lock())).collect();
        for (index, member) in members.iter().enumerate() {
            let mut guard = self.count_in(shard_in(&mut locked, member)?, member.digest)?;
            let is_covered = member.is_covered(&mut guard, now);
            // If a count occurs twice, the sum of the costs decides, which only the server adds up.
            let is_shared = members[..index].iter().any(|other| other.digest == member.digest);
            if !is_covered || is_shared {
                return None;
            }
        }
        let mut wanted = SmallVec::new();
        let mut outcomes = SmallVec::<[Outcome; 1]>::new();
        for (index, member) in members.iter().enumerate() {
            let mut guard = self.count_in(shard_in(&mut locked, member)?, member.digest)?;
            let (outcome, wants_lease) = self.use_units(&mut guard, member, now);
            wanted.extend(wants_lease.then_some(index));
            outcomes.push(outcome);
        }
        Some((GroupOutcome::decided_apart(outcomes), wanted))
    }

    /// Uses units for a limit that is [covered](LeaseMember::is_covered). Returns its outcome, and whether it
    /// is time for the next lease.
    #[inline]
    fn use_units(&self, guard: &mut CountGuard<'_>, member: &LeaseMember<'_>, now: u64) -> (Outcome, bool) {
        let cost = if member.is_peek { 0 } else { member.check.cost() };
        let taken = guard.count.take(cost, now);
        let mut wants_lease = false;
        if !member.is_peek {
            guard.demand.record(cost, now, member.interval);
            wants_lease = taken.wants_lease && guard.count.may_prefetch(guard.demand, self.instances(), now);
        }
        (outcome(member.check, &taken), wants_lease)
    }

    /// Unused units of the count of a limit.
    pub(super) fn unused(&self, check: &Check<'_>) -> u64 {
        let digest = self.digest(check);
        let mut shard = self.lock_shard(digest);
        self.count_in(&mut shard, digest).map_or(0, |guard| guard.count.unused())
    }

    /// Adds the unused units to the server's answer about a group. A denied peek passes if they are enough.
    pub(in crate::store::redis) fn with_unused(
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
            let unused = if self.interval(check.policy()) > 0 { self.unused(check) } else { 0 };
            if unused == 0 {
                return outcome;
            }
            let remaining = outcome.remaining().saturating_add(unused).min(outcome.capacity());
            let passes = operation == Operation::Peek && !outcome.fits() && check.cost() <= remaining;
            if passes { outcome.admitted() } else { outcome }.with_remaining(remaining)
        })
    }

    /// Notes a request that the server decides. Returns the commands that give back unused units of its
    /// counts, unless the server surely has enough. They must be sent before the request, over the same
    /// connection. Before a settlement all units of the count are given back, also those that another limit
    /// leased.
    pub(in crate::store::redis) fn make_way(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        encoder: &Encoder,
    ) -> Vec<GuardedCommand> {
        let is_fetched = self.may_fetch(group, operation);
        if !(is_fetched || self.has_counts()) {
            return Vec::new();
        }
        let (now, instances) = (self.now(), self.instances());
        let mut given_back = Vec::new();
        for check in group {
            let interval = self.interval(check.policy());
            // A cost above the limit never passes, so it is no demand.
            let is_possible = interval > 0 && check.cost() <= check.policy().max();
            if !(is_possible || operation.overdraws()) {
                continue;
            }
            let digest = self.digest(check);
            let mut shard = self.lock_shard(digest);
            if is_fetched {
                shard.record(digest, check.cost(), interval, now);
            }
            let Some(mut guard) = self.count_in(&mut shard, digest) else { continue };
            if operation.overdraws() {
                guard.give_back_all(now);
            } else {
                let terms = guard.terms(*check, interval);
                let requested = guard.demand.units(now, interval).saturating_mul(instances);
                guard.count.make_way(terms, check.cost(), requested, now, &mut guard.effects);
            }
            given_back.extend(guard.effects.give_backs.drain(..).map(|back| (guard.count_id.clone(), back)));
        }
        self.give_backs.encode_all(&given_back, encoder)
    }

    /// Puts the units of a charge back into a lease. Returns false if the server has to refund them.
    pub(in crate::store::redis) fn put_back(&self, charge: &Charge<'_>) -> bool {
        let check = charge.check();
        let interval = self.interval(check.policy());
        if interval == 0 {
            return false;
        }
        let (now, digest) = (self.now(), self.digest(&check));
        let mut shard = self.lock_shard(digest);
        self.count_in(&mut shard, digest).is_some_and(|mut guard| {
            let terms = guard.terms(check, interval);
            guard.count.put_back(terms, check.cost(), charge.at().as_micros(), now, &mut guard.effects)
        })
    }

    /// The limits of a request that is about to be queued whose leases learn from the answer. For a caller
    /// with a single request there are none, so it costs no more than without leases.
    ///
    /// If leases can admit the group, its call may request the next ones. Otherwise only counts with leases
    /// learn from the answer, which may show a block or a debt.
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
            let learns = self.lock_shard(digest).find(digest).is_some_and(|entry| {
                entry.warm.is_some() || (interval > 0 && entry.demand.units(self.now(), interval) >= WARM)
            });
            if !learns {
                return None;
            }
            let (is_overdrawn, bucket) = (operation.overdraws(), change_bucket(check));
            let check = OwnedCheck::new(&check.without_caller());
            Some(LeaseTarget { digest, check, interval, is_overdrawn, bucket, limit })
        };
        group.iter().enumerate().filter_map(target).collect()
    }
}
