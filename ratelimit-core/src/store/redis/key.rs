//! Keys in Redis.
//!
//! `rl1:user-api:c1m:{FwzRx1Fh8AJBaEpWvD3p5w}` consists of the prefix with the version of the layout; the
//! policy's key; the kind of state (algorithm, window or the letter of a calendar, further numbers, and
//! `.shadow` for a shadow limit), under a calendar with the label of the window; and the caller's digest, 128
//! bits as 22 characters of URL-safe base64. The braces make the digest the hash tag, so all limits of one
//! caller are on one node of a cluster.
//!
//! No two callers or policies share a key. A policy's key may contain colons, but the prefix and the kind
//! contain none, and the digest has a fixed length, so the parts can be read from both ends.

#[cfg(test)]
mod tests;

use std::array;

use crate::check::Check;
use crate::policy::{Mode, StateKind};

/// Length in bytes of a caller's digest as text.
pub(super) const TAG_LEN: usize = 22;

/// Version of the keys and of the states under them; another layout gets another number.
const LAYOUT: char = '1';

/// Formats keys: prefix, and key of the callers' digests.
pub(super) struct KeyFormat {
    prefix: String,
    digest_key: [u8; 32],
}

impl KeyFormat {
    /// Returns `None` if the prefix is empty, too long, or has a character that is not allowed.
    pub(super) fn new(prefix: &str, secret: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let ok = (1..=64).contains(&prefix.len()) && prefix.chars().all(allowed);
        ok.then(|| Self {
            prefix: format!("{prefix}{LAYOUT}:"),
            digest_key: blake3::derive_key("ratelimit-core 2026 digest of a caller", secret.as_bytes()),
        })
    }

    /// Key of a probe, which verifies that a server can be written to. It has no count.
    pub(super) fn probe_key(&self, number: u32) -> String {
        format!("{}probe:{number}", self.prefix)
    }

    /// The key of a check's state.
    pub(super) fn key(&self, check: &Check<'_>) -> StateKey {
        let (policy, mut caller) = (check.policy(), [0; 16]);
        let digest = blake3::keyed_hash(&self.digest_key, check.partition());
        caller.copy_from_slice(&digest.as_bytes()[..16]);
        let mut text = Vec::with_capacity(self.prefix.len() + policy.key().len() + 48);
        for part in [&self.prefix, policy.key(), ":"] {
            text.extend_from_slice(part.as_bytes());
        }
        debug_assert_eq!(check.window.is_some(), policy.calendar().is_some(), "a calendar has a window");
        push_kind(policy.state_kind(), check.window.map(|window| window.label), &mut text);
        text.extend_from_slice(b":{");
        text.extend_from_slice(&base64(&caller));
        text.push(b'}');
        #[allow(clippy::cast_possible_truncation, reason = "half of a digest is a hash as good as any")]
        let half = u128::from_le_bytes(caller) as u64;
        StateKey { hash: half ^ policy.window_us(), text }
    }
}

/// A key, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateKey {
    hash: u64,
    text: Vec<u8>,
}

impl StateKey {
    /// A hash for tables; keys of one caller may share it.
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The hash tag, which stands for the caller and decides the slot in a cluster.
    pub(super) fn hash_tag(&self) -> [u8; TAG_LEN] {
        let start = self.text.len() - TAG_LEN - 1;
        array::from_fn(|i| self.text[start + i])
    }
}

impl AsRef<[u8]> for StateKey {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Appends the algorithm's tag, the window, further numbers and the mode: `f1m`, `c1h.6`, `t1s.10.50`,
/// `f1m.shadow`; for slots `n`; for the windows of a calendar on 1 December 2026 `fd.20789`, `fw.2971`,
/// `fM.684` and `fy.57`.
fn push_kind(kind: StateKind, label: Option<u64>, text: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    let mut push = |number: u64, text: &mut Vec<u8>| text.extend_from_slice(digits.format(number).as_bytes());
    text.push(kind.algorithm.spec().tag);
    let units = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1000, "ms"),
        (1, "us"),
    ];
    // Slots have no window.
    let window = if kind.algorithm.holds_slots() { 0 } else { kind.window_us };
    if let Some(letter) = kind.calendar {
        text.push(letter);
    } else if let Some((unit, suffix)) =
        units.into_iter().find(|(unit, _)| window > 0 && window.is_multiple_of(*unit))
    {
        push(window / unit, text);
        text.extend_from_slice(suffix.as_bytes());
    }
    let sub_windows = Some(kind.sub_windows).filter(|number| *number > 1);
    for number in kind.bucket.into_iter().flatten().chain(sub_windows).chain(label) {
        text.push(b'.');
        push(number, text);
    }
    if kind.mode == Mode::Shadow {
        text.extend_from_slice(b".shadow");
    }
}

/// URL-safe base64 without padding.
fn base64(bytes: &[u8; 16]) -> [u8; TAG_LEN] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from_be_bytes(*bytes);
    // 6 bits for each letter. The last letter has 2 bits, and 4 zeros after them.
    array::from_fn(|i| {
        let rest = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
        ALPHABET[(rest & 63) as usize]
    })
}
