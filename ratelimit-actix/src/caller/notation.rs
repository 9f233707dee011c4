//! Callers as text, for the operator's page and the rows of overrides: `address 192.0.2.1`, `text acct-42`,
//! `number 7`.

#[cfg(feature = "admin")]
use std::fmt::Write;
use std::net::IpAddr;
#[cfg(feature = "admin")]
use std::net::{Ipv4Addr, Ipv6Addr};

use super::IntoCaller;
#[cfg(feature = "admin")]
use super::value::split_part;
use super::value::{Caller, Kind};
use crate::address::Ipv6Prefix;

/// Words that stand for a caller by themselves.
const WORDS: [(&str, Kind); 3] =
    [("everyone", Kind::Global), ("anonymous", Kind::Anonymous), ("no address", Kind::NoAddress)];

/// Words that stand before a value.
const KINDS: &[&str] = &[
    "address",
    "number",
    "text",
    #[cfg(feature = "uuid")]
    "uuid",
];

/// Separates the parts of a tuple that are on one line.
const SEPARATOR: &str = " + ";

/// The error of a text that stands for no caller. It does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotationError {
    #[error("expected a caller, such as `address 192.0.2.1`, `text acct-42`, `number 7` or `everyone`")]
    Empty,
    #[error("expected a kind before the value, such as `address 192.0.2.1`, `text acct-42` or `number 7`")]
    NoKind,
    #[error("expected an address after `address`, such as `address 192.0.2.1`")]
    Address,
    #[error("expected a whole number after `number`, such as `number 7`")]
    Number,
    #[cfg(feature = "uuid")]
    #[error("expected a UUID after `uuid`")]
    Uuid,
}

impl Caller {
    /// Reads a caller. Each part of a tuple has a kind. The parts are on lines of their own, or on one line
    /// with ` + ` between them. `group` returns the address by which a client counts.
    #[cfg(any(feature = "overrides", test))]
    pub(crate) fn from_notation(text: &str, group: impl Fn(IpAddr) -> IpAddr) -> Result<Self, NotationError> {
        Self::from_parts(text, |part| Self::from_part(part, &group))
    }

    /// The same for the operator's page, where a part without a kind is an address if it can be one, and a
    /// text otherwise.
    #[cfg(feature = "admin")]
    pub(crate) fn from_form(text: &str, group: impl Fn(IpAddr) -> IpAddr) -> Result<Self, NotationError> {
        Self::from_parts(text, |part| match Self::from_part(part, &group) {
            Err(NotationError::NoKind) => Ok(match part.trim().parse() {
                Ok(address) => Self::address(group(address)),
                Err(_) => part.into_caller(),
            }),
            read => read,
        })
    }

    fn from_parts(
        text: &str,
        read: impl Fn(&str) -> Result<Self, NotationError>,
    ) -> Result<Self, NotationError> {
        match parts(text)[..] {
            [] => Err(NotationError::Empty),
            [part] => read(part),
            ref parts => Ok(Self::join(parts.iter().map(|part| read(part)).collect::<Result<Vec<_>, _>>()?)),
        }
    }

    fn from_part(part: &str, group: impl Fn(IpAddr) -> IpAddr) -> Result<Self, NotationError> {
        if let Some((_, kind)) = WORDS.iter().find(|(word, _)| *word == part) {
            return Ok(Self::encode(*kind, &[]));
        }
        match part.split_once(' ') {
            Some(("text", text)) => Ok(text.into_caller()),
            Some(("address", address)) => {
                let (address, prefix) = match address.trim().split_once('/') {
                    Some((address, bits)) => (address, Some(bits.parse().ok().and_then(Ipv6Prefix::new))),
                    None => (address.trim(), None),
                };
                let address = address.parse().map_err(|_| NotationError::Address)?;
                match prefix {
                    Some(prefix) => Ok(Self::address(prefix.ok_or(NotationError::Address)?.group(address))),
                    None => Ok(Self::address(group(address))),
                }
            }
            Some(("number", number)) => {
                let number = number.trim();
                match (number.parse::<u128>(), number.parse::<i128>()) {
                    (Ok(number), _) => Ok(number.into_caller()),
                    (_, Ok(number)) => Ok(number.into_caller()),
                    _ => Err(NotationError::Number),
                }
            }
            #[cfg(feature = "uuid")]
            Some(("uuid", uuid)) => {
                let uuid = uuid.trim().parse::<uuid::Uuid>().map_err(|_| NotationError::Uuid)?;
                Ok(uuid.into_caller())
            }
            _ => Err(NotationError::NoKind),
        }
    }
}

