//! Which IPv6 addresses are one caller: those of a network, and those that stand for one IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many bits of an IPv6 address tell callers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv6Prefix {
    mask: Ipv6Addr,
}

impl Ipv6Prefix {
    /// A subscriber gets a /64 at least, and chooses addresses in it at will.
    pub(crate) const DEFAULT: Self = Self { mask: Ipv6Addr::from_bits(u128::MAX << 64) };

    /// From 32 to 128 bits.
    pub(crate) fn new(bits: u8) -> Option<Self> {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits.clamp(32, 128)))?;
        (32..=128).contains(&bits).then_some(Self { mask: Ipv6Addr::from_bits(mask) })
    }

    /// The one address that stands for all that are the same caller.
    pub(crate) fn group(self, address: IpAddr) -> IpAddr {
        // First the fold, then the mask: masked as it stands, every IPv4-mapped address would be in one network.
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                translated(address).map_or_else(|| (address & self.mask).into(), IpAddr::V4)
            }
        }
    }
}

/// The IPv4 address for which an IPv6 address of a well-known translation stands.
///
/// In front of a service without IPv4, NAT64 makes a part of one /64 of every IPv4 address, so that by network all of them
/// would be one caller. In 6to4 the holder of one IPv4 address has a whole /48, that is 65,536 callers by network. Neither
/// can be taken by who does not hold the IPv4 address: the answers to its connections go there.
///
/// Only for counting. Whether a proxy is trusted is asked about the address as it stands: what a translator writes must not
/// turn into an address of the network inside. Other translations, also those of `64:ff9b:1::/48`, have the address at
/// places that only their operators know.
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(address: &str) -> String {
        Ipv6Prefix::DEFAULT.group(address.parse().unwrap()).to_string()
    }

    #[test]
    fn ipv4_counts_by_address() {
        assert_eq!(grouped("192.0.2.1"), "192.0.2.1");
        assert_eq!(grouped("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(grouped("::ffff:c000:201"), "192.0.2.1");
    }

    #[test]
    fn ipv6_counts_by_network() {
        assert_eq!(grouped("2001:db8::1"), "2001:db8::");
        assert_eq!(grouped("2001:DB8:0:0:ffff::2"), "2001:db8::");
        assert_eq!(grouped("2001:db8:0:1::1"), "2001:db8:0:1::");
        // Looks like IPv4 at its end, and is not.
        assert_eq!(grouped("2001:db8::192.0.2.1"), "2001:db8::");
    }

    #[test]
    fn an_address_that_was_translated_is_the_one_that_it_was() {
        for (address, expected) in [
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("64:FF9B:0:0:0:0:c000:201", "192.0.2.1"),
            ("64:ff9b::192.0.2.2", "192.0.2.2"),
            ("2002:c000:201::", "192.0.2.1"),
            ("2002:c000:201:ffff:1:2:3:4", "192.0.2.1"),
            ("2002:c000:202::1", "192.0.2.2"),
            // Not of the translation, or of one whose layout nobody but its operator knows.
            ("64:ff9b::1:c000:201", "64:ff9b::"),
            ("64:ff9b:0:1::c000:201", "64:ff9b:0:1::"),
            ("64:ff9b:1::c000:201", "64:ff9b:1::"),
            ("2001:c000:201::1", "2001:c000:201::"),
        ] {
            assert_eq!(grouped(address), expected, "{address}");
            // However many bits of other addresses count.
            let translated = expected.parse::<Ipv4Addr>().is_ok();
            for bits in [32, 128] {
                let prefix = Ipv6Prefix::new(bits).unwrap();
                let is_ipv4 = prefix.group(address.parse().unwrap()).is_ipv4();
                assert_eq!(is_ipv4, translated, "{address}/{bits}");
            }
        }
    }

    #[test]
    fn the_network_of_ipv6_can_be_larger_and_smaller() {
        let grouped = |bits| Ipv6Prefix::new(bits).unwrap().group("2001:db8:1:2:3:4:5:6".parse().unwrap());
        assert_eq!(grouped(32).to_string(), "2001:db8::");
        assert_eq!(grouped(48).to_string(), "2001:db8:1::");
        assert_eq!(grouped(56).to_string(), "2001:db8:1::");
        assert_eq!(grouped(128).to_string(), "2001:db8:1:2:3:4:5:6");
        assert_eq!(Ipv6Prefix::new(64), Some(Ipv6Prefix::DEFAULT));
        assert_eq!([Ipv6Prefix::new(31), Ipv6Prefix::new(129), Ipv6Prefix::new(0)], [None; 3]);
    }
}
