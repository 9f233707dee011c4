//! Reads and writes states as bytes: as Redis holds them, by the layout in each algorithm's file, and as custom stores do.

use crate::policy::MAX_UNITS;
#[cfg(feature = "redis")]
use crate::policy::{Algorithm, Policy};

/// Reply for a key that does not exist.
#[cfg(feature = "redis")]
pub(super) const ABSENT: &[u8] = b".";

/// A state that Redis holds: the tag of its algorithm, then little-endian integers, as the Lua file of the same name
/// describes under "State".
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

    /// A count of units that is at most the largest of all.
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
