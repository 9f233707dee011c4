//! Instants and spans of a token bucket, exact to the fraction of a microsecond.

/// An instant or a span: `micros + fraction / max` microseconds, with `fraction < max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rational {
    pub(super) micros: u64,
    pub(super) fraction: u64,
}

impl Rational {
    /// `self + other`. Saturates, because a wrong reply of a server must not end in an overflow.
    pub(super) fn plus(self, other: Self, max: u64) -> Self {
        let fraction = self.fraction + other.fraction;
        let carry = u64::from(fraction >= max);
        let micros = self.micros.saturating_add(other.micros).saturating_add(carry);
        Self { micros, fraction: fraction - carry * max }
    }

    /// `self - other`, which must not be negative.
    pub(super) fn minus(self, other: Self, max: u64) -> Self {
        let borrow = u64::from(self.fraction < other.fraction);
        Self {
            micros: self.micros - other.micros - borrow,
            fraction: self.fraction + borrow * max - other.fraction,
        }
    }

    pub(super) fn rounded_up(self) -> u64 {
        self.micros + u64::from(self.fraction > 0)
    }
}