/// The parts of a caller: the lines that are not empty. A text without a line break is split at each ` + `
/// before a kind.
fn parts(text: &str) -> Vec<&str> {
    if text.contains('\n') {
        // Browsers send lines of a form with a carriage return.
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        return lines.filter(|line| !line.is_empty()).collect();
    }
    let (mut parts, mut start) = (Vec::new(), 0);
    for (end, _) in text.match_indices(SEPARATOR) {
        let next = end + SEPARATOR.len();
        if has_kind(&text[next..]) {
            parts.push(&text[start..end]);
            start = next;
        }
    }
    parts.extend(Some(&text[start..]).filter(|part| !part.is_empty()));
    parts
}

/// Whether a text begins with a part that has a kind.
fn has_kind(text: &str) -> bool {
    let part = text.split(SEPARATOR).next().unwrap_or_default();
    let kind = part.split_once(' ').map(|(kind, _)| kind);
    WORDS.iter().any(|(word, _)| *word == part) || kind.is_some_and(|kind| KINDS.contains(&kind))
}

/// The caller with these bytes as text, which [`Caller::from_notation`] reads back unless a value has line
/// breaks or is not UTF-8, or a tuple has one part or is in another one. `None` if no caller has these bytes.
#[cfg(feature = "admin")]
pub(crate) fn notation(partition: &[u8]) -> Option<String> {
    let mut text = String::new();
    write_notation(partition, &mut text)?;
    if !text.contains('\n') && parts(&text).len() > 1 {
        // A line break says that this is one part, with ` + ` in its value.
        text.push('\n');
    }
    Some(text)
}

#[cfg(feature = "admin")]
fn write_notation(partition: &[u8], text: &mut String) -> Option<()> {
    let (kind, value) = partition.split_first()?;
    if let Some((word, _)) = WORDS.iter().find(|(_, word)| *word as u8 == *kind) {
        text.push_str(word);
        return Some(());
    }
    let result = match *kind {
        kind if kind == Kind::Ipv4 as u8 => {
            write!(text, "address {}", Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?))
        }
        kind if kind == Kind::Ipv6 as u8 => {
            let address = Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?);
            let is_network = Ipv6Prefix::DEFAULT.group(address.into()) == address;
            write!(text, "address {address}{}", if is_network { "" } else { "/128" })
        }
        kind if kind == Kind::Text as u8 => write!(text, "text {}", String::from_utf8_lossy(value)),
        kind if kind == Kind::Natural as u8 => {
            write!(text, "number {}", u128::from_be_bytes(value.try_into().ok()?))
        }
        kind if kind == Kind::Negative as u8 => {
            write!(text, "number {}", i128::from_be_bytes(value.try_into().ok()?))
        }
        #[cfg(feature = "uuid")]
        kind if kind == Kind::Uuid as u8 => {
            write!(text, "uuid {}", uuid::Uuid::from_bytes(value.try_into().ok()?))
        }
        kind if kind == Kind::Parts as u8 => return write_parts(value, text),
        _ => return None,
    };
    result.ok()
}

/// Writes a line for each part.
#[cfg(feature = "admin")]
fn write_parts(mut rest: &[u8], text: &mut String) -> Option<()> {
    let mut is_first = true;
    while !rest.is_empty() {
        let part;
        (part, rest) = split_part(rest)?;
        if !is_first {
            text.push('\n');
        }
        is_first = false;
        write_notation(part, text)?;
    }
    Some(())
}

