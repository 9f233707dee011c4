//! The state of a caller: packed in 16 bytes for a table, and unpacked for the algorithms.
//!
//! A packed state has its expiry, so that a store needs no policy to drop it: instead of the start of a
//! window it has the instant from which nothing counts.

#[cfg(test)]
mod tests;

use super::numbers::{Rational, U56};
use super::step::Step;
use super::{concurrency, fixed_window, sliding_window_counter, sliding_window_log, token_bucket};
use crate::check::Check;
use crate::clock::Timestamp;
use crate::policy::{Algorithm, Policy};
use crate::reservation::Charge;

/// State of one caller under one policy, in 16 bytes.
///
/// A store keeps it, and [`decide_with`](crate::store::toolkit::decide_with) decides with it. Its contents
/// are opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(pub(super) Packed);

/// Large states are boxed so that the enum stays at 16 bytes; `None` until something is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    FixedWindow { forget_at: U56, count: u64 },
    TwoWindows { forget_at: U56, current: u32, earlier: u32 },
    // Two windows as well, if a count exceeds 32 bits.
    SubWindows(Option<Box<sliding_window_counter::SubWindows>>),
    SlidingWindowLog(Option<Box<sliding_window_log::State>>),
    TokenBucket { tat: U56, fraction: u64 },
    // A token bucket that may be in debt, or of which units were given back out of order.
    LongBucket(Box<token_bucket::Long>),
    Concurrency { since: U56, held: u64 },
    // Replaces the state of any algorithm, which starts from a new state afterwards.
    Blocked { until: U56 },
}

const _: () = assert!(size_of::<State>() == 16, "a table of a store keeps this and a digest per caller");

/// A state as an algorithm advances and charges it.
#[derive(Debug)]
pub(super) enum Unpacked {
    FixedWindow(fixed_window::State),
    TwoWindows(sliding_window_counter::TwoWindows),
    SubWindows(Box<sliding_window_counter::SubWindows>),
    SlidingWindowLog(Box<sliding_window_log::State>),
    TokenBucket(token_bucket::State),
    LongBucket(token_bucket::Long),
    Concurrency(concurrency::State),
}

/// Runs the same code on a state of any kind, without dynamic dispatch, so that it is inlined. Then runs
/// `$then` with the result, in the branch of that kind: there the compiler knows the kind that is packed, and
/// copies nothing else.
macro_rules! each {
    ($unpacked:ident, $step:ident => $body:expr, $result:pat => $then:expr) => {
        each!($unpacked, $step => $body, $result => $then,
            FixedWindow(own => own) TwoWindows(own => own) SubWindows(own => *own)
            SlidingWindowLog(own => *own) TokenBucket(own => own) LongBucket(own => own) Concurrency(own => own))
    };
    ($unpacked:ident, $step:ident => $body:expr, $result:pat => $then:expr,
        $($kind:ident($own:ident => $of_own:expr))*) => {
        match $unpacked {
            $(Unpacked::$kind(mut $own) => {
                let $step = &mut $of_own;
                let $result = $body;
                let $unpacked = $own;
                $then
            })*
        }
    };
}
pub(super) use each;

impl State {
    /// The state of a new caller under `policy`.
    pub fn new(policy: &Policy) -> Self {
        let zero = U56::default();
        Self(match policy.algorithm() {
            Algorithm::FixedWindow => Packed::FixedWindow { forget_at: zero, count: 0 },
            Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => {
                Packed::TwoWindows { forget_at: zero, current: 0, earlier: 0 }
            }
            Algorithm::SlidingWindowCounter => Packed::SubWindows(None),
            Algorithm::SlidingWindowLog => Packed::SlidingWindowLog(None),
            Algorithm::TokenBucket => Packed::TokenBucket { tat: zero, fraction: 0 },
            Algorithm::Concurrency => Packed::Concurrency { since: zero, held: 0 },
        })
    }

    /// The instant from which this state decides as a new one would, so that it can be dropped. A counter
    /// over two windows expires up to a twelfth of the window later, slots that are held in the year 4253,
    /// and a calendar window whose anchor moves when the last window with the same label can end.
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(match &self.0 {
            Packed::FixedWindow { forget_at, .. } | Packed::TwoWindows { forget_at, .. } => {
                (*forget_at).into()
            }
            Packed::SubWindows(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Packed::SlidingWindowLog(state) => state.as_ref().map_or(0, |state| state.resets_at()),
            Packed::TokenBucket { tat, fraction } => rational(*tat, *fraction).rounded_up(),
            Packed::LongBucket(bucket) => bucket.expires_at(),
            Packed::Concurrency { held: 0, .. } => 0,
            Packed::Concurrency { .. } => U56::MAX,
            Packed::Blocked { until } => (*until).into(),
        })
    }

