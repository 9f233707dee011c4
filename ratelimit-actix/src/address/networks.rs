//! Lists of networks: of trusted proxies, and of clients without limits.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

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

/// A network as text, or several in an array, a `Vec` or another iterator. `Form` keeps the two apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` names no networks",
    label = "expected a network such as `\"10.0.0.0/8\"`, or several in an array"
)]
pub trait NetworkList<Form> {
    /// The texts.
    fn into_texts(self) -> Vec<String>;
}

/// The form of a single network.
#[derive(Debug)]
pub struct OneNetwork;

impl<N: Into<String>> NetworkList<OneNetwork> for N {
    fn into_texts(self) -> Vec<String> {
        vec![self.into()]
    }
}

/// The form of several networks.
#[derive(Debug)]
pub struct SeveralNetworks;

impl<I: IntoIterator<Item: Into<String>>> NetworkList<SeveralNetworks> for I {
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
}
