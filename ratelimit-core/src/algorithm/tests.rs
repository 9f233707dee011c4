//! Tests of the algorithms against a model that follows the rules literally: it keeps every admitted unit, and searches for
//! every wait.

use std::time::Duration;

use super::{Member, Operation, State, decide, decide_one};
use crate::clock::Timestamp;
use crate::outcome::Outcome;
use crate::policy::{Algorithm, MAX_UNITS, Policy};

/// An instant in 2026 that is no multiple of a second.
const START: u64 = 1_790_000_000_123_456;

const DAY: u64 = 86_400_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A model of one caller: every unit that was admitted under a policy.
struct Model<'p> {
    policy: &'p Policy,
    /// Time and units, oldest first.
    admitted: Vec<(u64, u64)>,
}

impl Model<'_> {
    /// Usage at `now`: units in the window; for a bucket, missing tokens times the window.
    fn used(&self, now: u64) -> u128 {
        let (window, length) = (self.policy.window_us(), self.policy.sub_window_us());
        let sum = |counts: &dyn Fn(u64) -> bool| -> u128 {
            self.admitted.iter().filter(|(time, _)| counts(*time)).map(|(_, units)| u128::from(*units)).sum()
        };
        match self.policy.algorithm() {
            Algorithm::FixedWindow => sum(&|time| time / window == now / window),
            Algorithm::SlidingWindowLog => sum(&|time| now - time <= window),
            Algorithm::SlidingWindowCounter => {
                let (present, sub_windows) = (now / length, self.policy.sub_windows());
                let whole = sum(&|time| time / length + sub_windows > present);
                let oldest = sum(&|time| time / length + sub_windows == present);
                whole + oldest * u128::from(length - now % length) / u128::from(length)
            }
            Algorithm::TokenBucket => {
                let missing = self.admitted.iter().fold((0, 0), |(missing, since), (time, units)| {
                    let missing =
                        self.refilled(missing, time - since) + u128::from(*units) * u128::from(window);
                    (missing, *time)
                });
                self.refilled(missing.0, now - missing.1)
            }
        }
    }

    /// What is missing in a bucket, `after` microseconds later.
    fn refilled(&self, missing: u128, after: u64) -> u128 {
        missing.saturating_sub(u128::from(self.policy.max()) * u128::from(after))
    }

    /// Largest usage that the policy admits.
    fn capacity(&self) -> u128 {
        u128::from(self.policy.capacity()) * self.unit()
    }

    /// Usage of one unit.
    fn unit(&self) -> u128 {
        if self.policy.algorithm() == Algorithm::TokenBucket {
            u128::from(self.policy.window_us())
        } else {
            1
        }
    }

    /// The smallest wait from `now` after which `done` is true; it must stay true from then on.
    fn wait(&self, now: u64, done: impl Fn(u128) -> bool) -> u64 {
        // A bucket of any of these policies is full again by then.
        let (mut early, mut late) = (0, 100 * self.policy.window_us());
        while early < late {
            let middle = early.midpoint(late);
            if done(self.used(now + middle)) { late = middle } else { early = middle + 1 }
        }
        late
    }

    /// The report about a cost that is not charged.
    fn expected(&self, now: u64, cost: u64) -> Report {
        let (used, capacity) = (self.used(now), self.capacity());
        let need = u128::from(cost) * self.unit();
        let remaining = u64::try_from(capacity.saturating_sub(used) / self.unit()).unwrap();
        let fits = used + need <= capacity;
        let retry_after = (!fits && need <= capacity).then(|| self.wait(now, |used| used + need <= capacity));
        let next_unit = (remaining == 0).then(|| self.wait(now, |used| used + self.unit() <= capacity));
        Report { fits, remaining, reset_after: self.wait(now, |used| used == 0), retry_after, next_unit }
    }

    /// The report about a cost that was charged at `now`.
    fn charged(&self, now: u64) -> Report {
        Report { fits: true, retry_after: None, ..self.expected(now, 0) }
    }

    fn charge(&mut self, now: u64, units: u64) {
        // Drops expired units, which never count again.
        let length = self.policy.window_us() + self.policy.sub_window_us();
        match self.policy.algorithm() {
            Algorithm::TokenBucket if self.used(now) == 0 => self.admitted.clear(),
            Algorithm::TokenBucket => {}
            _ => self.admitted.retain(|(time, _)| now - time <= length),
        }
        self.admitted.push((now, units));
    }

    fn refund(&mut self, taken_at: u64, units: u64) {
        self.settle_down(taken_at, units, 0);
    }

    /// Leaves `actual` of the units of a charge.
    fn settle_down(&mut self, taken_at: u64, units: u64, actual: u64) {
        let charge = self.admitted.iter_mut().rev().find(|charge| **charge == (taken_at, units));
        charge.expect("it was charged").1 = actual;
    }

    /// Charges `units` more, whether they fit or not, as far as the largest count goes.
    fn overdraw(&mut self, now: u64, units: u64) {
        let largest = self.policy.largest();
        let room = Model { policy: &largest, admitted: self.admitted.clone() }.expected(now, 0).remaining;
        self.charge(now, units.min(room));
    }
}

