//! Tests of the algorithms against a model that follows the rules literally: it keeps every admitted unit,
//! and searches for every wait.

use super::*;

/// A model of one caller: every unit that was admitted under a policy.
pub(super) struct Model<'p> {
    pub(super) policy: &'p Policy,
    /// Time and units, oldest first.
    pub(super) admitted: Vec<(u64, u64)>,
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
            Algorithm::Concurrency => unreachable!("it counts nothing over time"),
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
    pub(super) fn charged(&self, now: u64) -> Report {
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

/// A linear congruential generator (Knuth's MMIX), so that every run is the same.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    pub(super) fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.below(below as u64)).unwrap()
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
                let peeked = state.clone().decide(lowered, cost, at(now), Operation::Peek);
                assert_eq!(report(&peeked), expected, "{case}, lowered");
            }
            let expected = model.expected(now, cost);
            let peeked = state.decide(&policy, cost, at(now), Operation::Peek);
            assert_eq!(report(&peeked), expected, "{case}, peeked");
            let was_full = expected.reset_after == 0;
            let outcome = state.decide(&policy, cost, at(now), Operation::Check);
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
            let outcome = state.decide(&policy, cost, at(now), Operation::Check);
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
                let _ = state.decide(&policy, units, at(now), Operation::Overdraw);
                model.overdraw(now, units);
                settled_up += 1;
            }
            for cost in [0, 1, cost] {
                let peeked = state.decide(&policy, cost, at(now), Operation::Peek);
                assert_eq!(report(&peeked), model.expected(now, cost), "{case}, settled, then {cost}");
                wait = report(&peeked).retry_after.unwrap_or(wait);
            }
        }
    }
    assert!(denied.min(settled_up).min(settled_down) > 500, "{denied}, {settled_up}, {settled_down}");
}
