//! What the suite says about stores with a mistake: the clause, the algorithm, what was expected and what
//! differs.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ratelimit_core::clock::{Clock, FakeClock, SystemClock};
use ratelimit_core::conformance::{Tested, cases, clock};
use ratelimit_core::store::toolkit::{Operation, State, decide_with, owned, reset_with};
use ratelimit_core::store::{Deadline, Store};
use ratelimit_core::{
    Algorithm, Check, GroupOutcome, Mode, Outcome, Policy, PolicyBuilder, Reservation, StoreError, Timestamp,
};

use super::{DIGEST_KEY, block_on};

/// Mistakes that the random histories find; each with the clause that it breaks, if that does not depend on
/// whether the smallest history has a group, which is by chance. And those that the cases about slots find.
macro_rules! mistakes {
    (
        in_histories { $($(#[$doc:meta])* $mistake:ident $(: $clause:literal)?,)+ }
        in_slots { $($(#[$slots_doc:meta])* $of_slots:ident,)+ }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Mistake {
            /// Loads and stores in two transactions, which only a race finds.
            LostUpdate,
            $($(#[$doc])* $mistake,)+
            $($(#[$slots_doc])* $of_slots,)+
        }

        const IN_HISTORIES: &[(Mistake, &str)] = &[$((Mistake::$mistake, concat!("contract " $(, $clause)?))),+];
        const IN_SLOTS: &[Mistake] = &[$(Mistake::$of_slots),+];
    };
}

mistakes! {
    in_histories {
        OwnClock: "4, one clock",
        DenialsAreErrors: "5, a denial is an outcome",
        DenialsCharge: "2, all or nothing",
        PeeksCharge,
        PeeksBeginBlocks,
        LooksCharge,
        LooksBeginNoBlock,
        CostsOfZeroCharge,
        LargeCostsPass,
        ResetsForgetAll,
        ResetsForgetNothing,
        ChecksEachLimitByItself,
        /// A count that occurs twice in a group is charged once.
        ChargesACountOnce: "2, all or nothing",
        JudgesTheFirstLimitsOnly,
        CallersAreCStrings,
        CallersAreText,
        RefundsNothing,
        RefundsTheFirstChargeOnly,
        RefundsReachLaterWindows,
        UpToIsAllOrNothing,
        DebtsAreForgiven,
        ShadowLimitsAreNotCharged,
        ShadowDenialsChargeNothing,
        WaitsAreChecks,
        TurnsAreKept,
        TurnsAreCharges,
        WaitsTellNothing,
        CallersAreCutTo255Bytes,
        CallersAreCutTo64KiB,
        UpToIsOfEachLimit: "2, all or nothing",
        ResetsForgetTheFirstLimitOnly,
        ResetsKeepBlocks,
        RefundsCountTwice,
        ChargesEndAMicrosecondEarly,
        /// Of token buckets, whose charges end when they are refilled.
        ChargesEndASecondLate,
        BlocksAreNotKept,
        /// Of a denied request, whose step may change a state.
        DenialsKeepTheState,
        TriedChecksChargeNothing,
        /// When they are tried, whatever the time is.
        DenialsAreRepeated,
        /// Of a limit that is exceeded already.
        SecondDebtsAreForgiven,
        ChecksOfNothingForget,
        StatesEndAMicrosecondEarly,
        StatesEndAfterAWindow,
        StatesEndWithTheWindow,
        // Decides under another policy.
        WithoutBlocks,
        WithLongerBlocks,
        ShadowLimitsAreEnforced,
        WithoutSubWindows,
        KeysAreOne,
        WindowsAreOne,
        MonthsHaveThirtyDays,
    }
    in_slots {
        SlotsAreFreedAtOnce,
        SlotsAreRequests,
        SlotsEndAfterFourSeconds,
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().unwrap()
}

fn policy(like: &Policy) -> PolicyBuilder {
    let key = ["random", "other", "month"].into_iter().find(|key| *key == like.key()).unwrap();
    Policy::builder(key).algorithm(like.algorithm()).max(like.max()).window(like.window())
}

impl Mistake {
    /// The policy by which the store decides in place of another.
    fn instead(self, of: &Policy) -> Option<Policy> {
        let (minute, has_longer) = (Duration::from_secs(60), of.window() == Duration::from_secs(61));
        match self {
            Self::WithoutBlocks => of.block().map(|_| policy(of).build()),
            Self::WithLongerBlocks => of.block().map(|block| policy(of).block(2 * block).build()),
            Self::ShadowLimitsAreEnforced => (of.mode() == Mode::Shadow).then(|| policy(of).build()),
            Self::WithoutSubWindows => (of.sub_windows() > 1).then(|| policy(of).build()),
            Self::KeysAreOne => (of.key() == "other").then(|| policy(of).build().with_key("random").unwrap()),
            Self::WindowsAreOne => has_longer.then(|| policy(of).window(minute).build()),
            Self::MonthsHaveThirtyDays => {
                of.calendar().map(|_| policy(of).window(30 * 24 * 60 * minute).build())
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Broken {
    mistake: Mistake,
    clock: FakeClock,
    states: Mutex<HashMap<u128, State>>,
    /// Of each state the instant at which it was written, and the window of its policy, in microseconds.
    written: Mutex<HashMap<u128, (u64, u64)>>,
    /// The last denial of each count.
    denied: Mutex<HashMap<u128, GroupOutcome>>,
}

impl Broken {
    fn new(mistake: Mistake, clock: &FakeClock) -> Self {
        let (states, written, denied) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { mistake, clock: clock.clone(), states, written, denied }
    }

    fn denied(&self) -> MutexGuard<'_, HashMap<u128, GroupOutcome>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, State>> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now().as_micros();
        // The window of a concurrency limit.
        let slots = 10_000_000;
        states.retain(|digest, state| {
            let Some(&(at, window)) = written.get(digest) else { return true };
            match self.mistake {
                Mistake::StatesEndAMicrosecondEarly => now + 1 < state.expires_at().as_micros(),
                Mistake::StatesEndAfterAWindow => now < at + window,
                Mistake::StatesEndWithTheWindow => now < at - at % window + window,
                Mistake::SlotsEndAfterFourSeconds => window != slots || now < at + 4_000_000,
                _ => true,
            }
        });
        states
    }

    /// The policies and callers by which the store decides in place of those of the group.
    fn instead(&self, group: &[Check<'_>]) -> Vec<(Policy, Vec<u8>)> {
        let instead = |check: &Check<'_>| {
            let policy = self.mistake.instead(check.policy());
            let caller = check.partition();
            let caller = match self.mistake {
                Mistake::CallersAreCStrings => caller.split(|byte| *byte == 0).next().unwrap(),
                Mistake::CallersAreText => {
                    str::from_utf8(caller).map_or(b"?".as_slice(), |text| text.trim().as_bytes())
                }
                Mistake::CallersAreCutTo255Bytes => &caller[..caller.len().min(255)],
                Mistake::CallersAreCutTo64KiB => &caller[..caller.len().min(1 << 16)],
                _ => caller,
            };
            (policy.unwrap_or_else(|| check.policy().clone()), caller.to_vec())
        };
        group.iter().map(instead).collect()
    }
}

impl Store for Broken {
    fn try_decide(&self, group: &[Check<'_>], operation: Operation) -> Option<GroupOutcome> {
        if let (Mistake::DenialsAreRepeated, [check]) = (self.mistake, group) {
            return self.denied().get(&check.digest(&DIGEST_KEY, self.clock.now())).cloned();
        }
        if self.mistake != Mistake::TriedChecksChargeNothing || operation != Operation::Check {
            return None;
        }
        let (now, mut states) = (self.clock.now(), self.lock());
        Some(decide_with(group, Operation::Peek, now, &DIGEST_KEY, &mut *states).outcome)
    }

    #[allow(clippy::too_many_lines, reason = "a line for each mistake")]
    async fn decide(
        &self,
        group: &[Check<'_>],
        operation: Operation,
        _: Deadline,
    ) -> Result<GroupOutcome, StoreError> {
        let now = match self.mistake {
            Mistake::OwnClock => SystemClock::new().now(),
            _ => self.clock.now(),
        };
        let instead = self.instead(group);
        let cost = |check: &Check<'_>| match self.mistake {
            Mistake::CostsOfZeroCharge => check.cost().max(1),
            Mistake::SlotsAreRequests if check.policy().is_concurrency() => check.cost().min(1),
            Mistake::LargeCostsPass => check.cost().min(check.policy().capacity()),
            _ => check.cost(),
        };
        let checks = group.iter().zip(&instead);
        let mut checks: Vec<Check<'_>> = checks
            .map(|(check, (policy, caller))| Check::new(policy, caller).with_cost(cost(check)))
            .collect();
        let operation = match (self.mistake, operation) {
            (Mistake::PeeksBeginBlocks, Operation::Peek) => Operation::Judge,
            (Mistake::LooksBeginNoBlock, Operation::Judge) => Operation::Peek,
            (Mistake::PeeksCharge, Operation::Peek)
            | (Mistake::UpToIsAllOrNothing, Operation::UpTo)
            | (Mistake::LooksCharge, Operation::Judge)
            | (Mistake::WaitsAreChecks, Operation::Wait { .. }) => Operation::Check,
            (Mistake::DebtsAreForgiven, Operation::Overdraw) => Operation::UpTo,
            (_, operation) => operation,
        };
        if self.mistake == Mistake::JudgesTheFirstLimitsOnly {
            checks.truncate(16);
        }
        if self.mistake == Mistake::LostUpdate {
            let mut states = self.lock().clone();
            let decided = decide_with(&checks, operation, now, &DIGEST_KEY, &mut states);
            thread::yield_now();
            self.lock().extend(decided.changed.iter().map(|digest| (*digest, states[digest].clone())));
            return Ok(decided.outcome);
        }
        let mut states = self.lock();
        let decide = |checks: &[Check<'_>], states: &mut HashMap<u128, State>| {
            let decided = decide_with(checks, operation, now, &DIGEST_KEY, states);
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            for check in
                checks.iter().filter(|check| decided.changed.contains(&check.digest(&DIGEST_KEY, now)))
            {
                written.insert(
                    check.digest(&DIGEST_KEY, now),
                    (now.as_micros(), micros(check.policy().window())),
                );
            }
            decided.outcome
        };
        let before = states.clone();
        let is_of_each = match operation {
            Operation::UpTo => self.mistake == Mistake::UpToIsOfEachLimit,
            _ => self.mistake == Mistake::ChecksEachLimitByItself,
        };
        if is_of_each {
            let outcomes: Vec<_> =
                checks.iter().map(|check| decide(&[*check], &mut states).outcomes()[0].clone()).collect();
            return Ok(GroupOutcome::new(now, outcomes));
        }
        let outcome = decide(&checks, &mut states);
        let digest = |check: &Check<'_>| check.digest(&DIGEST_KEY, now);
        match self.mistake {
            Mistake::DenialsAreErrors if !outcome.is_allowed() => {
                return Err(StoreError::rejected("too many requests"));
            }
            Mistake::DenialsCharge if !outcome.is_allowed() && operation == Operation::Check => {
                for check in &checks {
                    let _ = decide(&[*check], &mut states);
                }
            }
            Mistake::ChargesACountOnce => {
                *states = before;
                let mut seen = HashSet::new();
                checks.retain(|check| seen.insert(digest(check)));
                let _ = decide(&checks, &mut states);
            }
            Mistake::ShadowLimitsAreNotCharged => {
                for shadow in checks.iter().filter(|check| check.is_shadow()).map(digest) {
                    match before.get(&shadow) {
                        Some(state) => _ = states.insert(shadow, state.clone()),
                        None => _ = states.remove(&shadow),
                    }
                }
            }
            Mistake::WaitsTellNothing => {
                let outcomes = outcome.outcomes().iter().cloned();
                return Ok(GroupOutcome::new(now, outcomes.map(|one| one.with_due_after(Duration::ZERO))));
            }
            Mistake::DenialsAreRepeated if checks.len() == 1 => {
                let denied = digest(&checks[0]);
                if outcome.is_allowed() {
                    self.denied().remove(&denied);
                } else if operation == Operation::Check {
                    self.denied().insert(denied, outcome.clone());
                }
            }
            Mistake::BlocksAreNotKept if !outcome.is_allowed() => *states = before,
            Mistake::DenialsKeepTheState if !outcome.is_allowed() && operation == Operation::Check => {
                states.extend(before);
            }
            Mistake::SecondDebtsAreForgiven if operation == Operation::Overdraw => {
                let peek = |check: &Check<'_>| {
                    let state = before.get(&digest(check)).cloned();
                    state.map(|mut state| state.decide(check.policy(), 0, now, Operation::Peek))
                };
                if checks.iter().filter_map(peek).any(|outcome| !outcome.is_allowed()) {
                    *states = before;
                }
            }
            Mistake::ChecksOfNothingForget if operation == Operation::Check && outcome.is_allowed() => {
                checks
                    .iter()
                    .filter(|check| check.cost() == 0)
                    .map(digest)
                    .for_each(|digest| _ = states.remove(&digest));
            }
            Mistake::ShadowDenialsChargeNothing if outcome.outcomes().iter().any(Outcome::would_deny) => {
                *states = before;
            }
            _ => {}
        }
        Ok(outcome)
    }

    async fn reset(&self, group: &[Check<'_>], _: Deadline) -> Result<(), StoreError> {
        self.denied().clear();
        let (mut states, now) = (self.lock(), self.clock.now());
        match self.mistake {
            Mistake::ResetsForgetTheFirstLimitOnly => {
                reset_with(&group[..group.len().min(1)], now, &DIGEST_KEY, &mut *states);
            }
            Mistake::ResetsKeepBlocks => {
                let is_block =
                    |digest: u128| states.get(&digest).is_some_and(|state| state.to_bytes()[1] == b'b');
                let others = group.iter().filter(|check| !is_block(check.digest(&DIGEST_KEY, now)));
                let others: Vec<Check<'_>> = others.copied().collect();
                reset_with(&others, now, &DIGEST_KEY, &mut *states);
            }
            Mistake::ResetsForgetAll => states.clear(),
            Mistake::ResetsForgetNothing => {}
            _ => reset_with(group, now, &DIGEST_KEY, &mut *states),
        }
        Ok(())
    }

    async fn refund(&self, reservation: &Reservation<'_>, _: Deadline) -> Result<(), StoreError> {
        let Some(charge) = reservation.charges().next() else { return Ok(()) };
        let first = owned(reservation).take_limit(charge.check().policy().name());
        let reservation = match (self.mistake, &first) {
            (Mistake::RefundsTheFirstChargeOnly, Some(first)) => first,
            _ => reservation,
        };
        let now = match self.mistake {
            Mistake::RefundsReachLaterWindows => charge.at(),
            _ => self.clock.now(),
        };
        let is_lost = self.mistake == Mistake::RefundsNothing
            || self.mistake == Mistake::TurnsAreKept
                && charge.check().policy().algorithm() == Algorithm::TokenBucket;
        if is_lost {
            return Ok(());
        }
        let mut states = self.lock();
        let times = if self.mistake == Mistake::RefundsCountTwice { 2 } else { 1 };
        for charge in reservation.charges() {
            let (check, at, until) = (charge.check(), charge.at(), charge.until().as_micros());
            let digest = check.digest(&DIGEST_KEY, at);
            let Some(state) = states.get_mut(&digest) else { continue };
            let is_bucket = check.policy().algorithm() == Algorithm::TokenBucket;
            let until = match self.mistake {
                Mistake::TurnsAreCharges => Some(until),
                Mistake::ChargesEndAMicrosecondEarly => Some(until - 1),
                Mistake::ChargesEndASecondLate if is_bucket => Some(until + 1_000_000),
                Mistake::SlotsAreFreedAtOnce if check.policy().is_concurrency() => {
                    states.remove(&digest);
                    continue;
                }
                _ => None,
            };
            for _ in 0..times {
                match until.map(Timestamp::from_micros) {
                    Some(until) => _ = state.refund(check.policy(), now, at, until, check.cost()),
                    None => _ = state.refund_charge(charge, now),
                }
            }
        }
        Ok(())
    }
}

/// The failure of a case about a store with a mistake; `None` if it finds nothing.
fn failure(case: impl Fn()) -> Option<String> {
    let failed = catch_unwind(AssertUnwindSafe(case)).err()?;
    Some(failed.downcast_ref::<String>().unwrap().clone())
}

fn failure_of_histories(mistake: Mistake) -> Option<String> {
    failure(|| {
        cases::every_decision_is_that_of_the_reference(
            |clock| Some(Broken::new(mistake, clock)),
            |future| block_on(future),
        );
    })
}

#[test]
fn a_lost_update_is_found() {
    let clock = clock();
    let store = Broken::new(Mistake::LostUpdate, &clock);
    let message = failure(|| {
        cases::one_of_those_that_race_for_a_unit_gets_it(&Tested::new(&store), &clock, |future| {
            block_on(future);
        });
    });
    let message = message.unwrap();
    assert!(message.starts_with("contract 1, atomic; "), "{message}");
    assert!(message.contains("requests of 8 at once that passed under a limit of 1, in round "), "{message}");
    assert!(message.contains(": expected 1, found "), "{message}");
}

#[test]
fn every_mistake_is_found_in_a_small_history_that_names_its_clause() {
    let mut missed = Vec::new();
    for &(mistake, clause) in IN_HISTORIES {
        let Some(message) = failure_of_histories(mistake) else {
            missed.push(mistake);
            continue;
        };
        assert!(message.starts_with(clause), "{mistake:?}: {message}");
        let events = message.lines().filter(|line| line.starts_with("event ")).count();
        println!("{mistake:?}: {events} events, {}", message.lines().next().unwrap());
        assert!((1..=8).contains(&events), "{mistake:?}: {events} events: {message}");
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_mistake_about_slots_is_found() {
    for &mistake in IN_SLOTS {
        let message = failure(|| {
            let clock = clock();
            let store = Broken::new(mistake, &clock);
            cases::slots_are_held_until_they_are_freed(&Tested::new(&store), &clock, |future| {
                block_on(future);
            });
        });
        let message = message.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        assert!(message.starts_with("contract 3, equal to `decide_with`: "), "{mistake:?}: {message}");
    }
}

#[test]
fn a_failure_shows_the_history_and_only_the_outcome_that_differs() {
    let message = failure_of_histories(Mistake::RefundsNothing).unwrap();
    assert!(message.contains("seed ") && message.contains("the smallest history that fails:"), "{message}");
    assert!(message.contains("Refund("), "{message}");
    assert_eq!(message.matches("Outcome {").count(), 2, "the expected one and the found one: {message}");
}
