//! Token bucket: `burst` tokens when full, refilled at `max` per window, kept as one instant.
//!
//! This is the generic cell rate algorithm (ITU-T I.371, appendix I): instead of a level, the state is the
//! theoretical arrival time `tat`, the instant at which the bucket is full if no request comes. A cost moves
//! it on by the time that as many tokens take to refill:
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
//! A refund moves `tat` back by the part of its charge that is not paid yet. Time pays the oldest charge of
//! the bucket first, and so does a refund out of order, of a charge that is not the last. Each charge has a
//! *mark*: the instant at which it ends on an axis that refunds of other charges do not shorten. The state
//! has `returned`, the time by which that axis is ahead of `tat`:
//!
//! ```text
//! mark         tat + returned after the charge              rounded up
//! too old      now >= at + refill(max(burst, units))        time has paid it, or the bucket was full since
//! the last     mark = tat + returned                        back = min(refill(units), tat - now)
//! another      its exact mark is above mark - 1
//!                                                back = min(refill(units), mark - 1 - returned - now)
//! then         tat = tat - back;  returned = returned + back, but not for the last one: it is undone
//! while full   returned = returned - (now - tat)            down to 0: this time pays nothing else
//! ```
//!
//! So the charges that are kept pass the plain bucket: `tat` is never earlier than it would be without the
//! refunded charges. If the clock goes back and moves `tat` back, `returned` grows by the same time, since
//! the marks stay.
//!
//! `window / max` is rarely whole, so instants are rationals: whole microseconds and a numerator over `max`.
//! Nothing is rounded before it is reported, so no token is lost or gained over any length of time.
//!
//! In any span of time `t` at most `burst + t * max / window` units pass. One instant of state, constant
//! time. If the clock goes back, waits become longer, but never longer than a full refill: `tat` is capped at
//! `now + refill(burst)`, an empty bucket.
//!
//! A settlement, or a wait for a turn, may charge more than is available. Then the bucket is in debt: `tat`
//! is later than in an empty bucket, and nothing passes until time has paid the debt. The state has the
//! instant of the last such charge. If the clock goes back to before that instant, `tat` moves back with it;
//! otherwise a `tat` this late is a debt. The state also says whether turns were taken in the debt. Until
//! that debt is paid, only the last charge is given back, since any other refund would move the turns.
//!
//! Twin: `lua/token_bucket.lua`.

use super::numbers::{Rational, mul_div};
#[cfg(feature = "redis")]
use super::step::Encoded;
use super::step::{Reader, Step};
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::Policy;

/// The time that `tokens` take to refill.
#[inline]
fn refill(tokens: u64, policy: &Policy) -> Rational {
    let (micros, fraction) = mul_div(tokens, policy.window_us(), policy.max());
    Rational { micros, fraction }
}

fn instant(micros: u64) -> Rational {
    Rational { micros, fraction: 0 }
}

/// A bucket without a debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Theoretical arrival time: when the bucket is full.
    pub(super) tat: Rational,
    /// Microseconds that were given back out of order, and that time has not paid yet, rounded up. 0 at the
    /// start of a step: a bucket in which it is not 0 is stored as [`Long`].
    pub(super) returned: u64,
}

/// A bucket that may be in debt, or of which units were given back out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Long {
    pub(super) bucket: State,
    /// Instant of the last settlement or turn, if it may have left a debt; otherwise [`NO_DEBT`].
    pub(super) indebted_at: u64,
    /// Whether turns were taken in the debt.
    pub(super) has_turns: bool,
    /// The instant from which every charge is too old to be given back.
    pub(super) too_old_at: u64,
}

/// In place of an instant: later than any.
pub(super) const NO_DEBT: u64 = u64::MAX;

/// Largest `returned`, 142 years: more is not given back. So marks are below 2^53.
const MOST_RETURNED: u64 = 1 << 52;

fn add_returned(returned: u64, micros: u64) -> u64 {
    returned.saturating_add(micros).min(MOST_RETURNED)
}

impl State {
    /// A bucket of which nothing was given back.
    pub(super) const fn new(tat: Rational) -> Self {
        Self { tat, returned: 0 }
    }

    /// An empty bucket at `now`.
    fn empty(policy: &Policy, now: u64) -> Rational {
        instant(now).plus(refill(policy.capacity(), policy), policy.max())
    }

    /// `returned` after a bucket that was emptier than `empty` is moved back to it. Takes values, so that the
    /// state of other decisions stays in registers.
    #[cold]
    fn returned_after_cut(returned: u64, tat: Rational, empty: Rational, max: u64) -> u64 {
        add_returned(returned, tat.minus(empty, max).rounded_up())
    }

