//! The names of keys in Redis.
//!
//! `rl1:user-api:c1m:{FwzRx1Fh8AJBaEpWvD3p5w}`: prefix and version of the layout; key of the policy; algorithm, window
//! and what else tells one state from another; and the caller, as 22 characters of URL-safe base64 for 128 bits.
//! The braces make the caller the hash tag, so that all limits of one caller live on one node of a cluster.
//! A prefix has no colon, an algorithm's part has none, and the digest is of one length, so that read from both ends the
//! parts are told apart although the key of a policy may contain colons: no two callers or policies have one name.

use std::fmt::Write;

use crate::algorithm::Algorithm;
use crate::policy::Policy;
use crate::store::Check;

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
        let digest = blake3::keyed_hash(&self.digest_key, check.partition());
        let mut name = String::with_capacity(self.prefix.len() + check.policy().key().len() + 48);
        name.push_str(&self.prefix);
        name.push_str(check.policy().key());
        name.push(':');
        push_shape(&mut name, check.policy());
        name.push_str(":{");
        push_base64(&mut name, &digest.as_bytes()[..16]);
        name.push('}');
        let mut half = [0; 8];
        half.copy_from_slice(&digest.as_bytes()[..8]);
        Key { name, hash: u64::from_le_bytes(half) ^ check.policy().state_id() }
    }
}

/// The name under which a count is kept.
#[derive(Clone, Debug)]
pub(super) struct Key {
    name: String,
    /// Told apart by this, keys need hardly ever be compared.
    hash: u64,
}

impl Key {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn into_name(self) -> String {
        self.name
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.name == other.name
    }
}

/// Algorithm, window and, where they matter to the state, the other numbers: `f1m`, `c1h.6`, `l500ms`, `t1s.10.50`.
fn push_shape(name: &mut String, policy: &Policy) {
    let (letter, more): (char, &[u64]) = match policy.algorithm() {
        Algorithm::FixedWindow => ('f', &[]),
        Algorithm::SlidingWindowCounter if policy.sub_windows() == 1 => ('c', &[]),
        Algorithm::SlidingWindowCounter => ('c', &[policy.sub_windows()]),
        Algorithm::SlidingWindowLog => ('l', &[]),
        Algorithm::TokenBucket => ('t', &[policy.max(), policy.capacity()]),
    };
    name.push(letter);
    let units = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1000, "ms"),
        (1, "us"),
    ];
    let window = policy.window_us();
    if let Some((unit, suffix)) = units.into_iter().find(|(unit, _)| window.is_multiple_of(*unit)) {
        // Writing to a string does not fail.
        let _ = write!(name, "{}{suffix}", window / unit);
    }
    for number in more {
        let _ = write!(name, ".{number}");
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(policy: &Policy, partition: &str) -> String {
        Namer::new("rl", "").unwrap().key(&Check::new(policy, partition)).into_name()
    }

    #[test]
    fn a_key_names_the_policy_and_hides_the_caller() {
        let policy = Policy::new("user-api", 10, Duration::from_secs(60));
        let name = name(&policy, "203.0.113.7");
        assert!(name.starts_with("rl1:user-api:c1m:{"), "{name}");
        assert!(name.ends_with('}'));
        assert_eq!(name.len(), "rl1:user-api:c1m:{}".len() + 22);
        assert!(!name.contains("203"));
    }

    #[test]
    fn shapes_tell_states_apart() {
        let policy = |algorithm, window| {
            Policy::builder("k").max(10).algorithm(algorithm).window(Duration::from_micros(window)).build()
        };
        let shape = |policy: &Policy| {
            let mut shape = String::new();
            push_shape(&mut shape, policy);
            shape
        };
        assert_eq!(shape(&policy(Algorithm::FixedWindow, 86_400_000_000)), "f1d");
        assert_eq!(shape(&policy(Algorithm::SlidingWindowLog, 90_000_000)), "l90s");
        assert_eq!(shape(&policy(Algorithm::SlidingWindowCounter, 1001)), "c1001us");
        assert_eq!(shape(&policy(Algorithm::TokenBucket, 1_000_000)), "t1s.10.10");
        let six = Policy::builder("k").window(Duration::from_secs(3600)).sub_windows(6).build();
        assert_eq!(shape(&six), "c1h.6");
    }

    #[test]
    fn a_secret_changes_the_digest() {
        let policy = Policy::new("k", 10, Duration::from_secs(60));
        let with = |secret| Namer::new("rl", secret).unwrap().key(&Check::new(&policy, "a"));
        assert_ne!(with(""), with("s3cret"));
        assert_eq!(with("s3cret"), with("s3cret"));
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let encode = |bytes: &[u8]| {
            let mut text = String::new();
            push_base64(&mut text, bytes);
            text
        };
        assert_eq!(encode(b"f"), "Zg");
        assert_eq!(encode(b"fo"), "Zm8");
        assert_eq!(encode(b"foobar"), "Zm9vYmFy");
        assert_eq!(encode(&[0xff; 16]), "_____________________w");
    }

    #[test]
    fn a_prefix_cannot_break_the_name() {
        for bad in ["", "a:b", "a{b", "a b", "a\r\nb", &"x".repeat(33)] {
            assert!(Namer::new(bad, "").is_none(), "{bad}");
        }
    }
}
