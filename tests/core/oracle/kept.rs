//! Refunds of token buckets against a reference that knows every charge, on both stores: with what is kept,
//! the bucket is never fuller than the plain one that was charged only that; and what time has not paid of a
//! charge is given back. `REFUND_CASES` sets the number of histories.

use std::collections::VecDeque;
use std::time::Duration;

use ratelimit_core::store::toolkit::owned;
use ratelimit_core::{Algorithm, Check, Policy, Reservation};
use tests::random::Random;
use tests::strategies::cases;
use tests::timed::{MIDNIGHT, Timed, report};

/// Units and window in microseconds: fractions, less than a microsecond, and so long that keys of Redis
/// expire.
const RATES: [(u64, u64); 7] =
    [(1, 1_000), (3, 1_000), (7, 1_000), (1_000, 1_000), (999, 1_000), (3_000, 1_000), (3, 20 * HOUR)];

const HOUR: u64 = 3_600_000_000;

/// The plain bucket in exact arithmetic: instants in parts of a microsecond, `max` of which are one. Its time
/// does not go back: it is as late as all steps forward make it.
struct Kept {
    max: u64,
    window: u64,
    now: u128,
    /// Instant and units of each charge.
    charges: Vec<(u128, u64)>,
    /// Units of each charge as it was made.
    made: Vec<u64>,
}

impl Kept {
    /// The time until the bucket is full, in microseconds rounded up.
    fn backlog(&self) -> u128 {
        let kept = self.charges.iter().filter(|(_, units)| *units > 0);
        let tat = kept.fold(0, |tat: u128, (at, units)| tat.max(*at) + u128::from(units * self.window));
        tat.saturating_sub(self.now).div_ceil(u128::from(self.max))
    }

    fn pass(&mut self, micros: u64) {
        self.now += u128::from(micros * self.max);
    }

    fn charge(&mut self, units: u64) {
        self.charges.push((self.now, units));
        self.made.push(units);
    }

    /// The least that a refund gives back of a charge, in microseconds: as much of the bucket's backlog as
    /// was not charged behind it, since time pays the oldest charges first. Each charge and refund rounds by
    /// less than two microseconds.
    fn least(&self, place: usize, units: u64, backlog: u128) -> u128 {
        let micros = |units: u64| u128::from(units * self.window) / u128::from(self.max);
        let behind = micros(self.made[place + 1..].iter().sum()) + 2 * (self.made.len() as u128 + 1);
        micros(units).min(backlog).saturating_sub(2).min(backlog.saturating_sub(behind))
    }
}

