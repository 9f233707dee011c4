//! Callers as the text of a configuration file: every value for which a text can stand.

use std::net::{IpAddr, Ipv6Addr};

use super::into_caller::IntoCaller;
use super::value::Caller;
use crate::address::Ipv6Prefix;

/// Between the parts of a caller that consists of several.
const SEPARATOR: &str = " + ";

/// Largest number of parts.
const MAX_PARTS: usize = 6;

/// Largest number of callers for which one text can stand.
const MAX_READINGS: usize = 64;

/// Adds the partition of each caller for which the text can stand. Returns false if these are more than 64.
///
/// This is the text itself; a number, an address, a network such as `2001:db8::/48` or a UUID in its usual spelling; and with
/// ` + ` all parts together.
pub(crate) fn partitions(text: &str, partitions: &mut Vec<Vec<u8>>) -> bool {
    let mut callers = values(text);
    let parts: Vec<&str> = text.split(SEPARATOR).collect();
    if (2..=MAX_PARTS).contains(&parts.len()) {
        let values: Vec<Vec<Caller>> = parts.iter().map(|part| values(part)).collect();
        if values.iter().map(Vec::len).product::<usize>() > MAX_READINGS {
            return false;
        }
        callers.extend(joined(&values));
    }
    partitions.extend(callers.iter().filter_map(|caller| Some(caller.partition()?.to_vec())));
    true
}

/// The callers of one value.
fn values(text: &str) -> Vec<Caller> {
    let mut callers = vec![text.into_caller()];
    // Another spelling, such as `007`, is text only.
    if let Ok(number) = text.parse::<u128>()
        && number.to_string() == text
    {
        callers.push(number.into_caller());
    }
    if let Ok(number) = text.parse::<i128>()
        && number < 0
        && number.to_string() == text
    {
        callers.push(number.into_caller());
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        callers.push(address.into_caller());
        // For a configured prefix other than the default, the text is the address of the network.
        let exact = Caller::address(address);
        if !callers.contains(&exact) {
            callers.push(exact);
        }
    }
    // One network of another prefix than the default, or one address with `/128`.
    if let Some((address, bits)) = text.split_once('/')
        && let (Ok(address), Ok(bits)) = (address.parse::<Ipv6Addr>(), bits.parse::<u8>())
        && let Some(prefix) = Ipv6Prefix::new(bits)
    {
        callers.push(Caller::address(prefix.group(address.into())));
    }
    #[cfg(feature = "uuid")]
    if let Ok(id) = uuid::Uuid::try_parse(text) {
        callers.push(id.into_caller());
    }
    callers
}

/// All parts together, in every combination of what each can stand for.
fn joined(parts: &[Vec<Caller>]) -> Vec<Caller> {
    let mut lists: Vec<Vec<Caller>> = vec![Vec::new()];
    for values in parts {
        let longer = |list: &Vec<Caller>| {
            let with = |value: &Caller| list.iter().chain([value]).cloned().collect::<Vec<_>>();
            values.iter().map(with).collect::<Vec<_>>()
        };
        lists = lists.iter().flat_map(longer).collect();
    }
    lists.into_iter().map(Caller::join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands_for(text: &str, caller: impl IntoCaller) -> bool {
        let (mut found, caller) = (Vec::new(), caller.into_caller());
        partitions(text, &mut found);
        found.iter().any(|partition| Some(&partition[..]) == caller.partition())
    }

    #[test]
    fn a_text_stands_for_every_value_that_is_spelled_so() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(stands_for("acct-42", "acct-42"));
        assert!(stands_for("42", 42_u64) && stands_for("42", "42") && stands_for("-1", -1_i8));
        assert!(!stands_for("042", 42_u8) && !stands_for("+42", 42_u8) && !stands_for("acct-42", 42_u8));
        assert!(stands_for("192.0.2.1", address("192.0.2.1")));
        assert!(stands_for("::ffff:192.0.2.1", address("192.0.2.1")));
        assert!(stands_for("2001:db8::1", address("2001:db8::2")), "one network");
        assert!(!stands_for("2001:db8::1", address("2001:db8:0:1::1")));
        assert!(stands_for("2001:db8::1", Caller::address(address("2001:db8::1"))));
        assert!(stands_for("2001:db8::1/128", Caller::address(address("2001:db8::1"))));
        assert!(!stands_for("2001:db8::1/128", address("2001:db8::1")), "only the one address");
        assert!(stands_for("2001:db8:0:7::9/48", Caller::address(address("2001:db8::"))));
        assert!(!stands_for("2001:db8::/31", Caller::address(address("2001:db8::"))), "text only");
    }

    #[test]
    fn parts_that_can_be_read_in_too_many_ways_are_refused() {
        let mut found = Vec::new();
        assert!(partitions(&["192.0.2.1"; 6].join(SEPARATOR), &mut found), "2^6 ways");
        assert_eq!(found.len(), 65, "and the text");
        assert!(!partitions(&["::1"; 4].join(SEPARATOR), &mut found), "3^4 ways");
    }

    #[test]
    fn parts_are_joined() {
        assert!(stands_for("acme + 42", ("acme", 42_u64)));
        assert!(stands_for("acme + 42", ("acme", "42")));
        assert!(stands_for("acme + 42", "acme + 42"));
        assert!(!stands_for("acme + 42", ("42", "acme")) && !stands_for("acme+42", ("acme", 42_u64)));
        assert!(stands_for("a + 1 + 192.0.2.1", ("a", 1_u8, "192.0.2.1".parse::<IpAddr>().unwrap())));
        let mut found = Vec::new();
        partitions(&["1"; 100].join(SEPARATOR), &mut found);
        assert_eq!(found.len(), 1, "text only");
    }
}
