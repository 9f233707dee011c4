//! What tells apart the states of policies with one key: the one answer to which policies count together.

use super::fnv1a::{FNV_OFFSET, fnv1a};
use super::{Algorithm, Mode};

/// Policies count together if they have the same key and the same kind of state.
///
/// The count of a window means the same under any `max`, so a changed `max` keeps the counts. A shadow limit never counts together
/// with an enforced one, so that it changes nothing that the other decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateKind {
    pub(crate) algorithm: Algorithm,
    pub(crate) mode: Mode,
    /// Of a calendar the longest one.
    pub(crate) window_us: u64,
    pub(crate) sub_windows: u64,
    /// The letter of a calendar. Without zone and anchor: a change of these keeps the count. In a group the first limit tells the
    /// window.
    pub(crate) calendar: Option<u8>,
    /// `max` and burst of a token bucket, whose state is an instant that depends on both.
    pub(crate) bucket: Option<[u64; 2]>,
}

impl StateKind {
    /// FNV-1a of the key and the kind, so that a store hashes 8 bytes instead of a name. Developers choose the input, so the hash
    /// need not resist attacks.
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
