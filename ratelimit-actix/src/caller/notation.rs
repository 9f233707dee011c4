//! Callers as text, one line per part, for the operator's page: `address 192.0.2.1`, `text acct-42`, `number 7`.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::IntoCaller;
use super::value::{Caller, Kind};
use crate::address::Ipv6Prefix;

/// Words that stand for a caller by themselves.
const WORDS: [(&str, Kind); 3] =
    [("everyone", Kind::Global), ("anonymous", Kind::Anonymous), ("no address", Kind::NoAddress)];

/// The error of a text that stands for no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotationError {
    #[error("expected a caller, such as `192.0.2.1`, `text acct-42`, `number 7` or `everyone`")]
    Empty,
    #[error("expected an address after `address`, such as `address 192.0.2.1`")]
    Address,
    #[error("expected a whole number after `number`, such as `number 7`")]
    Number,
    #[cfg(feature = "uuid")]
    #[error("expected a UUID after `uuid`")]
    Uuid,
}

impl Caller {
    /// Reads a caller: one line, or a line for each part of a tuple. A line without a kind is an address if it can be one, and a
    /// text otherwise. `group` gives the address by which a client counts.
    pub(crate) fn from_notation(text: &str, group: impl Fn(IpAddr) -> IpAddr) -> Result<Self, NotationError> {
        // Browsers send lines of a form with a carriage return.
        let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let only = lines.clone().filter(|line| !line.is_empty());
        match only.count() {
            0 => Err(NotationError::Empty),
            1 => Self::from_line(lines.find(|line| !line.is_empty()).unwrap_or_default(), &group),
            _ => {
                let parts: Result<Vec<_>, _> =
                    lines.filter(|line| !line.is_empty()).map(|line| Self::from_line(line, &group)).collect();
                Ok(Self::join(parts?))
            }
        }
    }

    fn from_line(line: &str, group: impl Fn(IpAddr) -> IpAddr) -> Result<Self, NotationError> {
        if let Some((_, kind)) = WORDS.iter().find(|(word, _)| *word == line) {
            return Ok(Self::encode(*kind, &[]));
        }
        match line.split_once(' ') {
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
            _ => Ok(match line.trim().parse() {
                Ok(address) => Self::address(group(address)),
                Err(_) => line.into_caller(),
            }),
        }
    }
}

/// The caller with these bytes as text, which [`Caller::from_notation`] reads back unless a value has line breaks or is not UTF-8.
/// `None` if no caller has these bytes.
pub(crate) fn notation(partition: &[u8]) -> Option<String> {
    let mut text = String::new();
    write_notation(partition, &mut text)?;
    Some(text)
}

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
            write!(text, "address {}", Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?))
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

/// A line for each part.
fn write_parts(mut rest: &[u8], text: &mut String) -> Option<()> {
    let mut is_first = true;
    while !rest.is_empty() {
        let (mut length, mut shift) = (0_usize, 0_u32);
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            length |= usize::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let (part, after) = rest.split_at_checked(length)?;
        rest = after;
        if !is_first {
            text.push('\n');
        }
        is_first = false;
        write_notation(part, text)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Ipv6Prefix;

    fn read(text: &str) -> Result<Caller, NotationError> {
        Caller::from_notation(text, |address| Ipv6Prefix::DEFAULT.group(address))
    }

    #[test]
    fn a_line_without_a_kind_is_an_address_or_a_text() {
        let address: IpAddr = "2001:db8::7".parse().unwrap();
        let cases = [
            ("192.0.2.1", IpAddr::from([192, 0, 2, 1]).into_caller()),
            ("2001:db8::9", address.into_caller()),
            ("address 2001:db8:0:0::7", address.into_caller()),
            ("address 2001:db8::7/128", Caller::address(address)),
            ("acct-42", "acct-42".into_caller()),
            ("text 192.0.2.1", "192.0.2.1".into_caller()),
            ("text everyone", "everyone".into_caller()),
            ("7", "7".into_caller()),
            ("number 7", 7_u8.into_caller()),
            ("number -7", (-7_i8).into_caller()),
            ("everyone", Caller::global()),
            ("anonymous", Caller::anonymous()),
            ("no address", Caller::no_address()),
            ("text a b\r\n", "a b".into_caller()),
            ("text a\r\nnumber 7\n", ("a", 7).into_caller()),
        ];
        for (text, caller) in cases {
            assert!(read(text) == Ok(caller), "{text}");
        }
    }

    #[test]
    fn a_line_that_does_not_fit_its_kind_is_an_error() {
        for text in ["", "\r\n"] {
            assert_eq!(read(text), Err(NotationError::Empty));
        }
        assert_eq!(read("address localhost"), Err(NotationError::Address));
        assert_eq!(read("address 2001:db8::/20"), Err(NotationError::Address), "32 bits at least");
        assert_eq!(read("number seven"), Err(NotationError::Number));
        assert_eq!(read("text a\nnumber seven"), Err(NotationError::Number));
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
            any::<[u8; 16]>().prop_map(|octets| IpAddr::from(octets).into_caller()),
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
            prop_assert!(read(&text) == Ok(caller), "{}", text);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = notation(&bytes);
        }
    }
}