    /// Mark of the last charge. Saturates, because a wrong reply of a server must not end in an overflow.
    fn marked(&self) -> u64 {
        self.resets_at().saturating_add(self.returned)
    }

    /// Whether the charge with this mark is the last one.
    fn is_last(&self, policy: &Policy, mark: u64) -> bool {
        // Several charges of less than a microsecond may have the same mark.
        policy.max() <= policy.window_us() && self.marked() == mark
    }
}

impl Step for State {
    #[inline]
    fn advance(&mut self, policy: &Policy, now: u64) -> bool {
        let empty = Self::empty(policy, now);
        if self.tat > empty {
            self.returned = Self::returned_after_cut(self.returned, self.tat, empty, policy.max());
            self.tat = empty;
            return true;
        }
        self.tat = self.tat.max(instant(now));
        false
    }

    fn available(&self, policy: &Policy, now: u64) -> Option<u64> {
        let empty = Self::empty(policy, now);
        if self.tat > empty {
            return None;
        }
        let level = empty.minus(self.tat, policy.max());
        let (tokens, rest) = mul_div(level.micros, policy.max(), policy.window_us());
        Some(tokens + (rest + level.fraction) / policy.window_us())
    }

    #[inline]
    fn charge(&mut self, policy: &Policy, _now: u64, cost: u64) {
        self.tat = self.tat.plus(refill(cost, policy), policy.max());
    }

    fn resets_at(&self) -> u64 {
        self.tat.rounded_up()
    }

    fn returned_us(&self) -> u64 {
        self.returned
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        let spare = refill(policy.capacity().checked_sub(cost)?, policy);
        // The cost does not fit, so `tat` is later than `now + spare`.
        Some(self.tat.minus(spare, policy.max()).rounded_up() - now)
    }

    fn refund(&mut self, policy: &Policy, now: u64, at: u64, mark: u64, cost: u64) {
        let taken = refill(cost, policy);
        let full_again = refill(policy.capacity(), policy);
        if instant(now) >= instant(at).plus(full_again, policy.max()) {
            return;
        }
        let back = taken.min(self.tat.minus(instant(now), policy.max()));
        if self.is_last(policy, mark) {
            self.tat = self.tat.minus(back, policy.max());
            return;
        }
        // The mark is rounded up, so the exact mark is after `mark - 1`. It is also not before the instant at
        // which a full bucket would have been full again. The later of the two bounds is never too late.
        let mark = instant(mark.saturating_sub(1)).max(instant(at).plus(taken, policy.max()));
        let paid = instant(now + self.returned);
        let back = back.min(mark.max(paid).minus(paid, policy.max()));
        if back.rounded_up() <= MOST_RETURNED - self.returned {
            self.tat = self.tat.minus(back, policy.max());
            self.returned += back.rounded_up();
        }
    }
}

impl Long {
    /// Moves a debt back with the clock. Returns whether the clock went back.
    fn advance_debt(&mut self, now: u64, empty: Rational) -> bool {
        let went_back = now < self.indebted_at;
        if went_back {
            self.bucket.returned = add_returned(self.bucket.returned, self.indebted_at - now);
            self.bucket.tat.micros -= self.indebted_at - now;
            self.indebted_at = if self.bucket.tat > empty { now } else { NO_DEBT };
            self.has_turns &= self.is_in_debt();
        }
        went_back
    }

    pub(super) const fn is_in_debt(&self) -> bool {
        self.indebted_at != NO_DEBT
    }

    /// While turns are not due, whether the charge with this mark is the last one, whose refund moves no
    /// turn.
    pub(super) fn is_last_of_turns(mut self, policy: &Policy, now: u64, mark: u64) -> Option<bool> {
        self.advance(policy, now);
        self.has_turns.then(|| self.bucket.is_last(policy, mark))
    }

    /// The instant from which the bucket is full, and no charge can be given back.
    pub(super) fn expires_at(&self) -> u64 {
        let full = self.bucket.resets_at();
        full.max(self.too_old_at.min(self.bucket.marked()))
    }
}

impl From<State> for Long {
    fn from(bucket: State) -> Self {
        // Nothing was given back before, so no charge ends later.
        Self { bucket, indebted_at: NO_DEBT, has_turns: false, too_old_at: bucket.marked() }
    }
}

impl Step for Long {
    #[cold]
    fn advance(&mut self, policy: &Policy, now: u64) -> bool {
        let empty = State::empty(policy, now);
        self.too_old_at = empty.rounded_up();
        if self.bucket.tat > empty && self.is_in_debt() {
            return self.advance_debt(now, empty);
        }
        (self.indebted_at, self.has_turns) = (NO_DEBT, false);
        self.bucket.returned = self.bucket.returned.min(self.bucket.marked().saturating_sub(now));
        self.bucket.advance(policy, now)
    }

