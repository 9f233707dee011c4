//! Network addresses, without a request or settings.

mod forwarded;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use ipnet::{IpNet, Ipv4Net};

pub use self::forwarded::ForwardedHeader;
pub(crate) use self::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP, is_token};

/// A list of networks that does not cover every address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Networks(Vec<IpNet>);

/// A list of networks that cannot be used.
#[derive(Debug)]
pub(crate) enum NetworkError {
    /// The text is neither a network nor an address.
    Malformed(String),
    /// The networks cover every address of IPv4 or IPv6.
    CoversEveryAddress,
}

/// A network as text, such as `"10.0.0.0/8"`, or several in an array, a `Vec` or another iterator.
///
/// `Form` distinguishes the two, and is always inferred: `String` for one, `Vec<String>` for several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no networks",
    label = "expected a network such as `\"10.0.0.0/8\"`, or several in an array"
)]
pub trait NetworkList<Form> {
    /// The texts.
    fn into_texts(self) -> Vec<String>;
}

impl<N: Into<String>> NetworkList<String> for N {
    fn into_texts(self) -> Vec<String> {
        vec![self.into()]
    }
}

impl<I: IntoIterator<Item: Into<String>>> NetworkList<Vec<String>> for I {
    fn into_texts(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl Networks {
    /// Parses networks such as `10.0.0.0/8`, and single addresses. Bits after the prefix are ignored.
    pub(crate) fn parse<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Self, NetworkError> {
        let parse = |text| network(text).ok_or_else(|| NetworkError::Malformed(String::from(text)));
        let networks: Vec<_> = networks.into_iter().map(parse).collect::<Result<_, _>>()?;
        // Aggregated, because two halves cover everything as well.
        if IpNet::aggregate(&networks).iter().any(|network| network.prefix_len() == 0) {
            return Err(NetworkError::CoversEveryAddress);
        }
        Ok(Self(networks))
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the address is in one of the networks. Expects IPv4 unmapped.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let network = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => text.parse::<IpNet>().ok()?,
    };
    let mapped = match network {
        // Addresses are compared unmapped, so networks must be unmapped, too.
        IpNet::V6(network) if network.prefix_len() >= 96 => {
            network.addr().to_ipv4_mapped().zip(Some(network))
        }
        _ => None,
    };
    let network = match mapped {
        Some((address, network)) => Ipv4Net::new(address, network.prefix_len() - 96).ok()?.into(),
        None => network,
    };
    Some(network.trunc())
}

/// How many bits of an IPv6 address distinguish callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ipv6Prefix {
    mask: Ipv6Addr,
}

/// Whether a configuration of this process has the prefix of 32 bits, of 33, and so on to 128.
static IN_USE: [AtomicBool; 97] = [const { AtomicBool::new(false) }; 97];

impl Ipv6Prefix {
    /// A subscriber has at least a /64, and can use any address in it.
    pub(crate) const DEFAULT: Self = Self { mask: Ipv6Addr::from_bits(u128::MAX << 64) };

    /// A prefix of 32 to 128 bits.
    pub(crate) fn new(bits: u8) -> Option<Self> {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits.clamp(32, 128)))?;
        (32..=128).contains(&bits).then_some(Self { mask: Ipv6Addr::from_bits(mask) })
    }

    /// The number of bits, from 32 to 128.
    pub(crate) const fn bits(self) -> u32 {
        self.mask.to_bits().leading_ones()
    }

    /// Notes that a configuration has this prefix.
    pub(crate) fn note_use(self) {
        IN_USE[self.bits() as usize - 32].store(true, Ordering::Relaxed);
    }

    /// The prefixes by which addresses of this process may be counted: the default, and those of
    /// configurations.
    #[cfg(feature = "admin")]
    pub(crate) fn in_use() -> impl Iterator<Item = Self> {
        let is_used = |prefix: &Self| IN_USE[prefix.bits() as usize - 32].load(Ordering::Relaxed);
        [Self::DEFAULT].into_iter().chain((32..=128).filter_map(Self::new).filter(is_used))
    }

    /// The address that represents all addresses of the same caller.
    pub(crate) fn group(self, address: IpAddr) -> IpAddr {
        // Unmap before masking: masked as they are, all IPv4-mapped addresses would be in one network.
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                translated(address).map_or_else(|| (address & self.mask).into(), IpAddr::V4)
            }
        }
    }
}

