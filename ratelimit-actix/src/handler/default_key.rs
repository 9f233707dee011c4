//! The key of a limit without `key`: the path of its handler, made to fit the rules of keys.

use ratelimit_core::__private_0_1::{FNV_OFFSET, fnv1a, is_name_byte};
use ratelimit_core::policy::MAX_NAME_LEN;

/// The path of a handler as a key.
///
/// A path may be too long for a key, or contain characters that a key cannot have. Such characters become
/// `_`, the start of a long path is cut off, and a hash of the whole path at the end keeps similar paths
/// apart. The same path gives the same key in every build: counts in a shared store depend on it.
#[derive(Debug)]
pub struct DefaultKey {
    path: &'static str,
    fitted: [u8; MAX_NAME_LEN],
    /// Bytes used in `fitted`; 0 if the path is a key as it is.
    length: usize,
}

/// Hexadecimal digits of the hash, which follows a `~`.
const HASH_DIGITS: usize = 16;

/// Most bytes of the path in front of the hash.
const MAX_PATH_BYTES: usize = MAX_NAME_LEN - HASH_DIGITS - 1;

impl DefaultKey {
    /// The key for this path.
    pub const fn new(path: &'static str) -> Self {
        let mut key = Self { path, fitted: [0; MAX_NAME_LEN], length: 0 };
        let bytes = path.as_bytes();
        if fits(bytes) {
            return key;
        }
        // The end of a path identifies the handler to readers.
        let mut from = bytes.len().saturating_sub(MAX_PATH_BYTES);
        while from < bytes.len() {
            // One `_` for a character of several bytes.
            if !is_continuation(bytes[from]) {
                key.fitted[key.length] = if is_name_byte(bytes[from]) { bytes[from] } else { b'_' };
                key.length += 1;
            }
            from += 1;
        }
        key.fitted[key.length] = b'~';
        key.length += 1;
        let hash = fnv1a(FNV_OFFSET, bytes).to_be_bytes();
        let mut digit = 0;
        while digit < HASH_DIGITS {
            let byte = hash[digit / 2];
            let half = if digit.is_multiple_of(2) { byte >> 4 } else { byte & 0xf };
            key.fitted[key.length] = b"0123456789abcdef"[half as usize];
            key.length += 1;
            digit += 1;
        }
        key
    }

    /// The key.
    ///
    /// # Panics
    ///
    /// Never: the key is ASCII.
    pub const fn as_str(&'static self) -> &'static str {
        if self.length == 0 {
            return self.path;
        }
        match str::from_utf8(self.fitted.split_at(self.length).0) {
            Ok(key) => key,
            Err(_) => panic!("the key is ASCII"),
        }
    }
}

/// Whether the path is a key as it is.
const fn fits(path: &[u8]) -> bool {
    let mut at = 0;
    while at < path.len() {
        if !is_name_byte(path[at]) {
            return false;
        }
        at += 1;
    }
    path.len() <= MAX_NAME_LEN
}

/// Whether this is a byte of a UTF-8 character other than its first.
const fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use ratelimit_core::Policy;

    use super::*;

    fn key(path: &str) -> &'static str {
        Box::leak(Box::new(DefaultKey::new(path.to_owned().leak()))).as_str()
    }

    #[test]
    fn a_path_that_fits_is_its_own_key() {
        let longest = "m".repeat(MAX_NAME_LEN);
        for path in ["app::user", "app::r#type::user#2", "app::Api<'_,T>::list", &longest] {
            assert_eq!(key(path), path);
        }
    }

    #[test]
    fn invalid_characters_are_replaced_and_the_hash_keeps_paths_apart() {
        assert_eq!(key("app::größe"), "app::gr__e~9a9b96673db1ced1");
        let similar = ["app::größe", "app::grüße", "app::gröse", "app::gr__e", "app::gr{}e"];
        let keys: HashSet<&str> = similar.into_iter().map(key).collect();
        assert_eq!(keys.len(), similar.len(), "{keys:?}");
    }

    #[test]
    fn a_long_path_keeps_its_end_and_gets_a_hash() {
        let path = |first: char| format!("{first}{}::user#2", "::module".repeat(20));
        let (one, other) = (key(&path('a')), key(&path('b')));
        assert_eq!((one.len(), other.len()), (MAX_NAME_LEN, MAX_NAME_LEN));
        assert!(one.contains("::module::user#2~"), "{one}");
        assert_ne!(one, other);
        assert_eq!(one, key(&path('a')));
    }

    #[test]
    fn every_default_key_is_valid_wherever_a_character_is_cut() {
        for letter in ["a", "é", "語", "🦀", "\"", "{", "\u{0}"] {
            for length in 1..=200 {
                let path = letter.repeat(length);
                let policy = Policy::builder(key(&path)).window(Duration::from_secs(1)).try_build();
                assert!(policy.is_ok(), "{length} times {letter:?}: {:?}", key(&path));
            }
        }
    }
}
