//! What every algorithm's state implements: the steps of a decision, and decoding from bytes.
//!
//! The layout in Redis is in each algorithm's Lua file under "State", the layout for custom stores in
//! `bytes.rs`.

use crate::outcome::Verdict;
#[cfg(feature = "redis")]
use crate::policy::Algorithm;
use crate::policy::{MAX_UNITS, Policy};

/// State of one caller under one policy. All instants and waits are in microseconds.
pub(super) trait Step {
    /// The instant of a decision at `now`: the nearest instant of the window, if the state belongs to a
    /// window that does not contain `now`.
    fn instant(&self, now: u64) -> u64 {
        now
    }

    /// Advances the state to `now`. Returns true if the advanced state must be stored even when nothing is
    /// charged.
    ///
    /// It must be if the clock went back, if the state counts for longer than before, or if the next advance
    /// would otherwise do the same work again.
    fn advance(&mut self, policy: &Policy, now: u64) -> bool;

    /// Units available at `now`, in an advanced state. `None` if the count exceeds `max`, which happens after
    /// `max` was lowered and after a settlement; then not even a cost of 0 passes.
    fn available(&self, policy: &Policy, now: u64) -> Option<u64>;

    /// Charges `cost`, which is available.
    fn charge(&mut self, policy: &Policy, now: u64, cost: u64);

    /// The instant from which no charge counts; 0 if nothing was charged.
    fn resets_at(&self) -> u64;

    /// Time that a reservation adds to [`resets_at`](Self::resets_at) for the end of its charge: the mark of
    /// a token bucket.
    fn returned_us(&self) -> u64 {
        0
    }

    /// The smallest wait until `cost` is available, which it is not now; `None` if it exceeds the limit.
    fn retry_after(&self, policy: &Policy, now: u64, cost: u64) -> Option<u64>;

    /// Whether the state counts slots, which a request holds until it frees them.
    fn holds_slots(&self) -> bool {
        false
    }

    /// The denial of `cost`, which is not available.
    fn denial(&self, policy: &Policy, now: u64, cost: u64) -> Verdict {
        Verdict::denied(self.retry_after(policy, now, cost))
    }

    /// Refunds a charge of `cost` at `at`, which counts until `until`, as far as it still counts.
    fn refund(&mut self, policy: &Policy, now: u64, at: u64, until: u64, cost: u64);
}

/// Reply for a key that does not exist.
#[cfg(feature = "redis")]
pub(super) const ABSENT: &[u8] = b".";

/// A state in Redis: the tag of its algorithm, then little-endian integers. The Lua file of the same name
/// describes them under "State".
#[cfg(feature = "redis")]
pub(super) trait Encoded: Sized {
    const ALGORITHM: Algorithm;

    /// First byte of the state.
    const TAG: u8 = Self::ALGORITHM.spec().tag;

    /// Length in bytes of the state that `bytes` begin with; `None` if they are too few to know.
    fn encoded_len(sub_windows: u64, bytes: &[u8]) -> Option<usize>;

    /// Reads the state behind the tag; `None` if the bytes are malformed.
    fn decode(policy: &Policy, reader: &mut Reader<'_>) -> Option<Self>;
}

/// Reads little-endian integers one after the other.
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    #[inline]
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// The next `size` bytes, at most 8; `None` if fewer are left.
    #[inline]
    pub(super) fn next(&mut self, size: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(number);
        Some(u64::from_le_bytes(bytes))
    }

    /// An instant in microseconds: 7 bytes.
    #[inline]
    pub(super) fn micros(&mut self) -> Option<u64> {
        self.next(7)
    }

    /// A count of units: 5 bytes.
    #[inline]
    pub(super) fn units(&mut self) -> Option<u64> {
        self.next(5)
    }

    /// A count of units; `None` also if it is above the largest count, [`MAX_UNITS`].
    pub(super) fn bounded_units(&mut self) -> Option<u64> {
        self.units().filter(|units| *units <= MAX_UNITS)
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes what a [`Reader`] reads.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn new(first: u8) -> Self {
        Self(vec![first])
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// An instant in microseconds: 7 bytes.
    pub(super) fn micros(&mut self, micros: u64) {
        self.0.extend_from_slice(&micros.to_le_bytes()[..7]);
    }

    /// A count of units: 5 bytes.
    pub(super) fn units(&mut self, units: u64) {
        self.0.extend_from_slice(&units.to_le_bytes()[..5]);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