/// What an outcome reports; times are in microseconds.
#[derive(Debug, PartialEq)]
struct Report {
    fits: bool,
    remaining: u64,
    reset_after: u64,
    retry_after: Option<u64>,
    next_unit: Option<u64>,
}

fn report(outcome: &Outcome) -> Report {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap();
    Report {
        fits: outcome.is_allowed(),
        remaining: outcome.remaining(),
        reset_after: micros(outcome.reset_after()),
        retry_after: outcome.retry_after().map(micros),
        next_unit: outcome.next_unit_after().map(micros),
    }
}

fn policy(algorithm: Algorithm, max: u64, window: u64) -> Policy {
    Policy::builder("k").algorithm(algorithm).max(max).window(Duration::from_micros(window)).build()
}

fn counter(max: u64, window: u64, sub_windows: u64) -> Policy {
    Policy::builder("k").max(max).window(Duration::from_micros(window)).sub_windows(sub_windows).build()
}

fn bucket(max: u64, window: u64, burst: u64) -> Policy {
    let builder = Policy::builder("k").algorithm(Algorithm::TokenBucket).max(max).burst(burst);
    builder.window(Duration::from_micros(window)).build()
}

/// Policies of all algorithms; some with a lower `max`, under which their counts are peeked now and then.
fn policies() -> Vec<(Policy, Option<Policy>)> {
    let lowered = |policy: fn(u64) -> Policy, max: u64| (policy(max), Some(policy(max / 2)));
    vec![
        lowered(|max| policy(Algorithm::FixedWindow, max, 1_003), 7),
        lowered(|max| policy(Algorithm::FixedWindow, max, 366 * DAY), MAX_UNITS),
        lowered(|max| policy(Algorithm::SlidingWindowLog, max, 1_003), 7),
        lowered(|max| policy(Algorithm::SlidingWindowCounter, max, 1_003), 7),
        lowered(|max| policy(Algorithm::SlidingWindowCounter, max, 366 * DAY), MAX_UNITS),
        lowered(|max| counter(max, 3_009, 3), 20),
        lowered(|max| counter(max, 60_000, 60), 50),
        lowered(|max| counter(max, 360 * DAY, 2), MAX_UNITS),
        (policy(Algorithm::TokenBucket, 7, 1_003), None),
        (policy(Algorithm::TokenBucket, MAX_UNITS, 366 * DAY), None),
        (bucket(7, 1_003, 3), None),
        (bucket(7, 1_009, 20), None),
        (bucket(1_000_003, 60_000_000, 10), None),
    ]
}

/// A linear congruential generator (Knuth's MMIX), so that every run is the same.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn the_policies_cover_all_algorithms() {
    for algorithm in Algorithm::ALL {
        assert!(policies().iter().any(|(policy, _)| policy.algorithm() == *algorithm), "{algorithm}");
    }
}

