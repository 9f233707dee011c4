//! The least work of any keyed limiter: one hash, one slot, one atomic exchange. Not a limiter: callers
//! collide.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

/// Slots; a power of two.
const SLOTS: usize = 1 << 20;

/// A table of packed two-window counts: 16 bits of the window's number, 24 of the last window's count, 24 of
/// this one's.
#[derive(Debug)]
pub struct Floor {
    hasher: RandomState,
    slots: Box<[AtomicU64]>,
    max: u64,
    window_us: u64,
}

impl Floor {
    /// A table for one limit; `max` is below 2^24, the window below 2^38.
    pub fn new(max: u64, window_us: u64) -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { hasher: RandomState::default(), slots, max, window_us }
    }

    /// Takes one unit if it passes.
    pub fn check(&self, caller: &[u8], now_us: u64) -> bool {
        let slot = &self.slots[self.hasher.hash_one(caller) as usize % SLOTS];
        let (number, gone) = (now_us / self.window_us, now_us % self.window_us);
        let mut packed = slot.load(Ordering::Relaxed);
        loop {
            let (last, this) = match number.wrapping_sub(packed >> 48) & 0xffff {
                0 => ((packed >> 24) & 0xff_ffff, packed & 0xff_ffff),
                1 => (packed & 0xff_ffff, 0),
                _ => (0, 0),
            };
            // The last window's share is rounded down. Multiplied by the window, since a division costs as
            // much as all the rest.
            let taken = last * (self.window_us - gone) + (this + 1) * self.window_us;
            if taken >= (self.max + 1) * self.window_us {
                return false;
            }
            let next = ((number & 0xffff) << 48) | (last << 24) | (this + 1);
            match slot.compare_exchange_weak(packed, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => packed = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_limits() {
        let floor = Floor::new(3, 1000);
        let pass = |now| (0..5).filter(|_| floor.check(b"a", now)).count();
        assert_eq!(pass(10_000), 3);
        assert_eq!(pass(11_500), 2, "half of the last window's three still counts");
        assert_eq!(pass(13_000), 3);
    }
}
