//! Block: everything is denied until one instant, whatever the algorithm.
//!
//! ```text
//! begins       at the first denial under a policy with a block, if a wait would help; until = now + block,
//!              the shortest of the policies of a group over the same counts
//! available    nothing, not even a cost of 0
//! reset_after  until - now
//! retry_after  until - now                                       (never when the cost exceeds the limit)
//! ```
//!
//! The block replaces the counts. From `until` on, the state is that of a new caller. Neither a denial nor a refund changes
//! it. Under every policy a block ends at the latest one block of that policy after `now`: a request shortens a block that
//! the clock, which went back, or another policy over the same counts made longer. Under a policy without a block of its own,
//! which obeys that of another policy, it ends at the latest after the longest window.
//!
//! Twin: `lua/open.lua`, with the state in 8 bytes: `b`, `until` (7 bytes).

#[cfg(feature = "redis")]
use super::reader::Reader;
use super::step::Step;
use crate::policy::{MAX_WINDOW, Policy};

/// First byte of a block in Redis.
#[cfg(feature = "redis")]
pub(super) const TAG: u8 = b'b';

/// Length in bytes of a block in Redis.
#[cfg(feature = "redis")]
pub(super) const ENCODED_LEN: usize = 8;

/// Longest block of any policy, in microseconds.
#[allow(clippy::cast_possible_truncation, reason = "366 days")]
const LONGEST_US: u64 = MAX_WINDOW.as_micros() as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// First instant after the block.
    pub(super) until: u64,
}

impl State {
    /// The block that a denial at `now` begins.
    pub(super) const fn begin(now: u64, block_us: u64) -> Self {
        Self { until: now + block_us }
    }

    /// Reads a block behind its tag; `None` if the bytes are malformed.
    #[cfg(feature = "redis")]
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { until: reader.micros()? })
    }
}

impl Step for State {
    fn advance(&mut self, policy: &Policy, now: u64) -> bool {
        let latest = now + if policy.block_us() > 0 { policy.block_us() } else { LONGEST_US };
        let went_back = self.until > latest;
        if went_back {
            self.until = latest;
        }
        went_back
    }

    fn available(&self, _policy: &Policy, _now: u64) -> Option<u64> {
        None
    }

    fn charge(&mut self, _policy: &Policy, _now: u64, _cost: u64) {}

    fn resets_at(&self) -> u64 {
        self.until
    }

    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64> {
        (cost <= policy.capacity()).then(|| self.until - now)
    }

    fn refund(&mut self, _policy: &Policy, _now: u64, _at: u64, _until: u64, _cost: u64) {}
}