#[test]
fn every_outcome_follows_from_the_rule_read_literally() {
    let mut random = Random(2026);
    for (policy, lowered) in policies() {
        let (mut now, mut state) = (START, State::new(&policy));
        let mut model = Model { policy: &policy, admitted: Vec::new() };
        let mut wait = 0u64;
        for step in 0..1_500 {
            let case = format!("{policy:?}, step {step}");
            now += match random.below(8) {
                0 | 1 => 0,
                2 => random.below(3),
                3 => wait.saturating_sub(1),
                4 => wait,
                5 => wait + 1,
                6 => policy.window_us() / 1_000 * random.below(2_500),
                _ => policy.window_us() / 1_000 * random.below(300),
            };
            let cost = match random.below(4) {
                0 => random.below(3),
                1 => policy.capacity() / 3 + random.below(2),
                2 => policy.capacity() + random.below(2),
                _ => 1,
            };
            if let (0, Some(lowered)) = (random.below(4), &lowered) {
                let expected =
                    Model { policy: lowered, admitted: model.admitted.clone() }.expected(now, cost);
                let peeked = decide_one(lowered, cost, &mut state.clone(), at(now), Operation::Peek);
                assert_eq!(report(&peeked), expected, "{case}, lowered");
            }
            let expected = model.expected(now, cost);
            let peeked = decide_one(&policy, cost, &mut state, at(now), Operation::Peek);
            assert_eq!(report(&peeked), expected, "{case}, peeked");
            let was_full = expected.reset_after == 0;
            let outcome = decide_one(&policy, cost, &mut state, at(now), Operation::Check);
            if outcome.is_allowed() {
                model.charge(now, cost);
                assert_eq!(report(&outcome), model.charged(now), "{case}");
            } else {
                assert_eq!(report(&outcome), expected, "{case}");
            }
            let Report { reset_after, retry_after, .. } = report(&outcome);
            if outcome.is_allowed() && random.below(3) == 0 {
                let taken_at = now;
                // A bucket that was not full refunds a fraction of a microsecond less later.
                if was_full || policy.algorithm() != Algorithm::TokenBucket {
                    now += match random.below(5) {
                        0 => 0,
                        1 => 1,
                        2 => reset_after.saturating_sub(1),
                        3 => reset_after,
                        _ => random.below(reset_after + 1),
                    };
                }
                let counts = now < taken_at + reset_after;
                let until = at(taken_at + reset_after);
                assert_eq!(state.refund(&policy, at(now), at(taken_at), until, cost), counts, "{case}");
                if counts {
                    model.refund(taken_at, cost);
                }
            }
            wait = if random.below(2) == 0 { reset_after } else { retry_after.unwrap_or(1) };
        }
    }
}

#[test]
fn every_balance_after_settlements_follows_from_the_rule_read_literally() {
    let mut random = Random(15);
    let (mut denied, mut settled_up, mut settled_down) = (0, 0, 0);
    for (policy, _) in policies() {
        let (mut now, mut state) = (START, State::new(&policy));
        let mut model = Model { policy: &policy, admitted: Vec::new() };
        let mut wait = 0u64;
        for step in 0..600 {
            let case = format!("{policy:?}, step {step}");
            now += match random.below(6) {
                0 => random.below(3),
                1 => wait.saturating_sub(1),
                2 | 3 => wait,
                _ => policy.window_us() / 1_000 * random.below(300),
            };
            let cost = 1 + random.below(policy.capacity());
            let expected = model.expected(now, cost);
            let outcome = decide_one(&policy, cost, &mut state, at(now), Operation::Check);
            wait = report(&outcome).retry_after.unwrap_or(1);
            if !outcome.is_allowed() {
                denied += 1;
                assert_eq!(report(&outcome), expected, "{case}");
                continue;
            }
            model.charge(now, cost);
            assert_eq!(report(&outcome), model.charged(now), "{case}");
            let (taken_at, reset_after) = (now, report(&outcome).reset_after);
            let is_down = random.below(2) == 0;
            // A bucket that was not full refunds a fraction of a microsecond less later.
            if !is_down || policy.algorithm() != Algorithm::TokenBucket {
                now += random.below(reset_after);
            }
            if is_down {
                let actual = random.below(cost);
                let until = at(taken_at + reset_after);
                assert!(state.refund(&policy, at(now), at(taken_at), until, cost - actual), "{case}");
                model.settle_down(taken_at, cost, actual);
                settled_down += 1;
            } else {
                let units = 1 + random.below(policy.capacity().saturating_mul(3));
                let member = Member { policy: &policy, cost: units, shadow: false, state: 0 };
                let _ = decide(&[member], std::slice::from_mut(&mut state), at(now), Operation::Overdraw);
                model.overdraw(now, units);
                settled_up += 1;
            }
            for cost in [0, 1, cost] {
                let peeked = decide_one(&policy, cost, &mut state, at(now), Operation::Peek);
                assert_eq!(report(&peeked), model.expected(now, cost), "{case}, settled, then {cost}");
                wait = report(&peeked).retry_after.unwrap_or(wait);
            }
        }
    }
    assert!(denied.min(settled_up).min(settled_down) > 500, "{denied}, {settled_up}, {settled_down}");
}

/// Charges `cost` at `now`; it must pass.
fn charge(state: &mut State, policy: &Policy, now: u64, cost: u64) {
    assert!(
        decide_one(policy, cost, state, at(now), Operation::Check).is_allowed(),
        "{policy:?}: {cost} at {now}"
    );
}

