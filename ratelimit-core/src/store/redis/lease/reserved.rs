//! A request that takes held units and asks the server for the rest.

use smallvec::SmallVec;

use super::count::{Part, Taken, Terms};
use super::table::{Leases, outcome};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::outcome::{Decision, GroupOutcome, Outcome};

/// The held units of a request. They go back to their leases when this is dropped, unless the request was admitted.
pub(in crate::store::redis) struct ReservedUnits<'l> {
    leases: &'l Leases,
    members: SmallVec<[Member; 2]>,
}

/// One limit of the request.
struct Member {
    /// Lease interval in microseconds; 0 for a limit without leases.
    interval: u64,
    digest: u128,
    parts: SmallVec<[Part; 1]>,
    /// Units that the server has to decide about.
    missing: u64,
    /// The report as long as only held units are needed.
    held: Option<Taken>,
}

impl Member {
    /// Whether the server decides about the limit: also about a cost of nothing, which needs the state.
    fn is_asked(&self) -> bool {
        self.held.is_none()
    }
}

impl Leases {
    /// Reserves held units for the limits of a request, and records that it came.
    pub(in crate::store::redis) fn reserve(&self, group: &[Check<'_>]) -> ReservedUnits<'_> {
        let now = self.now();
        self.record_all(group, now);
        self.reserve_units(group, now)
    }

    fn record_all(&self, group: &[Check<'_>], now: u64) {
        for check in group {
            let interval = self.interval(check.policy());
            // A cost above the limit never passes, so it says nothing about how large leases should be.
            if interval > 0 && check.cost() <= check.policy().capacity() {
                self.record(self.digest(check), check.cost(), interval, now);
            }
        }
    }

    fn reserve_units(&self, group: &[Check<'_>], now: u64) -> ReservedUnits<'_> {
        let mut reserved = ReservedUnits { leases: self, members: SmallVec::new() };
        for (index, check) in group.iter().enumerate() {
            let cost = check.cost();
            let mut member = Member {
                interval: self.interval(check.policy()),
                digest: 0,
                parts: SmallVec::new(),
                missing: cost,
                held: None,
            };
            if member.interval > 0 {
                member.digest = self.digest(check);
                // A count that occurs twice is decided by the sum, which the server knows.
                let mut others = group.iter().enumerate().filter(|(other, _)| *other != index);
                if cost > 0 && !others.any(|(_, other)| other.shares_count_with(check)) {
                    self.change(member.digest, |count, _, connection, effects| {
                        let terms = Terms { policy: check.policy(), interval: member.interval, connection };
                        (member.parts, member.missing) = count.reserve(terms, cost, now, effects);
                        if member.missing > 0 && check.is_shadow() {
                            // The server may admit the request and not charge this limit, so it decides about all units.
                            member.parts.drain(..).for_each(|part| count.put_back(&part, now, effects));
                            member.missing = cost;
                        }
                        if member.missing == 0 {
                            member.held = Some(count.reserved_outcome(&member.parts, now));
                        }
                    });
                }
            }
            reserved.members.push(member);
        }
        reserved
    }

    /// Reserves held units for a settlement, as many as there are: they are charged already, and would otherwise be used beside
    /// the debt. Also those that another limit leases from the same count. Returns the units that are missing as well.
    pub(in crate::store::redis) fn reserve_for_settlement(
        &self,
        check: &Check<'_>,
    ) -> (ReservedUnits<'_>, u64) {
        let mut reserved = ReservedUnits { leases: self, members: SmallVec::new() };
        if !self.has_counts() {
            return (reserved, check.cost());
        }
        let (digest, now, interval) = (self.digest(check), self.now(), self.interval(check.policy()));
        // More units than the limit has are never held.
        let most = check.cost().min(check.policy().capacity());
        let (parts, missing) = self
            .change(digest, |count, _, connection, effects| {
                let interval = if interval > 0 { interval } else { count.interval() };
                let terms = Terms { policy: check.policy(), interval, connection };
                count.reserve(terms, most, now, effects)
            })
            .unwrap_or((SmallVec::new(), most));
        reserved.members.push(Member { interval, digest, parts, missing, held: None });
        (reserved, check.cost() - most + missing)
    }

    /// Admits a group, if all units of all its limits are held. Returns the outcome, and the indices of limits for which it is
    /// time for the next lease.
    pub(in crate::store::redis) fn take_group(
        &self,
        group: &[Check<'_>],
    ) -> Option<(GroupOutcome, SmallVec<[usize; 2]>)> {
        if !self.may_hold_all(group) {
            return None;
        }
        let now = self.now();
        let reserved = self.reserve_units(group, now);
        if reserved.members.iter().any(Member::is_asked) {
            return None;
        }
        let wanted = reserved.members.iter().enumerate();
        let wanted = wanted.filter(|(_, member)| member.held.is_some_and(|held| held.wants_lease));
        let wanted = wanted.map(|(index, _)| index).collect();
        let outcomes = reserved.outcomes(group, None);
        reserved.confirm();
        self.record_all(group, now);
        Some((outcomes, wanted))
    }

    /// What the check of a group would say without its charges, if all units of all its limits are held.
    pub(in crate::store::redis) fn peek_group(&self, group: &[Check<'_>]) -> Option<GroupOutcome> {
        if !self.may_hold_all(group) {
            return None;
        }
        let now = self.now();
        let peeked = group.iter().enumerate().map(|(index, check)| {
            if group[..index].iter().any(|other| other.shares_count_with(check)) {
                return None;
            }
            let taken = self.change(self.digest(check), |count, _, connection, effects| {
                let interval = self.interval(check.policy());
                let terms = Terms { policy: check.policy(), interval, connection };
                count.peek(terms, check.cost(), now, effects)
            });
            Some(outcome(check, &taken.flatten()?))
        });
        let outcomes: SmallVec<[Outcome; 2]> = peeked.collect::<Option<_>>()?;
        Some(GroupOutcome::decided_apart(outcomes))
    }

    /// Whether every limit of the group can have a lease.
    fn may_hold_all(&self, group: &[Check<'_>]) -> bool {
        !group.is_empty() && group.iter().all(|check| self.interval(check.policy()) > 0)
    }

    /// Adds what is held to the server's answer about a group of which nothing is charged.
    pub(in crate::store::redis) fn with_held(
        &self,
        group: &[Check<'_>],
        peeked: GroupOutcome,
    ) -> GroupOutcome {
        if group.iter().all(|check| self.interval(check.policy()) == 0) {
            return peeked;
        }
        let outcomes = peeked.outcomes().iter().zip(group).map(|(outcome, check)| {
            let held = match self.interval(check.policy()) {
                0 => 0,
                _ => self.change(self.digest(check), |count, _, _, _| count.held()).unwrap_or(0),
            };
            if held == 0 {
                return outcome.clone();
            }
            let remaining = outcome.remaining().saturating_add(held).min(outcome.limit());
            let passes = outcome.fits() || check.cost() <= remaining;
            if passes && !outcome.fits() { outcome.clone().admitted() } else { outcome.clone() }
                .with_remaining(remaining)
        });
        GroupOutcome::new(peeked.at(), outcomes)
    }

    /// Whether it is time to fetch the next lease of a limit in the background.
    pub(in crate::store::redis) fn may_prefetch(&self, check: &Check<'_>) -> bool {
        let (now, instances) = (self.now(), self.instances());
        let may = self.change(self.digest(check), |count, heat, _, _| {
            count.delay_prefetch(now);
            count.next_size(heat, instances, now) > 0
        });
        may.unwrap_or(false)
    }
}

impl ReservedUnits<'_> {
    /// The checks that the server has to decide: those without enough held units, at the cost that is missing.
    pub(in crate::store::redis) fn asked<'a>(&self, group: &[Check<'a>]) -> SmallVec<[Check<'a>; 2]> {
        let asked = group.iter().zip(&self.members).filter(|(_, member)| member.is_asked());
        asked.map(|(check, member)| check.with_cost(member.missing)).collect()
    }

    /// Whether the server decides about the whole group, as without leases.
    pub(in crate::store::redis) fn is_empty(&self) -> bool {
        self.members.iter().all(|member| member.parts.is_empty())
    }

    /// The outcome of the whole group, from that of the asked checks, if there are any. The units are not settled by this.
    fn outcomes(&self, group: &[Check<'_>], asked: Option<&GroupOutcome>) -> GroupOutcome {
        let is_allowed = asked.is_none_or(GroupOutcome::is_allowed);
        let mut from_server = asked.map(GroupOutcome::outcomes).unwrap_or_default().iter();
        let outcomes = group.iter().zip(&self.members).map(|(check, member)| match member.held {
            Some(mut held) => {
                if !is_allowed {
                    // The reserved units go back.
                    held.remaining = (held.remaining + check.cost()).min(check.policy().capacity());
                }
                outcome(check, &held)
            }
            None => from_server.next().map_or_else(
                || Outcome::new(check.policy().capacity(), Decision::Allowed),
                |outcome| self.asked_outcome(check, member, outcome, is_allowed),
            ),
        });
        GroupOutcome::decided_apart(outcomes)
    }

    /// The outcome of a limit of which the server decided the missing units.
    fn asked_outcome(
        &self,
        check: &Check<'_>,
        member: &Member,
        outcome: &Outcome,
        is_allowed: bool,
    ) -> Outcome {
        let outcome = outcome.clone().with_cost(check.cost());
        let Some(oldest) = member.parts.iter().map(Part::usable_until).min() else { return outcome };
        if is_allowed {
            // The units of the two parts may count in different windows, so neither instant fits a refund of both.
            let is_refundable = outcome.at() < Timestamp::from_micros(oldest);
            return if is_refundable { outcome } else { outcome.overflowed() };
        }
        // The wait for the whole cost: others may use the held units meanwhile.
        let whole = self.leases.change(member.digest, |count, _, _, _| count.denial(check.cost())).flatten();
        match whole {
            Some(whole) if !outcome.is_allowed() => whole,
            _ => outcome,
        }
    }

    /// The outcome of the whole group, after the server has decided about the asked checks. Held units of an admitted request
    /// are used, those of a denied one go back.
    pub(in crate::store::redis) fn finish(
        self,
        group: &[Check<'_>],
        asked: Option<&GroupOutcome>,
    ) -> GroupOutcome {
        let slots = asked.map(|asked| asked.slots().clone()).unwrap_or_default();
        let outcome = self.outcomes(group, asked).with_slots(slots);
        if outcome.is_allowed() {
            self.confirm();
        }
        outcome
    }

    /// The request was admitted or settled, so its held units were used when they were reserved.
    pub(in crate::store::redis) fn confirm(mut self) {
        for member in std::mem::take(&mut self.members) {
            for part in &member.parts {
                self.leases.change(member.digest, |count, _, _, effects| count.confirm(part, effects));
            }
        }
    }
}

impl Drop for ReservedUnits<'_> {
    fn drop(&mut self) {
        if self.members.iter().all(|member| member.parts.is_empty()) {
            return;
        }
        let now = self.leases.now();
        for member in &self.members {
            for part in &member.parts {
                self.leases.change(member.digest, |count, _, _, effects| count.put_back(part, now, effects));
            }
        }
    }
}
