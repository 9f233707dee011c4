//! Tests of the encoding of callers.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

#[test]
fn values_of_different_kinds_are_different_callers() {
    let callers = [
        Caller::global(),
        "".into_caller(),
        "7".into_caller(),
        7_u8.into_caller(),
        (-7_i8).into_caller(),
        0_u8.into_caller(),
        IpAddr::from([0, 0, 0, 7]).into_caller(),
        IpAddr::from(Ipv6Addr::from(7_u128 << 64)).into_caller(),
        "\u{1}\0\0\0\u{7}".into_caller(),
        "0.0.0.7".into_caller(),
    ];
    let partitions: HashSet<_> = callers.iter().map(|caller| caller.partition().unwrap()).collect();
    assert_eq!(partitions.len(), callers.len());
}

#[test]
fn a_number_is_one_caller_in_every_type() {
    assert_eq!(7_u8.into_caller(), 7_i64.into_caller());
    assert_eq!(usize::MAX.into_caller(), (usize::MAX as u128).into_caller());
    assert_eq!((-1_i8).into_caller(), (-1_i128).into_caller());
    assert_ne!((-1_i8).into_caller(), u128::MAX.into_caller());
}

#[test]
fn text_is_one_caller_in_every_type() {
    let long = "x".repeat(400);
    assert_eq!(long.as_str().into_caller(), long.clone().into_caller());
    assert_eq!(Cow::Borrowed("a").into_caller(), "a".into_caller());
    assert_ne!("A".into_caller(), "a".into_caller());
}

#[test]
fn none_is_no_caller() {
    assert_eq!(None::<&str>.into_caller().partition(), None);
    assert_eq!(Some(None::<u8>).into_caller().partition(), None);
    assert_eq!(Some("a").into_caller(), "a".into_caller());
}

#[test]
fn debug_does_not_show_the_caller() {
    assert_eq!(format!("{:?}", "secret".into_caller()), "Caller(..)");
    assert_eq!(format!("{:?}", None::<u8>.into_caller()), "Caller(missing)");
}

#[test]
fn an_address_is_one_caller_in_every_spelling() {
    let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(mapped.into_caller(), IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)).into_caller());
}

#[test]
fn different_parts_are_different_callers() {
    let long = "x".repeat(200);
    let callers = [
        ("a:b", "c").into_caller(),
        ("a", "b:c").into_caller(),
        ("a:b:c",).into_caller(),
        "a:b:c".into_caller(),
        ("a", "b", "c").into_caller(),
        (("a", "b"), "c").into_caller(),
        ("a", ("b", "c")).into_caller(),
        ("", "ab").into_caller(),
        ("ab", "").into_caller(),
        ("ab",).into_caller(),
        ("1", 2).into_caller(),
        (1, "2").into_caller(),
        (&*long, "").into_caller(),
        ("", &*long).into_caller(),
        (&long[..128], &long[..72]).into_caller(),
        (&long[..72], &long[..128]).into_caller(),
    ];
    let partitions: HashSet<_> = callers.iter().map(|caller| caller.partition().unwrap()).collect();
    assert_eq!(partitions.len(), callers.len());
}

#[test]
fn a_length_never_passes_for_a_value() {
    // Every split of one text into two parts, across the lengths at which the prefix grows.
    let text = "\u{3}".repeat(300);
    let splits = (0..=text.len()).map(|at| (&text[..at], &text[at..]).into_caller());
    let partitions: HashSet<_> = splits.map(|caller| caller.partition().unwrap().to_vec()).collect();
    assert_eq!(partitions.len(), text.len() + 1);
}

#[test]
fn a_missing_part_makes_the_caller_missing() {
    assert!(("a", None::<u8>).into_caller().partition().is_none());
    assert!((None::<u8>, "a").into_caller().partition().is_none());
    assert_eq!(("a", Some("b")).into_caller(), ("a", "b").into_caller());
}

/// A value that a caller can be made of.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(Vec<u8>),
    Number(i128),
    Address([u8; 4]),
    Global,
    Parts(Vec<Self>),
}

impl Value {
    fn caller(&self) -> Caller {
        match self {
            Self::Text(text) => Caller::text(text),
            Self::Number(number) => number.into_caller(),
            Self::Address(octets) => IpAddr::from(*octets).into_caller(),
            Self::Global => Caller::global(),
            Self::Parts(parts) => Caller::join(parts.iter().map(Self::caller)),
        }
    }
}

/// Values that are easily confused: few different bytes, among them those of the encoding.
fn value() -> impl Strategy<Value = Value> {
    let byte = prop_oneof![0_u8..9, Just(b':'), Just(b'a')];
    let leaf = prop_oneof![
        proptest::collection::vec(byte, 0..5).prop_map(Value::Text),
        (-2_i128..9).prop_map(Value::Number),
        any::<[bool; 4]>().prop_map(|bits| Value::Address(bits.map(u8::from))),
        Just(Value::Global),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| proptest::collection::vec(inner, 1..4).prop_map(Value::Parts))
}

/// Decodes the bytes of a caller. If that always works, no two values have the same bytes.
fn decode(bytes: &[u8]) -> Option<Value> {
    let (kind, value) = bytes.split_first()?;
    Some(match *kind {
        0 if value.is_empty() => Value::Global,
        1 => Value::Address(value.try_into().ok()?),
        3 => Value::Text(value.to_vec()),
        4 | 5 => Value::Number(i128::from_be_bytes(value.try_into().ok()?)),
        7 => {
            let (mut parts, mut rest) = (Vec::new(), value);
            while !rest.is_empty() {
                let (mut length, mut shift) = (0, 0);
                loop {
                    let (byte, after) = rest.split_first()?;
                    rest = after;
                    length |= usize::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                let (part, after) = rest.split_at_checked(length)?;
                rest = after;
                parts.push(decode(part)?);
            }
            Value::Parts(parts)
        }
        _ => return None,
    })
}

proptest! {
    #[test]
    fn the_value_of_a_caller_can_be_decoded(value in value()) {
        prop_assert_eq!(decode(value.caller().partition().unwrap()), Some(value));
    }

    #[test]
    fn only_equal_values_are_the_same_caller(one in value(), other in value()) {
        prop_assert_eq!(one.caller() == other.caller(), one == other);
    }
}

#[cfg(feature = "uuid")]
#[test]
fn a_uuid_is_one_caller_in_every_spelling() {
    let uuid: uuid::Uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
    let upper: uuid::Uuid = "67E5504410B1426F9247BB680E5FE0C8".parse().unwrap();
    assert_eq!(uuid.into_caller(), upper.into_caller());
    assert_ne!(uuid.into_caller(), uuid.to_string().into_caller());
}
