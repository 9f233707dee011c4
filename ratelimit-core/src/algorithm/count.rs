//! A count in five bytes, so that a caller's state is small.

use crate::policy::MAX_UNITS;

/// Units, at most [`MAX_UNITS`]. More, which no policy admits, is kept as the most that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count([u8; 5]);

const MOST: u64 = (1 << 40) - 1;
const _: () = assert!(MAX_UNITS <= MOST, "five bytes hold every count");

impl Count {
    pub(super) const fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes.split_at_mut(5).0.copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }

    pub(super) fn set(&mut self, units: u64) {
        self.0.copy_from_slice(&units.min(MOST).to_le_bytes()[..5]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_that_a_policy_admits_is_kept() {
        let mut count = Count::default();
        assert_eq!(count.get(), 0);
        for units in [0, 1, 255, 256, 0x0102_0304_0506, MAX_UNITS, MOST, MOST + 1, u64::MAX] {
            count.set(units);
            assert_eq!(count.get(), units.min(MOST));
        }
        assert_eq!(size_of::<Count>(), 5);
    }
}
