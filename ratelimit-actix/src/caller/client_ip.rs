//! Who is calling, when nothing else is asked for: the address of the client.
//!
//! That is the peer's, unless the peer is one of the trusted proxies of the [`RateLimitConfig`]. Anybody can send
//! forwarding headers, and whoever believes them hands out a fresh quota for every made-up address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;

use crate::address::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP};
use crate::caller::Key;
use crate::config::RateLimitConfig;

/// The address of the client: of the peer that made the connection or, if that is a [trusted proxy], of whom it
/// forwards for.
///
/// An IPv4 address that was mapped into IPv6 (`::ffff:192.0.2.1`, on a socket for both) is given as IPv4. `None` on a
/// Unix socket, and for a test request that was not given an address.
///
/// As the caller of a limit use [`client_key`]: it counts IPv6 by network, as [configured], and addresses of NAT64
/// (`64:ff9b::/96`) and 6to4 (`2002::/16`) by the IPv4 address in them.
///
/// [trusted proxy]: crate::RateLimitConfigBuilder::trusted_proxies
/// [configured]: crate::RateLimitConfigBuilder::ipv6_prefix
pub fn client_ip(req: &HttpRequest) -> Option<IpAddr> {
    client_ip_by(req, RateLimitConfig::nearest(req))
}

/// The caller of a request as `by = ip` sees it. All requests without an [address](client_ip) are one caller.
///
/// For key functions that fall back to the address.
pub fn client_key(req: &HttpRequest) -> Key {
    caller(req, RateLimitConfig::nearest(req))
}

/// The caller of a limit that counts by address.
///
/// Requests that have none share a count. They come through a Unix socket, from a test, or over a connection that ended
/// before it was accepted: a client must not choose its own count by that, nor go uncounted.
pub(crate) fn caller(req: &HttpRequest, config: &RateLimitConfig) -> Key {
    let Some(address) = client_ip_by(req, config) else {
        explain_missing_peer();
        return Key::no_address();
    };
    Key::address(config.ipv6_prefix().group(address))
}

fn client_ip_by(req: &HttpRequest, config: &RateLimitConfig) -> Option<IpAddr> {
    let peer = req.peer_addr()?.ip().to_canonical();
    let proxies = config.proxies();
    if proxies.contains(peer) {
        return Some(config.forwarded().client(req.headers(), peer, |hop| proxies.contains(hop)));
    }
    let unheeded = || {
        if proxies.is_empty() {
            [&X_FORWARDED_FOR, &FORWARDED, &X_REAL_IP]
                .into_iter()
                .any(|name| req.headers().contains_key(name))
        } else {
            req.headers().contains_key(config.forwarded().name())
        }
    };
    if !WARNED.load(Ordering::Relaxed) && unheeded() && !WARNED.swap(true, Ordering::Relaxed) {
        explain_untrusted_peer();
    }
    Some(peer)
}

/// Whether a forwarding header from a peer that is not trusted has been reported.
static WARNED: AtomicBool = AtomicBool::new(false);

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

#[cold]
fn explain_untrusted_peer() {
    tracing::warn!(
        "a request has a forwarding header, but its peer is not a trusted proxy, so the header is ignored and the peer \
         is counted; if the peer is your proxy, list it with `RateLimitConfig::builder().trusted_proxies(..)`"
    );
}

#[cold]
fn explain_missing_peer() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            "a rate-limited request has no peer address; all such requests are counted as one caller; in a test, give each \
             client an address with `TestRequest::peer_addr`; on a Unix socket, where forwarding headers cannot be trusted \
             by the peer's address, let the proxy connect over TCP and list it with `trusted_proxies`, or name callers with \
             `by = function`"
        );
    });
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

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
    fn a_translated_address_is_not_trusted_for_the_one_that_it_was() {
        let config = RateLimitConfig::builder()
            .trusted_proxies(["10.0.0.0/8"], crate::ForwardedHeader::XForwardedFor)
            .build()
            .unwrap();
        for peer in ["[64:ff9b::10.0.0.1]:1", "[2002:a00:1::1]:1"] {
            let peer: std::net::SocketAddr = peer.parse().unwrap();
            let req = TestRequest::default()
                .app_data(config.clone())
                .peer_addr(peer)
                .insert_header(("x-forwarded-for", "203.0.113.9"))
                .to_http_request();
            assert_eq!(client_ip(&req), Some(peer.ip()));
        }
        let req = TestRequest::default()
            .app_data(config)
            .peer_addr("10.0.0.1:1".parse().unwrap())
            .insert_header(("x-forwarded-for", "203.0.113.9, 64:ff9b::10.0.0.2"))
            .to_http_request();
        assert_eq!(client_ip(&req), Some("64:ff9b::10.0.0.2".parse().unwrap()));
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

    #[test]
    fn forwarded_headers_are_not_believed() {
        let req = TestRequest::default()
            .peer_addr("[::ffff:192.0.2.1]:5000".parse().unwrap())
            .insert_header(("x-forwarded-for", "203.0.113.9"))
            .insert_header(("forwarded", "for=203.0.113.9"))
            .to_http_request();
        assert_eq!(client_ip(&req), Some("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn without_a_peer_there_is_no_address() {
        assert_eq!(client_ip(&TestRequest::default().to_http_request()), None);
    }
}
