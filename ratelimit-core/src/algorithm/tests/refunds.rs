//! Tests of refunds of token buckets against a reference that keeps every charge.
//!
//! The bucket is never fuller than the reference, which was charged only what was not refunded. A refund
//! gives back what time has not paid of its charge. `REFUND_CASES` sets the number of histories.

use super::model::Random;
use super::*;
use crate::algorithm::state::{Packed, Unpacked};

/// The plain bucket in exact arithmetic: a microsecond has `max` parts. Its time does not go back: it is the
/// sum of all steps forward.
struct Kept {
    window: i128,
    now: i128,
    /// Instant and units of each charge.
    charges: Vec<(i128, i128)>,
    /// The time that each charge takes in the bucket. A refund of the last charge lowers it.
    sizes: Vec<i128>,
    /// Number of refunds that were rounded, each by less than a microsecond.
    rounded: i128,
}

impl Kept {
    /// The time until the bucket is full.
    fn backlog(&self) -> i128 {
        let kept = self.charges.iter().filter(|(_, units)| *units > 0);
        let tat = kept.fold(0, |tat: i128, (at, units)| tat.max(*at) + units * self.window);
        tat.max(self.now) - self.now
    }

    fn charge(&mut self, units: u64) {
        self.charges.push((self.now, i128::from(units)));
        self.sizes.push(i128::from(units) * self.window);
    }

    /// The least that a refund of a charge gives back. Time pays the oldest charges first, so it is the part
    /// of the backlog that later charges do not explain.
    fn least(&self, place: usize, units: u64, backlog: i128, microsecond: i128) -> i128 {
        let behind: i128 = self.sizes[place + 1..].iter().sum();
        (i128::from(units) * self.window).min(backlog - behind - (self.rounded + 2) * microsecond)
    }
}

/// The time until a bucket is full, in the same parts.
fn backlog(state: &State, policy: &Policy, now: u64) -> i128 {
    let mut unpacked = state.clone().unpack(&Check::new(policy, ""), now).0;
    unpacked.step_mut().advance(policy, now);
    let tat = match unpacked {
        Unpacked::TokenBucket(bucket) => bucket.tat,
        Unpacked::LongBucket(long) => long.bucket.tat,
        other => panic!("{other:?} is no bucket"),
    };
    i128::from(tat.micros - now) * i128::from(policy.max()) + i128::from(tat.fraction)
}

/// What was given back out of order and is not paid by time yet.
fn returned(state: &State, policy: &Policy, now: u64) -> u64 {
    let mut unpacked = state.clone().unpack(&Check::new(policy, ""), now).0;
    unpacked.step_mut().advance(policy, now);
    unpacked.step().returned_us()
}

/// Plays one history. Returns the numbers of refunds that gave something back, of steps with a long state,
/// and of dropped states.
fn play(random: &mut Random) -> Result<[u64; 3], String> {
    let units = [(1, 1_000), (3, 1_000), (7, 1_000), (1_000, 1_000), (999, 1_000), (3_000, 1_000)];
    let (max, window) = units[random.index(6)];
    let policy = bucket(max, window, 1 + random.below(6));
    let unit = window / max + 1;
    let (mut now, mut state, mut seen) = (START, State::new(&policy), [0; 3]);
    let mut kept = Kept {
        window: i128::from(window),
        now: i128::from(START) * i128::from(max),
        charges: vec![],
        sizes: vec![],
        rounded: 0,
    };
    let mut open: Vec<(usize, u64, u64, u64)> = Vec::new();
    let mut history = Vec::new();
    // After a state was dropped, a clock that goes back would make old charges young again.
    let goes_back = random.below(3) == 0;
    for _ in 0..5 + random.below(40) {
        match random.below(20) {
            0..=4 => {
                let by = [0, 1, random.below(unit * 2), random.below(unit * 8)][random.index(4)];
                now += by;
                kept.now += i128::from(by) * i128::from(max);
                // A table drops what decides as a new state would.
                if !goes_back && state.expires_at() <= at(now) && state != State::new(&policy) {
                    (state, seen[2]) = (State::new(&policy), seen[2] + 1);
                }
                history.push(format!("{by} later"));
            }
            5 if goes_back => {
                let by = random.below(unit * 4);
                now -= by;
                history.push(format!("{by} earlier"));
            }
            6..=12 => {
                let cost = 1 + random.below(policy.capacity());
                let outcome = state.decide(&policy, cost, at(now), Operation::Check);
                if outcome.is_allowed() {
                    history.push(format!("{cost} pass"));
                    open.push((kept.charges.len(), now, outcome.counts_until().as_micros(), cost));
                    kept.charge(cost);
                }
            }
            13 if random.below(3) == 0 => {
                let cost = 1 + random.below(2 * policy.capacity());
                let _ = state.decide(&policy, cost, at(now), Operation::Overdraw);
                history.push(format!("{cost} beyond"));
                kept.charge(cost);
            }
            _ if !open.is_empty() => {
                let (place, taken_at, until, cost) = open.remove(random.index(open.len()));
                let units = if random.below(3) == 0 { 1 + random.below(cost) } else { cost };
                let (before, returned) = (backlog(&state, &policy, now), returned(&state, &policy, now));
                let least = kept.least(place, units, before, i128::from(max));
                state.refund(&policy, at(now), at(taken_at), at(until), units);
                let back = before - backlog(&state, &policy, now);
                seen[0] += u64::from(back > 0);
                let is_too_old = now.saturating_sub(taken_at) * max >= window * policy.capacity();
                if !goes_back && !is_too_old && back < least {
                    return Err(format!(
                        "{policy:?}: {back} and not {least} of {units} of {place} at {now}: {history:?}"
                    ));
                }
                if self::returned(&state, &policy, now) == returned {
                    kept.sizes[place] -= back;
                } else {
                    kept.rounded += 1;
                }
                kept.charges[place].1 -= i128::from(units);
                history.push(format!("{units} of {cost} of {place} back"));
            }
            _ => {}
        }
        seen[1] += u64::from(matches!(state.0, Packed::LongBucket(_)));
        if backlog(&state, &policy, now) < kept.backlog() {
            return Err(format!("{policy:?}: {history:?}"));
        }
    }
    Ok(seen)
}

#[test]
fn charges_that_are_not_given_back_pass_the_plain_bucket() {
    let cases = std::env::var("REFUND_CASES").map_or(3_000, |cases| cases.parse().unwrap());
    let (mut random, mut seen) = (Random(34), [0; 3]);
    for case in 0..cases {
        let counts = play(&mut random).unwrap_or_else(|why| panic!("history {case}: {why}"));
        seen = std::array::from_fn(|i| seen[i] + counts[i]);
    }
    eprintln!(
        "{cases} histories: {} refunds gave back, {} steps of long buckets, {} dropped",
        seen[0], seen[1], seen[2]
    );
    assert!(seen.iter().all(|times| *times > cases / 10), "{seen:?}");
}