#[test]
fn a_refund_affects_only_its_own_charge() {
    for (policy, _) in policies() {
        if policy.algorithm() == Algorithm::TokenBucket || policy.max() > 100 {
            continue;
        }
        let length = policy.sub_window_us();
        let start = START - START % length + 5;
        let left = |state: &State, now| {
            decide_one(&policy, 0, &mut state.clone(), at(now), Operation::Peek).remaining()
        };
        let mut state = State::new(&policy);
        charge(&mut state, &policy, start, 2);
        charge(&mut state, &policy, start + length, 1);
        // A refund of an instant without a charge, whose window has not ended.
        for (taken_at, gives) in [(start - 2 * policy.window_us(), 0), (start + 2 * length, 0)] {
            let mut other = state.clone();
            let before = left(&other, start + length);
            other.refund(&policy, at(start + length), at(taken_at), at(u64::MAX), 1);
            assert_eq!(left(&other, start + length), before + gives, "{policy:?} {taken_at}");
        }
        // A refund of more than the charge refunds the charge, and a second one nothing.
        for _ in 0..2 {
            state.refund(&policy, at(start + length), at(start + length), at(u64::MAX), 5);
            let mut twin = State::new(&policy);
            charge(&mut twin, &policy, start, 2);
            assert_eq!(left(&state, start + length), left(&twin, start + length), "{policy:?}");
        }
    }
}

#[test]
fn a_clock_that_goes_back_keeps_counts_and_bounds_the_wait_by_one_window() {
    for (policy, _) in policies() {
        let (mut state, max) = (State::new(&policy), policy.capacity());
        charge(&mut state, &policy, START, max);
        let earlier = START - 3 * policy.window_us() - 7;
        let denied = decide_one(&policy, max, &mut state, at(earlier), Operation::Check);
        assert_eq!((denied.is_allowed(), denied.remaining()), (false, 0), "{policy:?}");
        let wait = report(&denied).retry_after.unwrap();
        let (length, window) = (policy.sub_window_us(), policy.window_us());
        let longest = match policy.algorithm() {
            Algorithm::FixedWindow => window,
            Algorithm::SlidingWindowCounter => length + window,
            Algorithm::SlidingWindowLog => window + 1,
            Algorithm::TokenBucket => {
                u64::try_from((u128::from(max) * u128::from(window)).div_ceil(policy.max().into())).unwrap()
            }
        };
        assert!(wait <= longest && wait + length > longest, "{policy:?}: {wait} of {longest} us");
        // The wait began at the first request, and does not start anew with each.
        let later = decide_one(&policy, max, &mut state, at(earlier + wait / 2), Operation::Check);
        assert_eq!(report(&later).retry_after, Some(wait - wait / 2), "{policy:?}");
        // Later windows start at multiples since the epoch again.
        let anew = earlier + wait;
        let outcome = decide_one(&policy, max, &mut state, at(anew), Operation::Check);
        let expected = Model { policy: &policy, admitted: vec![(anew, max)] }.charged(anew);
        assert_eq!(report(&outcome), expected, "{policy:?}");
    }
}

#[test]
fn a_clock_that_goes_back_behind_an_empty_window_starts_it_at_a_multiple() {
    // A bucket keeps only the instant at which it is full, which is later then.
    let windows = policies().into_iter().filter(|(policy, _)| policy.algorithm() != Algorithm::TokenBucket);
    for (policy, _) in windows {
        let mut state = State::new(&policy);
        charge(&mut state, &policy, START, 1);
        assert!(state.refund(&policy, at(START), at(START), at(u64::MAX), 1));
        let earlier = START - 3 * policy.window_us() - 7;
        let outcome = decide_one(&policy, 1, &mut state, at(earlier), Operation::Check);
        let expected = Model { policy: &policy, admitted: vec![(earlier, 1)] }.charged(earlier);
        assert_eq!(report(&outcome), expected, "{policy:?}");
    }
}

#[test]
fn the_state_of_many_sub_windows_is_copied_only_if_advancing_may_change_it() {
    let policy = counter(10, 3_000, 3);
    let start = START - START % 1_000;
    let mut state = State::new(&policy);
    charge(&mut state, &policy, start + 3, 1);
    for (now, is_moved_out) in
        [(start, true), (start + 1, true), (start + 999, true), (start - 1, false), (start + 1_000, false)]
    {
        assert_eq!(state.clone().unpack(&policy, now).1, is_moved_out, "{} us", now.abs_diff(start));
    }
    // Without units in the current sub-window, all units may have expired.
    assert!(state.refund(&policy, at(start + 3), at(start + 3), at(u64::MAX), 1));
    assert!(!state.unpack(&policy, start + 3).1);
}

