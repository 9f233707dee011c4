//! Integers of 40 and 56 bits, as in Redis, so that states are small.

use crate::policy::MAX_UNITS;

/// An unsigned integer in `N` bytes. Saturates at the largest one, which neither a policy nor a clock reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uint<const N: usize>([u8; N]);

/// A count of units, at most [`MAX_UNITS`].
pub(super) type U40 = Uint<5>;

/// Microseconds since the Unix epoch, until the year 4253.
pub(super) type U56 = Uint<7>;

const _: () = assert!(MAX_UNITS <= U40::MAX, "five bytes hold every count");

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