/// Plays one history. Returns how many refunds gave something back, or what went wrong.
fn play(store: &Timed, random: &mut Random, caller: &str) -> Result<u32, String> {
    let (max, window) = random.pick(&RATES);
    let builder = Policy::builder("kept").algorithm(Algorithm::TokenBucket).max(max);
    let policy = builder.window(Duration::from_micros(window)).burst(1 + random.below(6)).build();
    let unit = window / max + 1;
    let (mut now, mut gave_back) = (MIDNIGHT.as_micros(), 0);
    store.set(now);
    let mut kept = Kept { max, window, now: u128::from(now * max), charges: Vec::new(), made: Vec::new() };
    // Place and instant of each charge that may be given back.
    let mut open: VecDeque<(usize, u64, Reservation<'static>)> = VecDeque::new();
    let mut told = Vec::new();
    let backlog = || store.peek(&policy, caller).reset_after();
    // A key that has expired would make old charges young again under a clock that goes back.
    let expires = window > HOUR;
    let goes_back = !expires && random.below(3) == 0;
    for _ in 0..5 + random.below(40) {
        match random.below(20) {
            0..=4 => {
                let (soon, late) = (random.below(unit * 2), random.below(unit * 8));
                let by = random.pick(&[0, 1, soon, late]);
                now += by;
                kept.pass(by);
                if expires {
                    store.set_with_expiry(now);
                } else {
                    store.set(now);
                }
                told.push(format!("{by} later"));
            }
            5 if goes_back => {
                let by = random.below(unit * 4);
                now -= by;
                store.set(now);
                told.push(format!("{by} earlier"));
            }
            6..=12 => {
                let cost = 1 + random.below(policy.capacity());
                let group = [Check::new(&policy, caller).with_cost(cost)];
                if let Some(reservation) = store.check_all(&group).reservation(&group) {
                    told.push(format!("{cost} pass"));
                    open.push_back((kept.charges.len(), now, Reservation::into_owned(reservation)));
                    kept.charge(cost);
                }
            }
            _ if !open.is_empty() => {
                open.rotate_left(random.index(open.len()));
                let (place, made_at, reservation) = open.pop_front().expect("not empty");
                let cost = kept.charges[place].1;
                // Some of the units, all of them, or more than were charged.
                let (some, more) = (random.below(cost), cost + 1 + random.below(cost));
                let used = random.pick(&[0, 0, some, more]);
                let before = backlog();
                store.run(store.limiter.settle(owned(&reservation), used)).unwrap();
                if used > cost {
                    kept.charge(used - cost);
                } else {
                    kept.charges[place].1 = used;
                    let back = before.saturating_sub(backlog()).as_micros();
                    gave_back += u32::from(back > 0);
                    let is_too_old = now.saturating_sub(made_at) * max >= window * policy.capacity();
                    let least = kept.least(place, cost - used, before.as_micros());
                    if !goes_back && !is_too_old && back < least {
                        return Err(format!(
                            "{policy:?}: {back} and not {least} us of {place} come back: {told:?}"
                        ));
                    }
                }
                told.push(format!("{used} of {cost} of {place} used"));
            }
            _ => {}
        }
        let (is, should_be) = (backlog().as_micros(), kept.backlog());
        if is < should_be {
            return Err(format!("{policy:?}: full after {is} in place of {should_be} us: {told:?}"));
        }
    }
    Ok(gave_back)
}

tests::on_both_stores! {
    fn a_bucket_knows_what_was_given_back_until_no_charge_can_be(store: &Timed) {
        let minutes = |minutes: u64| MIDNIGHT.as_micros() + minutes * HOUR / 60;
        let policy = Policy::builder("kept").algorithm(Algorithm::TokenBucket).max(10);
        let policy = policy.window(Duration::from_micros(10 * HOUR)).build();
        let charged = |units| {
            let group = [Check::new(&policy, "a").with_cost(units)];
            store.check_all(&group).reservation(&group).unwrap().into_owned()
        };
        // Last written by a refund, and by a check.
        for is_checked in [false, true] {
            store.set_with_expiry(minutes(0));
            store.run(store.limiter.reset(&policy, "a")).unwrap();
            let (first, second) = (charged(5), charged(5));
            store.refund(first);
            if is_checked {
                let _ = charged(1);
            }
            // The bucket has been full for half an hour, and the second charge is not too old.
            store.set_with_expiry(minutes(if is_checked { 6 * 60 + 30 } else { 5 * 60 + 30 }));
            let _ = charged(10);
            store.refund(second);
            assert_eq!(store.peek(&policy, "a").remaining(), 0, "time has paid the second charge");
        }
    }

    fn what_passes_less_what_is_given_back_passes_the_plain_bucket(store: &Timed) {
        let cases = cases("REFUND_CASES", 400);
        let (mut random, mut gave_back) = (Random(34), 0);
        for case in 0..cases {
            let caller = case.to_string();
            gave_back += play(store, &mut random, &caller).unwrap_or_else(|why| panic!("history {case}: {why}"));
        }
        report(&format!("{cases} histories: {gave_back} refunds gave units back"));
        assert!(gave_back > cases, "{gave_back} of {cases}");
    }
}
