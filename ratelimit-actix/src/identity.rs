//! Who is calling, when nothing else is asked for: the address of the client.
//!
//! That is the peer's, unless the peer is one of the trusted proxies of the [`RateLimitConfig`]. Anybody can send
//! forwarding headers, and whoever believes them hands out a fresh quota for every made-up address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;

use crate::config::RateLimitConfig;
use crate::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP};
use crate::key::{IntoKey, Key};

/// The address of the client: of the peer that made the connection or, if that is a [trusted proxy], of whom it
/// forwards for.
///
/// An IPv4 address that was mapped into IPv6 (`::ffff:192.0.2.1`, on a socket for both) is given as IPv4. `None` on a
/// Unix socket, and for a test request that was not given an address.
///
/// As the caller of a limit use [`client_key`]: it counts IPv6 by network, as [configured].
///
/// [trusted proxy]: crate::RateLimitConfigBuilder::trusted_proxies
/// [configured]: crate::RateLimitConfigBuilder::ipv6_prefix
pub fn client_ip(req: &HttpRequest) -> Option<IpAddr> {
    client_ip_by(req, RateLimitConfig::nearest(req))
}

/// The caller of a request as `by = ip` sees it; nobody when there is no [address](client_ip).
///
/// For key functions that fall back to the address.
pub fn client_key(req: &HttpRequest) -> Key {
    let config = RateLimitConfig::nearest(req);
    match client_ip_by(req, config) {
        Some(address) => Key::address(config.ipv6_prefix().group(address)),
        None => None::<IpAddr>.into_key(),
    }
}

/// The caller of a limit that counts by address.
pub(crate) fn caller(req: &HttpRequest) -> Key {
    if req.peer_addr().is_none() {
        explain_missing_peer();
    }
    client_key(req)
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
            IpAddr::V6(address) => (address & self.mask).into(),
        }
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
            "a rate-limited request has no peer address, as on a Unix socket or in a test without \
             `TestRequest::peer_addr`, and is answered with 400; name its callers with `by = function`, or count all \
             of them as one with `by = global`"
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
