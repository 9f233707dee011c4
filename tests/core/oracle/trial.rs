//! Random cases: policies, a history and a group, which a property tries on a store.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ratelimit_core::{Check, GroupOutcome, Policy};
use tests::strategies::{cases, policy, step_back, step_forward};
use tests::timed::{MIDNIGHT, Timed, report};
use tests::timeline::shown;

/// A limit in a group: number of its policy, number of the caller, cost.
pub(super) type Limit = (usize, usize, Cost);

/// Units, or a share of the policy's capacity in percent, and how many more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cost {
    Units(u64),
    Share(u64, u64),
}

/// Some time passes, and a group is checked.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Share of the first policy's window by which the clock moves, in percent; negative when it goes back.
    pub(super) step: i64,
    /// Microseconds more.
    pub(super) jitter: i64,
    pub(super) group: Vec<Limit>,
}

/// A history, and what the property then tries.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) policies: Vec<Policy>,
    pub(super) past: Vec<Event>,
    pub(super) group: Vec<Limit>,
    pub(super) future: Vec<Event>,
}

fn group(policies: usize, sizes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<Limit>> {
    let cost = prop_oneof![
        6 => (0u64..4).prop_map(Cost::Units),
        6 => (0u64..=100, 0u64..2).prop_map(|(share, more)| Cost::Share(share, more)),
    ];
    prop::collection::vec((0..policies, 0usize..2, cost), sizes)
}

fn events(policies: usize, back: bool) -> impl Strategy<Value = Vec<Event>> {
    let step = prop_oneof![
        15 => step_forward(),
        u32::from(back) => step_back(),
    ];
    let event = (step, -2i64..3, prop_oneof![2 => group(policies, 1..=1), 1 => group(policies, 1..=4)]);
    let event = event.prop_map(move |(step, jitter, group)| Event {
        step,
        jitter: if back { jitter } else { jitter.abs() },
        group,
    });
    prop::collection::vec(event, 0..16)
}

pub(super) fn case(back: bool) -> impl Strategy<Value = Case> {
    prop::collection::vec(policy(), 1..=3).prop_flat_map(move |policies| {
        let n = policies.len();
        (Just(policies), events(n, back), group(n, 1..=4), events(n, back))
            .prop_map(|(policies, past, group, future)| Case { policies, past, group, future })
    })
}

/// A case on a store, where the callers have names of their own.
pub(super) struct Trial<'a> {
    pub(super) store: &'a Timed,
    pub(super) case: &'a Case,
    pub(super) now: Cell<u64>,
    /// Whether the clock went back.
    went_back: Cell<bool>,
    pub(super) id: u64,
}

/// The two callers of a case; a twin has two others, with a history of their own.
pub(super) type Callers = [String; 2];

impl Trial<'_> {
    pub(super) fn callers(&self, twin: &str) -> Callers {
        [0, 1].map(|caller| format!("{}/{twin}/{caller}", self.id))
    }

    pub(super) fn checks<'c>(&'c self, group: &[Limit], callers: &'c Callers) -> Vec<Check<'c>> {
        let check = |&(policy, caller, cost): &Limit| {
            let policy = &self.case.policies[policy];
            let units = match cost {
                Cost::Units(units) => units,
                Cost::Share(percent, more) => policy.capacity() * percent / 100 + more,
            };
            Check::new(policy, &callers[caller]).with_cost(units)
        };
        group.iter().map(check).collect()
    }

    pub(super) fn check(&self, group: &[Limit], callers: &Callers) -> GroupOutcome {
        self.store.check_all(&self.checks(group, callers))
    }

    pub(super) fn peek(&self, group: &[Limit], callers: &Callers) -> GroupOutcome {
        self.store.peek_all(&self.checks(group, callers))
    }

    /// Every policy of every caller, at no cost.
    pub(super) fn everything(&self) -> Vec<Limit> {
        let all = (0..self.case.policies.len()).flat_map(|policy| [0, 1].map(|caller| (policy, caller)));
        all.map(|(policy, caller)| (policy, caller, Cost::Units(0))).collect()
    }

    pub(super) fn go(&self, now: u64) {
        self.now.set(now);
        self.store.set(now);
    }

    pub(super) fn pass(&self, event: &Event) {
        let window = i64::try_from(self.case.policies[0].window().as_micros()).unwrap();
        // Far from both ends of what an instant can be.
        let moved = self.now.get().saturating_add_signed(window / 100 * event.step + event.jitter);
        let moved = moved.clamp(1_500_000_000_000_000, 3_000_000_000_000_000);
        self.went_back.set(self.went_back.get() || moved < self.now.get());
        self.go(moved);
    }

    /// Whether the store may have dropped a state that counts again because the clock went back. The memory
    /// store drops expired states of a shard when the shard needs room, so one of two callers may lose a
    /// state that the other keeps.
    pub(super) fn may_have_dropped_a_state(&self) -> bool {
        self.went_back.get() && self.store.limiter.store_kind() == "memory"
    }

    /// Whether a refund may lose a microsecond: of units that take less, after the clock went back, since
    /// ends of charges are rounded up.
    pub(super) fn rounds_refunds(&self) -> bool {
        let takes_less = |policy: &Policy| u128::from(policy.max()) > policy.window().as_micros();
        self.went_back.get()
            && self.case.policies.iter().any(|policy| policy.algorithm().has_burst() && takes_less(policy))
    }

    /// Asserts that two callers with the same past see the same. Returns false if they differ because one
    /// lost a state.
    pub(super) fn agree(&self, one: &GroupOutcome, twin: &GroupOutcome, what: &str) -> bool {
        // What units of less than a microsecond leave behind is seen by refunds only.
        let (one, twin) = (shown(one), shown(twin));
        if one != twin && self.may_have_dropped_a_state() {
            return false;
        }
        assert_eq!(one, twin, "{what}");
        true
    }

    pub(super) fn run_events(&self, events: &[Event], callers: &Callers) {
        for event in events {
            self.pass(event);
            let _ = self.check(&event.group, callers);
        }
    }
}

/// Tries a property on many cases. The property returns whether the case exercised it, and at least this
/// share must do so.
pub(super) fn each_case(
    store: &Timed,
    strategy: impl Strategy<Value = Case>,
    at_least: f64,
    property: impl Fn(&Trial<'_>) -> bool,
) {
    let wanted = cases("ORACLE_CASES", 2_000);
    let config = Config { cases: wanted, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let (id, exercised) = (Cell::new(0u64), Cell::new(0u32));
    let result = runner.run(&strategy, |case| {
        id.set(id.get() + 1);
        let trial =
            Trial { store, case: &case, now: Cell::new(0), went_back: Cell::new(false), id: id.get() };
        trial.go(MIDNIGHT.as_micros() + 123_456);
        exercised.set(exercised.get() + u32::from(property(&trial)));
        Ok(())
    });
    result.unwrap();
    let test = std::thread::current().name().unwrap_or("property").to_owned();
    report(&format!("{test}: {wanted} cases, {} of them exercise the property", exercised.get()));
    assert!(
        f64::from(exercised.get()) >= at_least * f64::from(wanted),
        "too few cases that exercise the property: {}",
        exercised.get()
    );
}
