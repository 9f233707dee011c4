//! Leases at each request: held units admit it, or make way for it on the server; what it does not need comes
//! back; and which of its limits learn from the answer.

use std::time::Duration;

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::count::Taken;
use super::shard::LeaseShard;
use super::table::{CountGuard, LeaseTarget, Leases, shard_of};
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{GroupOutcome, Outcome};
use crate::reservation::Charge;
use crate::store::redis::command::GuardedCommand;
use crate::store::redis::denial_cache::change_bucket;
use crate::store::redis::protocol::Encoder;

/// From this demand on, answers are kept, so that the next call can ask for a lease.
const WARM: u64 = 2;

/// A limit of a request, where its count is found.
struct LeaseMember<'a> {
    check: &'a Check<'a>,
    digest: u128,
    interval: u64,
    is_peek: bool,
}

impl LeaseMember<'_> {
    /// Whether all units of the limit are held. A cost of nothing is decided by the state, which the server
    /// knows.
    #[inline]
    fn is_covered(&self, one: &mut CountGuard<'_>, now: u64) -> bool {
        let (terms, cost) = (one.terms(self.check.policy(), self.interval), self.check.cost());
        one.count.covers(terms, cost, now, &mut one.effects) && (cost > 0 || self.is_peek)
    }
}

/// The outcome of a group, and the indices of limits for which it is time for the next lease.
type Admission = (GroupOutcome, SmallVec<[usize; 1]>);

/// Shards that a request needs at one time, each with its index.
type LockedShards<'l> = SmallVec<[(usize, MutexGuard<'l, LeaseShard>); 2]>;

fn shard_in<'s>(locked: &'s mut LockedShards<'_>, member: &LeaseMember<'_>) -> Option<&'s mut LeaseShard> {
    Some(&mut locked.iter_mut().find(|(index, _)| *index == shard_of(member.digest))?.1)
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

impl Leases {
    /// Whether the answer to the group brings the next leases of its limits: every limit can have one.
    fn may_fetch(&self, group: &[Check<'_>], operation: Operation) -> bool {
        operation == Operation::Check && group.iter().all(|check| self.interval(check.policy()) > 0)
    }

    /// Admits a group, if all units of all its limits are held. A peek uses nothing.
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
            // Most requests have one limit, which needs no lists.
            [check] => {
                let member = self.member(check, is_peek)?;
                let now = self.now();
                let mut shard = self.lock_shard(member.digest);
                let mut one = self.count_in(&mut shard, member.digest)?;
                if !member.is_covered(&mut one, now) {
                    return None;
                }
                let (outcome, wants_lease) = self.use_units(&mut one, &member, now);
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
        // In one order everywhere, so that no two requests wait for each other.
        let mut shards: SmallVec<[usize; 2]> = members.iter().map(|member| shard_of(member.digest)).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut locked: LockedShards<'_> =
            shards.into_iter().map(|shard| (shard, self.shards[shard].lock())).collect();
        for (index, member) in members.iter().enumerate() {
            let mut one = self.count_in(shard_in(&mut locked, member)?, member.digest)?;
            let is_covered = member.is_covered(&mut one, now);
            // A count that occurs twice is decided by the sum, which the server knows.
            let is_shared = members[..index].iter().any(|other| other.digest == member.digest);
            if !is_covered || is_shared {
                return None;
            }
        }
        let mut wanted = SmallVec::new();
        let mut outcomes = SmallVec::<[Outcome; 2]>::new();
        for (index, member) in members.iter().enumerate() {
            let mut one = self.count_in(shard_in(&mut locked, member)?, member.digest)?;
            let (outcome, wants_lease) = self.use_units(&mut one, member, now);
            wanted.extend(wants_lease.then_some(index));
            outcomes.push(outcome);
        }
        Some((GroupOutcome::decided_apart(outcomes), wanted))
    }

    /// Uses the units of a limit, which are [held](LeaseMember::is_covered). Returns its outcome, and whether it
    /// is time for the next lease.
    #[inline]
    fn use_units(&self, one: &mut CountGuard<'_>, member: &LeaseMember<'_>, now: u64) -> (Outcome, bool) {
        let cost = if member.is_peek { 0 } else { member.check.cost() };
        let taken = one.count.take(cost, now);
        let mut wants_lease = false;
        if !member.is_peek {
            one.demand.record(cost, now, member.interval);
            wants_lease = taken.wants_lease && one.count.may_prefetch(one.demand, self.instances(), now);
        }
        (outcome(member.check, &taken), wants_lease)
    }

    /// Units that are held of the count of a limit.
    pub(super) fn unused(&self, check: &Check<'_>) -> u64 {
        let digest = self.digest(check);
        let mut shard = self.lock_shard(digest);
        self.count_in(&mut shard, digest).map_or(0, |one| one.count.unused())
    }

    /// Adds what is held to the server's answer about a group. A request that was only looked at passes by
    /// held units as well.
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
            let remaining = outcome.remaining().saturating_add(unused).min(outcome.limit());
            let passes = operation == Operation::Peek && !outcome.fits() && check.cost() <= remaining;
            if passes { outcome.admitted() } else { outcome }.with_remaining(remaining)
        })
    }

    /// Notes a request that the server decides as a whole, and returns the commands that give back what is
    /// held of its limits, as far as it is in the way: they have to go before the request, over the same
    /// connection. A settlement gives back what is held of the count by any limit.
    pub(in crate::store::redis) fn make_way(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        encoder: &Encoder,
    ) -> Vec<GuardedCommand> {
        let (now, instances) = (self.now(), self.instances());
        let mut given_back = Vec::new();
        let is_fetched = self.may_fetch(group, operation);
        for check in group {
            let interval = self.interval(check.policy());
            // A cost above the limit never passes, so it says nothing about how large leases should be.
            let is_possible = interval > 0 && check.cost() <= check.policy().max();
            if !(is_possible || operation.overdraws()) || !(is_fetched || self.has_counts()) {
                continue;
            }
            let digest = self.digest(check);
            let mut shard = self.lock_shard(digest);
            if is_fetched {
                shard.record(digest, check.cost(), interval, now);
            }
            let Some(mut one) = self.count_in(&mut shard, digest) else { continue };
            if operation.overdraws() {
                one.give_back_all(now);
            } else {
                let terms = one.terms(check.policy(), interval);
                let requested = one.demand.units(now, interval).saturating_mul(instances);
                one.count.make_way(terms, check.cost(), requested, now, &mut one.effects);
            }
            given_back.extend(one.effects.give_backs.drain(..).map(|back| (one.count_id.clone(), back)));
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
        self.count_in(&mut shard, digest).is_some_and(|mut one| {
            let terms = one.terms(check.policy(), interval);
            one.count.put_back(terms, check.cost(), charge.at().as_micros(), now, &mut one.effects)
        })
    }

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
                entry.warm.is_some() || (interval > 0 && entry.demand.units(self.now(), interval) >= WARM)
            });
            if !is_of_use {
                return None;
            }
            let (policy, is_overdrawn, bucket) =
                (check.policy().clone(), operation.overdraws(), change_bucket(check));
            Some(LeaseTarget { digest, policy, interval, is_overdrawn, bucket, limit })
        };
        group.iter().enumerate().filter_map(target).collect()
    }
}
