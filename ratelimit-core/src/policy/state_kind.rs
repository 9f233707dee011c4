//! What distinguishes the states of policies: keys and names, and the kinds of states under one key. The one
//! answer to which policies count together.

use super::{Algorithm, Mode};

/// Policies count together if they have the same key and the same kind of state.
///
/// The count of a window means the same under any `max`, so a changed `max` keeps the counts. A shadow limit
/// never counts together with an enforced one, so that it changes nothing that the other decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateKind {
    pub(crate) algorithm: Algorithm,
    pub(crate) mode: Mode,
    /// Of a calendar the longest one.
    pub(crate) window_us: u64,
    pub(crate) sub_windows: u64,
    /// The letter of a calendar. Without zone and anchor: a change of these keeps the counts.
    pub(crate) calendar: Option<u8>,
    /// `max` and burst of a token bucket, whose state is an instant that depends on both.
    pub(crate) bucket: Option<[u64; 2]>,
}

impl StateKind {
    /// FNV-1a of the key and the kind, so that a store hashes 8 bytes instead of a name. Developers choose
    /// the input, so the hash need not resist attacks.
    pub(super) const fn id(self, key: &str) -> u64 {
        let mut hash = fnv1a(FNV_OFFSET, key.as_bytes());
        hash = fnv1a(hash, &[0, self.algorithm as u8, self.mode as u8]);
        hash = fnv1a(hash, &self.window_us.to_le_bytes());
        hash = fnv1a(hash, &self.sub_windows.to_le_bytes());
        if let Some(letter) = self.calendar {
            hash = fnv1a(hash, &[letter]);
        }
        if let Some([max, burst]) = self.bucket {
            hash = fnv1a(hash, &max.to_le_bytes());
            hash = fnv1a(hash, &burst.to_le_bytes());
        }
        hash
    }
}

/// The fingerprint of the count with this label, from that of the counts of all windows.
#[inline]
pub(crate) const fn labelled(hash: u64, label: u64) -> u64 {
    // All bytes at once, because each request computes it. Two labels of one policy differ in the result.
    (hash ^ label).wrapping_mul(FNV_PRIME)
}

/// Start value of [`fnv1a`].
pub const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Continues the FNV-1a `hash` over `bytes`.
pub const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(FNV_PRIME);
        i += 1;
    }
    hash
}

/// Longest key or name of a policy: 128 bytes. A module path and a function name fit.
pub const MAX_NAME_LEN: usize = 128;

/// Whether this may be a key or a name: printable ASCII that needs no escape in a Redis key or a quoted
/// header field.
pub(super) const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_NAME_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !is_name_byte(bytes[i]) {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether a key or a name may have this byte.
pub const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'"' | b'\\')
}