    #[cold]
    fn available(&self, policy: &Policy, now: u64) -> Option<u64> {
        self.bucket.available(policy, now)
    }

    #[cold]
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64) {
        self.bucket.charge(policy, now, cost);
    }

    fn resets_at(&self) -> u64 {
        self.bucket.resets_at()
    }

    fn returned_us(&self) -> u64 {
        self.bucket.returned
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        self.bucket.retry_after(policy, now, cost)
    }

    fn refund(&mut self, policy: &Policy, now: u64, at: u64, mark: u64, cost: u64) {
        self.bucket.refund(policy, now, at, mark, cost);
    }
}

#[cfg(feature = "redis")]
impl Encoded for State {
    const ALGORITHM: Algorithm = Algorithm::TokenBucket;

    fn encoded_len(_sub_windows: u64, bytes: &[u8]) -> Option<usize> {
        Some(match bytes.first() {
            Some(&(TURNS_TAG | DEBT_TAG | RETURNED_TAG)) => 20,
            Some(&(RETURNED_AND_TURNS_TAG | RETURNED_IN_DEBT_TAG)) => 27,
            _ => 13,
        })
    }

    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        Self::read(policy, reader)
    }
}

impl State {
    /// Reads a bucket that is not [`Long`]; `None` if the bytes are malformed.
    pub(super) fn read(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self> {
        let (micros, fraction) = (reader.micros()?, reader.units()?);
        (fraction < policy.max()).then_some(Self::new(Rational { micros, fraction }))
    }
}

/// First byte of a bucket that may be in debt, with turns. Version 0.1.0 writes it for every debt.
const TURNS_TAG: u8 = b'd';
/// First byte of a bucket that may be in debt by settlements alone.
const DEBT_TAG: u8 = b'e';
/// First byte of a bucket of which units were given back out of order.
const RETURNED_TAG: u8 = b'r';
/// First byte of a bucket that may be in debt, with turns, of which units were given back out of order.
const RETURNED_AND_TURNS_TAG: u8 = b'o';
/// The same without turns.
const RETURNED_IN_DEBT_TAG: u8 = b'p';

/// All of these.
#[cfg(test)]
pub(super) const LONG_TAGS: [u8; 5] =
    [TURNS_TAG, DEBT_TAG, RETURNED_TAG, RETURNED_AND_TURNS_TAG, RETURNED_IN_DEBT_TAG];

impl Long {
    /// First byte of the bucket; `None` if it need not be long.
    pub(super) const fn tag(&self) -> Option<u8> {
        match (self.is_in_debt(), self.has_turns, self.bucket.returned > 0) {
            (false, _, false) => None,
            (false, _, true) => Some(RETURNED_TAG),
            (true, false, false) => Some(DEBT_TAG),
            (true, true, false) => Some(TURNS_TAG),
            (true, false, true) => Some(RETURNED_IN_DEBT_TAG),
            (true, true, true) => Some(RETURNED_AND_TURNS_TAG),
        }
    }

    /// Whether a bucket that begins with this byte is long.
    pub(super) const fn is_tag(tag: u8) -> bool {
        matches!(tag, TURNS_TAG | DEBT_TAG | RETURNED_TAG | RETURNED_AND_TURNS_TAG | RETURNED_IN_DEBT_TAG)
    }

    /// Reads a bucket behind its [tag](Self::tag); `None` if the bytes are malformed, or if time does not pay
    /// the debt within the longest window.
    pub(super) fn read(policy: &Policy, tag: u8, reader: &mut Reader<'_>) -> Option<Self> {
        let mut long = Self::from(State::read(policy, reader)?);
        long.has_turns = matches!(tag, TURNS_TAG | RETURNED_AND_TURNS_TAG);
        if long.has_turns || matches!(tag, DEBT_TAG | RETURNED_IN_DEBT_TAG) {
            long.indebted_at = reader.micros()?;
            let longest = instant(long.indebted_at + LONGEST_US);
            Some(()).filter(|()| (instant(long.indebted_at)..=longest).contains(&long.bucket.tat))?;
        }
        if let RETURNED_TAG | RETURNED_AND_TURNS_TAG | RETURNED_IN_DEBT_TAG = tag {
            long.bucket.returned = reader.micros().filter(|returned| *returned <= MOST_RETURNED)?;
        }
        Some(long)
    }
}

/// Longest window, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = crate::policy::MAX_WINDOW.as_micros() as u64;