#[cfg(feature = "redis")]
#[test]
fn an_empty_window_in_redis_starts_at_a_multiple_if_the_clock_goes_back() {
    use super::encoded::Effect;
    let policy = policy(Algorithm::FixedWindow, 7, 1_003);
    let (start, earlier) = (START - START % 1_003, START - 5 * 1_003);
    let bytes = [b"f", &start.to_le_bytes()[..7], &[0; 5]].concat();
    let mut state = State::decode(&policy, &bytes, at(earlier), Effect::Charged(1)).unwrap();
    let outcome = decide_one(&policy, 0, &mut state, at(earlier), Operation::Peek);
    assert_eq!(report(&outcome), Model { policy: &policy, admitted: vec![(earlier, 1)] }.charged(earlier));
}

#[cfg(feature = "redis")]
#[test]
fn encoded_states_have_the_length_that_their_script_writes() {
    use super::encoded::encoded_len;
    let of_log = |count: u16| [&[0; 13][..], &count.to_le_bytes(), b"more"].concat();
    let cases = [
        (Algorithm::FixedWindow, 1, Vec::new(), Some(13)),
        (Algorithm::TokenBucket, 1, Vec::new(), Some(13)),
        (Algorithm::SlidingWindowCounter, 1, Vec::new(), Some(18)),
        (Algorithm::SlidingWindowCounter, 2, Vec::new(), Some(28)),
        (Algorithm::SlidingWindowCounter, 60, Vec::new(), Some(318)),
        (Algorithm::SlidingWindowCounter, 60, b"b".to_vec(), Some(8)),
        (Algorithm::SlidingWindowLog, 1, b"b".to_vec(), Some(8)),
        (Algorithm::TokenBucket, 1, b"t".to_vec(), Some(13)),
        (Algorithm::TokenBucket, 1, b"d".to_vec(), Some(20)),
        (Algorithm::SlidingWindowLog, 1, vec![0; 14], None),
        (Algorithm::SlidingWindowLog, 1, of_log(0), Some(15)),
        (Algorithm::SlidingWindowLog, 1, of_log(3), Some(51)),
    ];
    for algorithm in Algorithm::ALL {
        assert!(cases.iter().any(|(covered, ..)| covered == algorithm), "no case of {algorithm}");
    }
    for (algorithm, sub_windows, bytes, expected) in cases {
        assert_eq!(encoded_len(algorithm, sub_windows, &bytes), expected, "{algorithm}, {sub_windows}");
    }
}

#[test]
fn a_denied_group_stores_that_the_clock_went_back() {
    for (policy, _) in policies() {
        let full = Policy::new("full", 1, Duration::from_secs(60));
        let mut states = [State::new(&policy), State::new(&full)];
        charge(&mut states[0], &policy, START, policy.capacity());
        let earlier = START - 3 * policy.window_us();
        charge(&mut states[1], &full, earlier, 1);
        let members = [
            Member { policy: &policy, cost: 1, shadow: false, state: 0 },
            Member { policy: &full, cost: 1, shadow: false, state: 1 },
        ];
        let first = decide(&members, &mut states, at(earlier), Operation::Check);
        assert!(!first.is_allowed());
        let wait = report(&first.outcomes()[0]).retry_after.unwrap();
        let second = decide(&members, &mut states, at(earlier + wait / 2), Operation::Check);
        assert_eq!(report(&second.outcomes()[0]).retry_after, Some(wait - wait / 2), "{policy:?}");
    }
}

#[test]
fn one_more_unit_passes_before_a_larger_request_does() {
    let policy = Policy::builder("k")
        .algorithm(Algorithm::SlidingWindowLog)
        .max(2)
        .window(Duration::from_millis(1))
        .build();
    let mut state = State::new(&policy);
    let mut at =
        |now, cost| decide_one(&policy, cost, &mut state, Timestamp::from_micros(now), Operation::Check);
    assert_eq!(at(10_000, 1).next_unit_after(), None);
    assert_eq!(at(10_100, 1).next_unit_after(), Some(Duration::from_micros(901)));
    let denied = at(10_100, 2);
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(1_001)));
    assert_eq!(denied.next_unit_after(), Some(Duration::from_micros(901)));
    let denied = at(10_100, 1);
    assert_eq!(denied.retry_after(), Some(Duration::from_micros(901)));
    assert_eq!(denied.next_unit_after(), Some(Duration::from_micros(901)));
}
