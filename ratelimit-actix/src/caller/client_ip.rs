//! The address of the client: the default caller.
//!
//! It is the peer's address, unless the peer is one of the trusted proxies of the [`RateLimitConfig`]. Any client can send
//! forwarding header fields, and a server that trusts them grants a new quota for every made-up address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;

use super::value::Caller;
use crate::address::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP};
use ratelimit_core::__private_0_1::{help, is_first};

use crate::config::RateLimitConfig;

/// The address of the client: that of the peer, or if the peer is a [trusted proxy], the one that it forwards for.
///
/// An IPv4 address that is mapped into IPv6 (`::ffff:192.0.2.1`, on a dual-stack socket) is returned as IPv4. `None` on a Unix
/// socket, and for a test request without an address.
///
/// As the caller of a limit, use [`caller::ip`](crate::caller::ip): it counts IPv6 by network, as [configured], and addresses
/// of NAT64 (`64:ff9b::/96`) and 6to4 (`2002::/16`) by the IPv4 address in them.
///
/// [trusted proxy]: crate::RateLimitConfigBuilder::trusted_proxies
/// [configured]: crate::RateLimitConfigBuilder::ipv6_prefix
pub fn client_ip(req: &HttpRequest) -> Option<IpAddr> {
    client_ip_by(req, RateLimitConfig::nearest(req))
}

/// The address as the caller, as with `by = ip`. All requests without an [address](crate::client_ip) are the same caller.
///
/// For functions that fall back to the address.
pub fn ip(req: &HttpRequest) -> Caller {
    by_address(req, RateLimitConfig::nearest(req))
}

/// [`ip`] under a configuration that is already looked up.
///
/// Requests without an address share a count. They come through a Unix socket, from a test, or over a connection that ended
/// before it was accepted. A client must not get a count of its own that way, nor go uncounted.
pub(crate) fn by_address(req: &HttpRequest, config: &RateLimitConfig) -> Caller {
    let Some(address) = client_ip_by(req, config) else {
        warn_about_missing_peer();
        return Caller::no_address();
    };
    Caller::address(config.ipv6_prefix().group(address))
}

/// Whether the client is one to which no limit applies.
#[inline]
pub(crate) fn is_exempt(req: &HttpRequest, config: &RateLimitConfig) -> bool {
    let networks = config.exempt();
    !networks.is_empty() && client_ip_by(req, config).is_some_and(|address| networks.contains(address))
}

fn client_ip_by(req: &HttpRequest, config: &RateLimitConfig) -> Option<IpAddr> {
    let peer = req.peer_addr()?.ip().to_canonical();
    let proxies = config.proxies();
    if proxies.contains(peer) {
        return Some(config.forwarded().client(req.headers(), peer, |hop| proxies.contains(hop)));
    }
    let has_ignored_header = || {
        if proxies.is_empty() {
            [&X_FORWARDED_FOR, &FORWARDED, &X_REAL_IP]
                .into_iter()
                .any(|name| req.headers().contains_key(name))
        } else {
            req.headers().contains_key(config.forwarded().name())
        }
    };
    if !WARNED.load(Ordering::Relaxed) && has_ignored_header() && !WARNED.swap(true, Ordering::Relaxed) {
        warn_about_untrusted_peer(config);
    }
    Some(peer)
}

/// Whether a forwarding header field of an untrusted peer has been logged.
static WARNED: AtomicBool = AtomicBool::new(false);

#[cold]
fn warn_about_untrusted_peer(config: &RateLimitConfig) {
    if !config.is_registered() {
        tracing::warn!(
            help = help("untrusted-peer"),
            "a request has a forwarding header, but no `RateLimitConfig` is registered, so the header is ignored and the peer is \
             counted; if the peer is your proxy, list it with `RateLimitConfig::builder().trusted_proxies(..)`, and register what \
             `build()?` returns with `App::app_data(config)`: a builder or a `Result` in app data is no configuration"
        );
        return;
    }
    tracing::warn!(
        help = help("untrusted-peer"),
        "a request has a forwarding header, but its peer is not a trusted proxy, so the header is ignored and the peer \
         is counted; if the peer is your proxy, list it with `RateLimitConfig::builder().trusted_proxies(..)`"
    );
}

#[cold]
fn warn_about_missing_peer() {
    if is_first("no-peer-address", ()) {
        tracing::warn!(
            help = help("no-peer-address"),
            "a rate-limited request has no peer address; all such requests are counted as one caller; in a test, give each \
             client an address with `TestRequest::peer_addr`; on a Unix socket, where forwarding headers cannot be trusted \
             by the peer's address, let the proxy connect over TCP and list it with `trusted_proxies`, or name callers with \
             `by = function`"
        );
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_translated_address_is_not_trusted_as_the_ipv4_address_in_it() {
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
    fn forwarded_headers_are_not_trusted_by_default() {
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
