//! Numbers that are random enough for an order of variants and a choice of callers, at almost no cost.

use std::hash::{BuildHasher, RandomState};

/// A xorshift generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8) | 1)
    }
}

impl Random {
    /// The same numbers for the same seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number but 0.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A wait between arrivals that know nothing of each other, 1 in the mean.
    pub fn wait(&mut self) -> f64 {
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - fraction).ln()
    }

    /// The numbers below `n` in any order.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_everything_once() {
        let mut order = Random::seeded(7).order(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn waits_are_1_in_the_mean() {
        let mut random = Random::seeded(7);
        let sum: f64 = (0..100_000).map(|_| random.wait()).sum();
        assert!((0.98..1.02).contains(&(sum / 100_000.0)), "{sum}");
    }
}
