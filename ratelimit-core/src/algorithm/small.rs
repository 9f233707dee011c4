//! Counts in five bytes and instants in seven, as in Redis, so that a caller's state is small.

use crate::policy::MAX_UNITS;

/// An integer in `N` bytes. A larger one, which neither a policy nor a clock yields, is kept as the most that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small<const N: usize>([u8; N]);

/// Units, at most [`MAX_UNITS`].
pub(super) type Count = Small<5>;

/// Microseconds since the Unix epoch, until the year 4253.
pub(super) type Micros = Small<7>;

const _: () = assert!(MAX_UNITS <= Count::MOST, "five bytes hold every count");

impl<const N: usize> Small<N> {
    pub(super) const ZERO: Self = Self([0; N]);
    const MOST: u64 = (1 << (8 * N)) - 1;

    pub(super) fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }

    pub(super) fn set(&mut self, value: u64) {
        self.0.copy_from_slice(&value.min(Self::MOST).to_le_bytes()[..N]);
    }
}

impl<const N: usize> Default for Small<N> {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_that_a_policy_admits_is_kept() {
        let mut count = Count::default();
        assert_eq!(count.get(), 0);
        for units in [0, 1, 255, 256, 0x01_0203_0405, MAX_UNITS, Count::MOST, Count::MOST + 1, u64::MAX] {
            count.set(units);
            assert_eq!(count.get(), units.min(Count::MOST));
        }
        let mut instant = Micros::default();
        instant.set(1_790_000_000_123_456);
        assert_eq!(instant.get(), 1_790_000_000_123_456);
        assert_eq!((size_of::<Count>(), size_of::<Micros>()), (5, 7));
    }
}