    /// A value that differs after a decision that charged or blocked: the state, but of a log only its newest
    /// entry, since older entries only expire.
    pub(crate) fn mark(&self) -> Self {
        match &self.0 {
            Packed::SlidingWindowLog(Some(log)) => {
                Self(Packed::SlidingWindowLog(Some(Box::new(log.newest()))))
            }
            _ => self.clone(),
        }
    }

    /// Whether slots are held.
    pub(crate) fn holds_slots(&self) -> bool {
        matches!(self.0, Packed::Concurrency { held: 1.., .. })
    }

    /// Frees slots.
    pub(crate) fn free(&mut self, slots: u64) {
        if let Packed::Concurrency { held, .. } = &mut self.0 {
            *held = held.saturating_sub(slots);
        }
    }

    /// Refunds `cost` units that were charged at `at` and count until `until`, as far as they still count.
    /// Returns false, and changes nothing, if they no longer count at `now`.
    ///
    /// Units that have expired or were refilled meanwhile are not refunded again, and units that were charged
    /// in a later window are not touched. A block, which replaced the counts, stays as it is.
    pub fn refund(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        at: Timestamp,
        until: Timestamp,
        cost: u64,
    ) -> bool {
        self.refund_check(Check::new(policy, "").with_cost(cost), now, at, until)
    }

    fn refund_check(&mut self, check: Check<'_>, now: Timestamp, at: Timestamp, until: Timestamp) -> bool {
        let still_counts = now < until && !matches!(self.0, Packed::Blocked { .. });
        if still_counts {
            let (check, now) = (check.in_window(at, 0), now.as_micros());
            let (policy, (unpacked, _)) = (check.policy(), self.unpack(&check, now));
            each!(unpacked, step => {
                step.advance(policy, now);
                step.refund(policy, now, at.as_micros(), until.as_micros(), check.cost());
            }, () => self.pack(unpacked));
        }
        still_counts
    }

    /// [Refunds](Self::refund) a charge, unless that would [move](Self::keeps) a later turn. Returns whether
    /// the state changed.
    pub fn refund_charge(&mut self, charge: &Charge<'_>, now: Timestamp) -> bool {
        let (check, mut at, until) = (charge.check(), charge.at(), charge.until());
        match self.is_last_of_turns(charge, now) {
            Some(false) => return false,
            // The last charge is never too old: the bucket has been in debt since.
            Some(true) => at = now,
            None => {}
        }
        self.refund_check(check, now, at, until)
    }

    /// Whether a charge that still counts is not [refunded](Self::refund_charge): it is not the last charge
    /// of its token bucket, and its refund would move [turns](crate::store::toolkit::Operation::Wait) that
    /// are not due.
    pub fn keeps(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        now < charge.until() && self.is_last_of_turns(charge, now) == Some(false)
    }

    /// Whether the charge is the last one of a bucket with turns that are not due; `None` without such turns.
    fn is_last_of_turns(&self, charge: &Charge<'_>, now: Timestamp) -> Option<bool> {
        let Packed::LongBucket(bucket) = &self.0 else { return None };
        bucket.is_last_of_turns(charge.check().policy(), now.as_micros(), charge.until().as_micros())
    }

    /// Unpacks the state for a decision at `now`. Returns true if the state was moved out, so that it must be
    /// packed again in any case.
    #[allow(clippy::inline_always, reason = "saves 46 of 588 instructions of a check in memory")]
    #[inline(always)]
    pub(super) fn unpack(&mut self, check: &Check<'_>, now: u64) -> (Unpacked, bool) {
        let policy = check.policy();
        match &mut self.0 {
            Packed::FixedWindow { forget_at, count } => {
                let window = check.window_at(now);
                let state = fixed_window::State::unpack(policy, window, (*forget_at).into(), *count);
                (Unpacked::FixedWindow(state), false)
            }
            Packed::TwoWindows { forget_at, current, earlier } => {
                let (forget_at, current, earlier) =
                    ((*forget_at).into(), (*current).into(), (*earlier).into());
                let state =
                    sliding_window_counter::TwoWindows::from_forget_at(policy, forget_at, current, earlier);
                (Unpacked::TwoWindows(state), false)
            }
            // Advancing changes the state: a copy, which a denial drops.
            Packed::SubWindows(Some(state)) if !state.is_current(now) => {
                (Unpacked::SubWindows(state.clone()), false)
            }
            Packed::SubWindows(state) => {
                let new = || Box::new(sliding_window_counter::SubWindows::new(policy));
                (Unpacked::SubWindows(state.take().unwrap_or_else(new)), true)
            }
            // Never a copy: a log may be long.
            Packed::SlidingWindowLog(state) => {
                let new = || Box::new(sliding_window_log::State::new(policy));
                (Unpacked::SlidingWindowLog(state.take().unwrap_or_else(new)), true)
            }
            Packed::TokenBucket { tat, fraction } => {
                (Unpacked::TokenBucket(token_bucket::State::new(rational(*tat, *fraction))), false)
            }
            Packed::LongBucket(bucket) => (Unpacked::LongBucket(**bucket), false),
            Packed::Concurrency { since, held } => {
                let (since, held) = ((*since).into(), *held);
                (Unpacked::Concurrency(concurrency::State { since, held }), false)
            }
            // A block that is over stays until something is charged: it counts again if the clock goes back.
            Packed::Blocked { until } => {
                debug_assert!(u64::from(*until) <= now, "`block` decides while the state is blocked");
                (Unpacked::new(check, now), false)
            }
        }
    }

