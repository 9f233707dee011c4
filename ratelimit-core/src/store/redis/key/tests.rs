//! Tests of the format of keys.

use std::time::Duration;

use super::*;
use crate::policy::{Algorithm, Policy};

fn redis_key(policy: &Policy, partition: &str) -> String {
    let key_format = KeyFormat::new("rl", "").unwrap();
    let key = key_format.key(&Check::new(policy, partition));
    String::from_utf8(key.as_ref().to_vec()).unwrap()
}

#[test]
fn a_key_names_the_policy_and_hides_the_caller() {
    let policy = Policy::new("user-api", 10, Duration::from_secs(60));
    let name = redis_key(&policy, "203.0.113.7");
    assert!(name.starts_with("rl1:user-api:c1m:{"), "{name}");
    assert!(name.ends_with('}'));
    assert_eq!(name.len(), "rl1:user-api:c1m:{}".len() + 22);
    assert!(!name.contains("203"));
}

#[test]
fn kinds_distinguish_states() {
    let policy = |algorithm, window| {
        Policy::builder("k").max(10).algorithm(algorithm).window(Duration::from_micros(window)).build()
    };
    let kind = |policy: &Policy| {
        let mut kind = Vec::new();
        push_kind(policy.state_kind(), None, &mut kind);
        String::from_utf8(kind).unwrap()
    };
    assert_eq!(kind(&policy(Algorithm::FixedWindow, 86_400_000_000)), "f1d");
    assert_eq!(kind(&policy(Algorithm::SlidingWindowLog, 90_000_000)), "l90s");
    assert_eq!(kind(&policy(Algorithm::SlidingWindowCounter, 1001)), "c1001us");
    assert_eq!(kind(&policy(Algorithm::TokenBucket, 1_000_000)), "t1s.10.10");
    let six = Policy::builder("k").window(Duration::from_secs(3600)).sub_windows(6).build();
    assert_eq!(kind(&six), "c1h.6");
    let shadow = Policy::builder("k").mode(Mode::Shadow);
    assert_eq!(kind(&shadow.build()), "c1m.shadow");
    assert_eq!(kind(&shadow.algorithm(Algorithm::TokenBucket).build()), "t1m.100.100.shadow");
    assert_eq!(kind(&Policy::concurrency("k", 3)), "n");
    assert_eq!(kind(&shadow.algorithm(Algorithm::Concurrency).build()), "n.shadow");
}

#[test]
fn a_secret_changes_the_digest() {
    let policy = Policy::new("k", 10, Duration::from_secs(60));
    let with = |secret| KeyFormat::new("rl", secret).unwrap().key(&Check::new(&policy, "a"));
    assert_ne!(with(""), with("s3cret"));
    assert_eq!(with("s3cret"), with("s3cret"));
}

#[test]
fn base64_is_that_of_rfc_4648() {
    for (bytes, expected) in [
        (b"0123456789abcdef", b"MDEyMzQ1Njc4OWFiY2RlZg"),
        (&[0; 16], b"AAAAAAAAAAAAAAAAAAAAAA"),
        (&[0xff; 16], b"_____________________w"),
        (&[0xfb; 16], b"-_v7-_v7-_v7-_v7-_v7-w"),
    ] {
        assert_eq!(&base64(bytes), expected);
    }
}

#[test]
fn a_prefix_cannot_break_the_key() {
    for bad in ["", "a:b", "a{b", "a b", "a\r\nb", &"x".repeat(65)] {
        assert!(KeyFormat::new(bad, "").is_none(), "{bad}");
    }
    for good in ["test-67e55044-10b1-426f-9247-bb680e5fe0c8", &"x".repeat(64)] {
        assert!(KeyFormat::new(good, "").is_some(), "{good}");
    }
}
