//! Fingerprints of policies' states.

use std::borrow::Cow;

use super::Policy;

/// FNV-1a of everything that tells one policy's states from another's, so that a store hashes 8 bytes instead of a name.
///
/// Developers choose the input, so the hash need not resist attacks.
pub(super) const fn state_id(policy: &Policy) -> u64 {
    let Policy { algorithm, mode, max, window_us, sub_windows, burst, .. } = *policy;
    let key = match &policy.key {
        Cow::Borrowed(key) => key,
        Cow::Owned(key) => key.as_str(),
    };
    let mut hash = fnv1a(FNV_OFFSET, key.as_bytes());
    hash = fnv1a(hash, &[0, algorithm as u8, mode as u8]);
    hash = fnv1a(hash, &window_us.to_le_bytes());
    hash = fnv1a(hash, &sub_windows.to_le_bytes());
    if let Some(calendar) = &policy.calendar {
        // Without zone and anchor: a change of these keeps the count. In a group the first limit tells the window.
        hash = fnv1a(hash, &[calendar.letter()]);
    }
    if algorithm.has_burst() {
        hash = fnv1a(hash, &max.to_le_bytes());
        hash = fnv1a(hash, &burst.to_le_bytes());
    }
    hash
}

/// Start value of [`fnv1a`].
pub const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues the FNV-1a `hash` over `bytes`.
pub const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}