#[cfg(feature = "admin")]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Caller, NotationError> {
        Caller::from_notation(text, |address| Ipv6Prefix::DEFAULT.group(address))
    }

    fn read_form(text: &str) -> Result<Caller, NotationError> {
        Caller::from_form(text, |address| Ipv6Prefix::DEFAULT.group(address))
    }

    #[test]
    fn a_text_with_a_kind_stands_for_one_caller() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let cases = [
            ("address 192.0.2.1", address("192.0.2.1").into_caller()),
            ("address ::ffff:192.0.2.1", address("192.0.2.1").into_caller()),
            ("address 2001:db8:0:0::7", address("2001:db8::9").into_caller()),
            ("address 2001:db8::7/128", Caller::address(address("2001:db8::7"))),
            ("address 2001:db8:0:7::9/48", Caller::address(address("2001:db8::"))),
            ("text acct-42", "acct-42".into_caller()),
            ("text 192.0.2.1", "192.0.2.1".into_caller()),
            ("text everyone", "everyone".into_caller()),
            ("text 7", "7".into_caller()),
            ("text a + b", "a + b".into_caller()),
            ("text a + text b\n", "a + text b".into_caller()),
            ("number 7", 7_u8.into_caller()),
            ("number -7", (-7_i8).into_caller()),
            ("everyone", Caller::global()),
            ("anonymous", Caller::anonymous()),
            ("no address", Caller::no_address()),
            ("text a b\r\n", "a b".into_caller()),
            ("text a\r\nnumber 7\n", ("a", 7).into_caller()),
            ("text a\ntext b + number 7", ("a", "b + number 7").into_caller()),
            ("text acme + number 42", ("acme", 42).into_caller()),
            ("text acme + text 42", ("acme", "42").into_caller()),
            ("address 192.0.2.1 + everyone + text a + b", {
                Caller::join([address("192.0.2.1").into_caller(), Caller::global(), "a + b".into_caller()])
            }),
        ];
        for (text, caller) in cases {
            assert!(read(text) == Ok(caller.clone()) && read_form(text) == Ok(caller), "{text}");
        }
    }

    #[test]
    fn only_the_page_takes_a_text_without_a_kind() {
        for text in
            ["192.0.2.1", "acct-42", "7", "acct-42 + 7", "a + number 7", "text", "Text a", "number 7\na"]
        {
            assert_eq!(read(text), Err(NotationError::NoKind), "{text}");
        }
        let address: IpAddr = "2001:db8::7".parse().unwrap();
        let cases = [
            ("192.0.2.1", IpAddr::from([192, 0, 2, 1]).into_caller()),
            ("2001:db8::9", address.into_caller()),
            ("acct-42", "acct-42".into_caller()),
            ("7", "7".into_caller()),
            ("acme + 7", "acme + 7".into_caller()),
            ("acme\nnumber 7", ("acme", 7).into_caller()),
        ];
        for (text, caller) in cases {
            assert!(read_form(text) == Ok(caller), "{text}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_its_kind_is_an_error() {
        for text in ["", "\r\n"] {
            assert_eq!(read(text), Err(NotationError::Empty));
        }
        for read in [read, read_form] {
            assert_eq!(read("address localhost"), Err(NotationError::Address));
            assert_eq!(read("address 2001:db8::/20"), Err(NotationError::Address), "32 bits at least");
            assert_eq!(read("number seven"), Err(NotationError::Number));
            assert_eq!(read("text a\nnumber seven"), Err(NotationError::Number));
            assert_eq!(read("text a + number seven"), Err(NotationError::Number));
        }
    }

    #[test]
    fn bytes_of_no_caller_have_no_text() {
        for bytes in [&[][..], &[1, 2], &[4, 0], &[7, 5, 3], &[7, 0xff], &[99, 1]] {
            assert_eq!(notation(bytes), None, "{bytes:?}");
        }
        let long = [[7_u8; 1].as_slice(), &[0xff; 40]].concat();
        assert_eq!(notation(&long), None);
    }

    fn part() -> impl Strategy<Value = Caller> {
        prop_oneof![
            "[^\r\n]{1,9}".prop_map(IntoCaller::into_caller),
            any::<i128>().prop_map(IntoCaller::into_caller),
            any::<u128>().prop_map(IntoCaller::into_caller),
            any::<[u8; 4]>().prop_map(|octets| IpAddr::from(octets).into_caller()),
            "[a+ ]{0,3} [+] (text|number|anonymous|b)( [a0])?".prop_map(IntoCaller::into_caller),
            any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).into_caller()),
            any::<[u8; 16]>().prop_map(|octets| {
                Caller::address(Ipv6Prefix::new(128).unwrap().group(IpAddr::from(octets)))
            }),
            Just(Caller::global()),
            Just(Caller::anonymous()),
        ]
    }

    proptest! {
        #[test]
        fn a_caller_is_read_back_from_its_text(parts in proptest::collection::vec(part(), 1..4)) {
            let caller = match &parts[..] {
                [one] => one.clone(),
                _ => Caller::join(parts),
            };
            let text = notation(caller.partition().unwrap()).unwrap();
            prop_assert!(read(&text) == Ok(caller.clone()), "{}", text);
            prop_assert!(read_form(&text) == Ok(caller), "{}", text);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = notation(&bytes);
        }
    }
}
