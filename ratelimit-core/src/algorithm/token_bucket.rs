//! Token bucket: `burst` tokens when full, refilled at `max` per window, kept as one instant.
//!
//! This is the generic cell rate algorithm (ITU-T I.371, appendix I): instead of a level, the state is the theoretical
//! arrival time `tat`, the instant at which the bucket is full if no request comes. A cost moves it on by the time that as
//! many tokens take to refill:
//!
//! ```text
//! refill(n)    n * window / max
//! available    (now + refill(burst) - tat) * max / window        rounded down
//! fits         cost <= available, that is tat + refill(cost) <= now + refill(burst)
//! charge       tat = tat + refill(cost)
//! reset_after  tat - now                                         rounded up
//! retry_after  tat - refill(burst - cost) - now                  rounded up (never when cost > burst)
//! ```
//!
//! A refund moves `tat` back by `refill(cost)`, but not beyond the time left until the bucket would have been full after
//! the charge. Without the charge the bucket would have been full earlier and gained nothing since, so time has refilled
//! the rest.
//!
//! `window / max` is rarely whole, so instants are rationals: whole microseconds and a numerator over `max`. Nothing is
//! rounded before it is reported, so no token is lost or gained over any length of time.
//!
//! In any span of time `t` at most `burst + t * max / window` units pass. One instant of state, constant time.
//! If the clock goes back, waits become longer, but never longer than a full refill: `tat` is capped at
//! `now + refill(burst)`, an empty bucket.
//!
//! A settlement, or a wait for a turn, may charge more than is available. Then the bucket is in debt: `tat` is later than that of an empty bucket, and
//! nothing passes until time has paid the debt. The state carries the instant of the last one, which tells a debt from a
//! clock that went back: behind that instant `tat` moves back with the clock.
//!
//! Twin: `lua/token_bucket.lua`.

use super::mul_div::mul_div;
use super::rational::Rational;
#[cfg(feature = "redis")]
use super::reader::Encoded;
use super::reader::Reader;
use super::step::Step;
#[cfg(feature = "redis")]
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::Policy;

/// The time that `tokens` take to refill.
fn refill(tokens: u64, policy: &Policy) -> Rational {
    let (micros, fraction) = mul_div(tokens, policy.window_us(), policy.max());
    Rational { micros, fraction }
}

fn instant(micros: u64) -> Rational {
    Rational { micros, fraction: 0 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Theoretical arrival time: when the bucket is full.
    pub(super) tat: Rational,
    /// Instant of the last settlement or turn, if it may have left a debt; otherwise [`NO_DEBT`].
    pub(super) indebted_at: u64,
}

/// In place of an instant: later than any.
pub(super) const NO_DEBT: u64 = u64::MAX;

impl State {
    /// A bucket without a debt.
    pub(super) const fn new(tat: Rational) -> Self {
        Self { tat, indebted_at: NO_DEBT }
    }

    /// Advances a bucket that is emptier than `empty`.
    #[cold]
    fn advance_in_debt(&mut self, now: u64, empty: Rational) -> bool {
        if self.indebted_at == NO_DEBT {
            self.tat = empty;
            return true;
        }
        let went_back = now < self.indebted_at;
        if went_back {
            self.tat.micros -= self.indebted_at - now;
            self.indebted_at = if self.tat > empty { now } else { NO_DEBT };
        }
        went_back
    }
}

impl State {
    /// Whether turns that are not due may have been taken behind a charge that ends at `until`. While there are such turns, the bucket
    /// is in debt; the last charge ends when the bucket is full.
    pub(super) fn has_turns_behind(mut self, policy: &Policy, now: u64, until: u64) -> bool {
        self.advance(policy, now);
        // Several charges of less than a microsecond may end in the same one.
        let is_last = policy.max() <= policy.window_us() && self.resets_at() == until;
        self.indebted_at != NO_DEBT && !is_last
    }
}

impl Step for State {
    fn advance(&mut self, policy: &Policy, now: u64) -> bool {
        let empty = instant(now).plus(refill(policy.capacity(), policy), policy.max());
        if self.tat > empty {
            return self.advance_in_debt(now, empty);
        }
        *self = Self::new(self.tat.max(instant(now)));
        false
    }

    fn available(&self, policy: &Policy, now: u64) -> Option<u64> {
        let empty = instant(now).plus(refill(policy.capacity(), policy), policy.max());
        if self.tat > empty {
            return None;
        }
        let level = empty.minus(self.tat, policy.max());
        let (tokens, rest) = mul_div(level.micros, policy.max(), policy.window_us());
        Some(tokens + (rest + level.fraction) / policy.window_us())
    }

    fn charge(&mut self, policy: &Policy, _now: u64, cost: u64) {
        self.tat = self.tat.plus(refill(cost, policy), policy.max());
    }

    fn charge_in_debt(&mut self, policy: &Policy, now: u64, cost: u64) {
        self.charge(policy, now, cost);
        self.indebted_at = now;
    }

    fn resets_at(&self) -> u64 {
        self.tat.rounded_up()
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        let spare = refill(policy.capacity().checked_sub(cost)?, policy);
        // The cost does not fit, so `tat` is later than `now + spare`.
        Some(self.tat.minus(spare, policy.max()).rounded_up() - now)
    }

    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64) {
        let full = instant(now);
        let taken = refill(cost, policy);
        // `until` is rounded up, so the exact instant is after `until - 1`. It is also not before the instant at which a
        // full bucket would have been full again. The later of the two bounds is never too late.
        let until = instant(until.saturating_sub(1)).max(instant(at).plus(taken, policy.max()));
        let back = taken.min(until.max(full).minus(full, policy.max()));
        self.tat =
            if self.tat > full.plus(back, policy.max()) { self.tat.minus(back, policy.max()) } else { full };
    }
}

#[cfg(feature = "redis")]
impl Encoded for State {
    const ALGORITHM: Algorithm = Algorithm::TokenBucket;

    fn encoded_len(_sub_windows: u64, bytes: &[u8]) -> Option<usize> {
        Some(if bytes.first() == Some(&DEBT_TAG) { 20 } else { 13 })
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        Self::read(policy, reader)
    }
}

/// First byte of a bucket in Redis that may be in debt.
#[cfg(feature = "redis")]
pub(super) const DEBT_TAG: u8 = b'd';

impl State {
    /// Reads a bucket without a debt; `None` if the bytes are malformed.
    pub(super) fn read(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (micros, fraction) = (reader.micros()?, reader.units()?);
        (fraction < policy.max()).then_some(Self::new(Rational { micros, fraction }))
    }

    /// Reads a bucket that may be in debt, behind its tag; `None` if the bytes are malformed, or if time does not pay the debt
    /// within the longest window.
    pub(super) fn read_in_debt(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (tat, indebted_at) = (Self::read(policy, reader)?.tat, reader.micros()?);
        let is_payable = tat >= instant(indebted_at) && tat <= instant(indebted_at + LONGEST_US);
        is_payable.then_some(Self { tat, indebted_at })
    }
}

/// Longest window, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = crate::policy::MAX_WINDOW.as_micros() as u64;
