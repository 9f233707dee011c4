//! The names of keys in Redis.
//!
//! `rl1:user-api:c1m:{FwzRx1Fh8AJBaEpWvD3p5w}`: prefix and version of the layout; key of the policy; algorithm, window
//! and what else tells one state from another; and the caller, as 22 characters of URL-safe base64 for 128 bits.
//! The braces make the caller the hash tag, so that all limits of one caller live on one node of a cluster.
//! A prefix has no colon, an algorithm's part has none, and the digest is of one length, so that read from both ends the
//! parts are told apart although the key of a policy may contain colons: no two callers or policies have one name.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write;

use crate::check::Check;
use crate::policy::{Algorithm, Parameter, Policy};

/// Version of the names and of the states under them; another layout gets another number.
const LAYOUT: char = '1';

/// Makes the names.
pub(super) struct Namer {
    prefix: String,
    digest_key: [u8; 32],
}

impl Namer {
    /// `None` when the prefix has a character that is not allowed.
    pub(super) fn new(prefix: &str, secret: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let ok = (1..=32).contains(&prefix.len()) && prefix.chars().all(allowed);
        ok.then(|| Self {
            prefix: format!("{prefix}{LAYOUT}:"),
            digest_key: blake3::derive_key("ratelimit-core 2026 digest of a caller", secret.as_bytes()),
        })
    }

    /// Names under which nothing is counted, to try out whether a server can be written to.
    pub(super) fn probe(&self, number: u32) -> String {
        format!("{}probe:{number}", self.prefix)
    }

    /// The key under which this check's count is kept.
    pub(super) fn key(&self, check: &Check<'_>) -> Key {
        let mut caller = [0; 16];
        let digest = blake3::keyed_hash(&self.digest_key, check.partition());
        caller.copy_from_slice(&digest.as_bytes()[..16]);
        Key { caller, policy: check.policy().shared_key(), shape: Shape::of(check.policy()) }
    }

    /// How a key is written.
    pub(super) fn name(&self, key: &Key) -> String {
        let mut name = String::with_capacity(self.prefix.len() + key.policy.len() + 48);
        name.push_str(&self.prefix);
        name.push_str(&key.policy);
        name.push(':');
        key.shape.push(&mut name);
        name.push_str(":{");
        push_base64(&mut name, &key.caller);
        name.push('}');
        name
    }
}

/// Under what a count is kept; a name is made of it only where one is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The digest that stands for the caller.
    caller: [u8; 16],
    policy: Cow<'static, str>,
    shape: Shape,
}

impl Key {
    /// Spreads callers; keys of one caller may share it.
    pub(super) fn hash(&self) -> u64 {
        #[allow(clippy::cast_possible_truncation, reason = "half of a digest is a hash as good as any")]
        let half = u128::from_le_bytes(self.caller) as u64;
        half ^ self.shape.window_us
    }

    /// Tells callers apart.
    pub(super) const fn caller(&self) -> &[u8; 16] {
        &self.caller
    }

    /// The part of the name that tells where in a cluster the count is.
    pub(super) fn hash_tag(&self) -> String {
        let mut tag = String::with_capacity(22);
        push_base64(&mut tag, &self.caller);
        tag
    }
}

/// Of a policy what tells its states from those of another under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    algorithm: Algorithm,
    window_us: u64,
    /// Sub-windows, or maximum and burst; 0 where they do not matter to the state.
    more: [u64; 2],
}

impl Shape {
    fn of(policy: &Policy) -> Self {
        let more = match policy.algorithm().spec().parameter {
            Parameter::SubWindows if policy.sub_windows() > 1 => [policy.sub_windows(), 0],
            Parameter::Burst => [policy.max(), policy.capacity()],
            Parameter::SubWindows | Parameter::None => [0, 0],
        };
        Self { algorithm: policy.algorithm(), window_us: policy.window_us(), more }
    }

    /// Algorithm, window and the other numbers: `f1m`, `c1h.6`, `l500ms`, `t1s.10.50`.
    fn push(&self, name: &mut String) {
        name.push(char::from(self.algorithm.spec().tag));
        let units = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1000, "ms"),
            (1, "us"),
        ];
        let window = self.window_us;
        if let Some((unit, suffix)) = units.into_iter().find(|(unit, _)| window.is_multiple_of(*unit)) {
            // Writing to a string does not fail.
            let _ = write!(name, "{}{suffix}", window / unit);
        }
        for number in self.more.into_iter().filter(|number| *number > 0) {
            let _ = write!(name, ".{number}");
        }
    }
}

/// URL-safe base64 without padding.
fn push_base64(name: &mut String, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            name.push(char::from(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]));
        }
    }
}
