//! Who is calling, when nothing else is asked for: the address at the other end of the connection.
//!
//! Forwarded headers are not read. Anybody can send them, and whoever believes them hands out a fresh quota for every
//! made-up address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Once;

use actix_web::HttpRequest;

use crate::key::{IntoKey, Key};

/// The address of the client, as `by = ip` sees it: of the peer that made the connection.
///
/// An IPv4 address that was mapped into IPv6 (`::ffff:192.0.2.1`, on a socket for both) is given as IPv4. `None` on a
/// Unix socket, and for a test request that was not given an address.
///
/// For key functions that fall back to the address; it knows what `by = ip` knows, so use it and not the request's own
/// methods.
pub fn client_ip(req: &HttpRequest) -> Option<IpAddr> {
    Some(req.peer_addr()?.ip().to_canonical())
}

/// The caller of a limit that counts by address.
pub(crate) fn caller(req: &HttpRequest) -> Key {
    let address = client_ip(req);
    if address.is_none() {
        explain_missing_peer();
    }
    address.into_key()
}

/// The part of an IPv6 address that tells subscribers apart: each gets a /64 at least, and chooses addresses in it at
/// will.
const IPV6_NETWORK: Ipv6Addr = Ipv6Addr::from_bits(u128::MAX << 64);

/// The one address that stands for all that are the same caller.
pub(crate) fn group(address: IpAddr) -> IpAddr {
    // First the fold, then the mask: masked as it stands, every IPv4-mapped address would be in one network.
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => (address & IPV6_NETWORK).into(),
    }
}

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
        group(address.parse().unwrap()).to_string()
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
