//! The numbers of states: exact products and quotients, instants exact to the fraction of a microsecond, and
//! integers of 40 and 56 bits.

use crate::policy::MAX_UNITS;

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

/// `a * b / c`, rounded down, and the remainder.
///
/// Exact for every combination of numbers that [`Policy`](crate::policy::Policy) admits. Saturates if the
/// quotient does not fit, which no such combination reaches.
#[inline]
pub(super) fn mul_div(a: u64, b: u64, c: u64) -> (u64, u64) {
    // The product nearly always fits, and a division of 128 bits takes several times as long.
    if let Some(product) = a.checked_mul(b) {
        return (product / c, product % c);
    }
    let product = u128::from(a) * u128::from(b);
    let c = u128::from(c);
    let clip = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    (clip(product / c), clip(product % c))
}

/// An unsigned integer in `N` bytes. Saturates at [`MAX`](Self::MAX), which neither a policy nor a clock
/// reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uint<const N: usize>([u8; N]);

/// A count of units, at most [`MAX_UNITS`].
pub(super) type U40 = Uint<5>;

/// Microseconds since the Unix epoch, until the year 4253.
pub(super) type U56 = Uint<7>;

const _: () = assert!(MAX_UNITS <= U40::MAX, "every count fits into five bytes");

impl<const N: usize> Uint<N> {
    pub(super) const MAX: u64 = (1 << (8 * N)) - 1;
}

impl<const N: usize> From<u64> for Uint<N> {
    fn from(value: u64) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&value.min(Self::MAX).to_le_bytes()[..N]);
        Self(bytes)
    }
}

impl<const N: usize> From<Uint<N>> for u64 {
    fn from(Uint(small): Uint<N>) -> Self {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&small);
        Self::from_le_bytes(bytes)
    }
}

impl<const N: usize> Default for Uint<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_that_a_policy_admits_fits() {
        assert_eq!(u64::from(U40::default()), 0);
        for units in [0, 1, 255, 256, 0x01_0203_0405, MAX_UNITS, U40::MAX, U40::MAX + 1, u64::MAX] {
            assert_eq!(u64::from(U40::from(units)), units.min(U40::MAX));
        }
        assert_eq!(u64::from(U56::from(1_790_000_000_123_456)), 1_790_000_000_123_456);
        assert_eq!((size_of::<U40>(), size_of::<U56>()), (5, 7));
    }
}