/// The IPv4 address in an IPv6 address of NAT64 or 6to4.
///
/// In front of a service without IPv4, NAT64 maps all IPv4 addresses into one /64, which would be one caller
/// by network. With 6to4, the owner of one IPv4 address has a /48, which would be 65,536 callers. A client
/// can use neither without the IPv4 address: the replies to its connections go there.
///
/// This is for counting only. Proxies are trusted by the address as it is, because a translator must not be
/// able to produce an address of the internal network. Other translations, also of `64:ff9b:1::/48`, place
/// the address where only their operators know.
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

    fn parse(networks: &[&str]) -> Result<Networks, NetworkError> {
        Networks::parse(networks.iter().copied())
    }

    #[test]
    fn networks_and_addresses_are_parsed() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.255.0.1", true),
            (" 192.0.2.1 ", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::1", "2001:db8::2", false),
            ("::ffff:10.0.0.0/104", "10.255.0.1", true),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("0.0.0.0/1", "10.0.0.1", true),
        ];
        for (network, address, expected) in cases {
            let networks = parse(&[network]).unwrap();
            assert_eq!(networks.contains(address.parse().unwrap()), expected, "{network} {address}");
        }
    }

    #[test]
    fn networks_that_cover_every_address_are_rejected() {
        let everything: [&[&str]; 7] = [
            &["0.0.0.0/0"],
            &["::/0"],
            &["192.0.2.1/0"],
            &["::ffff:0.0.0.0/96"],
            &["10.0.0.0/8", "::/0"],
            &["0.0.0.0/1", "128.0.0.0/1"],
            &["::/1", "8000::/1"],
        ];
        for networks in everything {
            let error = parse(networks).unwrap_err();
            assert!(matches!(error, NetworkError::CoversEveryAddress), "{networks:?}: {error:?}");
        }
    }

    #[test]
    fn the_error_names_the_malformed_network() {
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "*", "localhost", "2001:db8::/129", "10.0.0.1:80"]
        {
            let error = parse(&["10.0.0.0/8", text]).unwrap_err();
            assert!(matches!(&error, NetworkError::Malformed(named) if named == text), "{error:?}");
        }
    }

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
        // The end looks like IPv4.
        assert_eq!(grouped("2001:db8::192.0.2.1"), "2001:db8::");
    }

    #[test]
    fn a_translated_address_counts_as_its_ipv4_address() {
        for (address, expected) in [
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("64:FF9B:0:0:0:0:c000:201", "192.0.2.1"),
            ("64:ff9b::192.0.2.2", "192.0.2.2"),
            ("2002:c000:201::", "192.0.2.1"),
            ("2002:c000:201:ffff:1:2:3:4", "192.0.2.1"),
            ("2002:c000:202::1", "192.0.2.2"),
            // No translation, or one whose layout only its operator knows.
            ("64:ff9b::1:c000:201", "64:ff9b::"),
            ("64:ff9b:0:1::c000:201", "64:ff9b:0:1::"),
            ("64:ff9b:1::c000:201", "64:ff9b:1::"),
            ("2001:c000:201::1", "2001:c000:201::"),
        ] {
            assert_eq!(grouped(address), expected, "{address}");
            // Independent of the prefix for other addresses.
            let translated = expected.parse::<Ipv4Addr>().is_ok();
            for bits in [32, 128] {
                let prefix = Ipv6Prefix::new(bits).unwrap();
                let is_ipv4 = prefix.group(address.parse().unwrap()).is_ipv4();
                assert_eq!(is_ipv4, translated, "{address}/{bits}");
            }
        }
    }

    #[test]
    fn the_prefix_is_configurable() {
        let grouped = |bits| Ipv6Prefix::new(bits).unwrap().group("2001:db8:1:2:3:4:5:6".parse().unwrap());
        assert_eq!(grouped(32).to_string(), "2001:db8::");
        assert_eq!(grouped(48).to_string(), "2001:db8:1::");
        assert_eq!(grouped(56).to_string(), "2001:db8:1::");
        assert_eq!(grouped(128).to_string(), "2001:db8:1:2:3:4:5:6");
        assert_eq!(Ipv6Prefix::new(64), Some(Ipv6Prefix::DEFAULT));
        assert_eq!([Ipv6Prefix::new(31), Ipv6Prefix::new(129), Ipv6Prefix::new(0)], [None; 3]);
    }
}