    /// Packs an unpacked state.
    #[allow(
        clippy::inline_always,
        reason = "saves 14 of 662 instructions of a check in memory, with the next"
    )]
    #[inline(always)]
    pub(super) fn pack<S>(&mut self, state: S)
    where
        Packed: From<S>,
    {
        self.0 = Packed::from(state);
    }
}

impl From<fixed_window::State> for Packed {
    #[inline]
    fn from(state: fixed_window::State) -> Self {
        let (forget_at, count) = state.packed();
        Self::FixedWindow { forget_at: forget_at.into(), count }
    }
}

impl From<sliding_window_counter::TwoWindows> for Packed {
    #[allow(clippy::inline_always, reason = "as `State::pack`")]
    #[inline(always)]
    fn from(state: sliding_window_counter::TwoWindows) -> Self {
        let (current, earlier) = state.counts();
        match (u32::try_from(current), u32::try_from(earlier)) {
            (Ok(current), Ok(earlier)) => {
                Self::TwoWindows { forget_at: state.forget_at().into(), current, earlier }
            }
            _ => Self::SubWindows(Some(Box::new(state.into()))),
        }
    }
}

impl From<Box<sliding_window_counter::SubWindows>> for Packed {
    fn from(state: Box<sliding_window_counter::SubWindows>) -> Self {
        Self::SubWindows(Some(state))
    }
}

impl From<Box<sliding_window_log::State>> for Packed {
    fn from(state: Box<sliding_window_log::State>) -> Self {
        Self::SlidingWindowLog(Some(state))
    }
}

impl From<token_bucket::State> for Packed {
    #[inline]
    fn from(bucket: token_bucket::State) -> Self {
        if bucket.returned > 0 {
            return Self::LongBucket(Box::new(bucket.into()));
        }
        Self::TokenBucket { tat: bucket.tat.micros.into(), fraction: bucket.tat.fraction }
    }
}

impl From<token_bucket::Long> for Packed {
    fn from(mut long: token_bucket::Long) -> Self {
        if long.bucket.returned == 0 {
            long.too_old_at = long.bucket.resets_at();
        }
        if long.tag().is_none() { long.bucket.into() } else { Self::LongBucket(Box::new(long)) }
    }
}

impl From<concurrency::State> for Packed {
    fn from(concurrency::State { since, held }: concurrency::State) -> Self {
        Self::Concurrency { since: since.into(), held }
    }
}

impl From<Unpacked> for Packed {
    fn from(unpacked: Unpacked) -> Self {
        match unpacked {
            Unpacked::FixedWindow(state) => state.into(),
            Unpacked::TwoWindows(state) => state.into(),
            Unpacked::SubWindows(state) => state.into(),
            Unpacked::SlidingWindowLog(state) => state.into(),
            Unpacked::TokenBucket(state) => state.into(),
            Unpacked::LongBucket(state) => state.into(),
            Unpacked::Concurrency(state) => state.into(),
        }
    }
}

fn rational(micros: U56, fraction: u64) -> Rational {
    Rational { micros: micros.into(), fraction }
}

impl Unpacked {
    /// The state of a new caller. Cold, so that `unpack` stays small where it is inlined.
    #[cold]
    pub(super) fn new(check: &Check<'_>, now: u64) -> Self {
        State::new(check.policy()).unpack(check, now).0
    }

    pub(super) fn step(&self) -> &dyn Step {
        match self {
            Self::FixedWindow(state) => state,
            Self::TwoWindows(state) => state,
            Self::SubWindows(state) => &**state,
            Self::SlidingWindowLog(state) => &**state,
            Self::TokenBucket(state) => state,
            Self::LongBucket(state) => state,
            Self::Concurrency(state) => state,
        }
    }

    pub(super) fn step_mut(&mut self) -> &mut dyn Step {
        match self {
            Self::FixedWindow(state) => state,
            Self::TwoWindows(state) => state,
            Self::SubWindows(state) => &mut **state,
            Self::SlidingWindowLog(state) => &mut **state,
            Self::TokenBucket(state) => state,
            Self::LongBucket(state) => state,
            Self::Concurrency(state) => state,
        }
    }
}
