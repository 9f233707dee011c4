//! Which address counts: which forwarded header is trusted, and from which peers.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::test::TestRequest;
use proptest::prelude::*;
use ratelimit_actix::{ForwardedHeader, RateLimitConfig, caller, client_ip};
use tests::log::Log;
use tests::own_process::in_own_process;
use tracing::Level;

pub(crate) fn behind(networks: &[&str], header: ForwardedHeader) -> RateLimitConfig {
    RateLimitConfig::builder().trusted_proxies(networks.iter().copied(), header).build().unwrap()
}

/// The client address of a request from `peer` with this header line, as text, if it has one.
fn client(config: &RateLimitConfig, peer: &str, name: &str, line: &[u8]) -> Option<String> {
    let mut request = TestRequest::default().app_data(config.clone()).peer_addr(peer.parse().unwrap());
    if let Ok(value) = HeaderValue::from_bytes(line) {
        request = request.insert_header((HeaderName::try_from(name).unwrap(), value));
    }
    client_ip(&request.to_http_request()).map(|address| address.to_string())
}

fn real_ip() -> ForwardedHeader {
    ForwardedHeader::Single(HeaderName::from_static("x-real-ip"))
}

#[test]
fn only_the_configured_header_is_trusted() {
    let headers = [
        (ForwardedHeader::XForwardedFor, "x-forwarded-for", "203.0.113.9"),
        (ForwardedHeader::Forwarded, "forwarded", "for=203.0.113.9"),
        (real_ip(), "x-real-ip", "203.0.113.9"),
    ];
    for (chosen, own_name, _) in &headers {
        let config = behind(&["10.0.0.0/8"], chosen.clone());
        for (_, name, line) in &headers {
            let expected = if name == own_name { "203.0.113.9" } else { "10.0.0.1" };
            let found = client(&config, "10.0.0.1:1", name, line.as_bytes());
            assert_eq!(found.as_deref(), Some(expected), "{own_name} was chosen, {name} sent");
        }
    }
}

/// Header names that some services trust, and others that an attacker might try.
const NAMES: [&str; 16] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-forwarded",
    "forwarded-for",
    "x-forwarded-host",
    "x-remote-addr",
    "via",
    "host",
    "x_forwarded_for",
    "proxy-connection",
];

proptest! {
    #[test]
    fn headers_of_an_untrusted_peer_are_ignored(
        lines in proptest::collection::vec(
            (prop_oneof![
                "[ -~]{0,60}".prop_map(String::into_bytes),
                "(for=)?\"?[0-9a-f:.\\[\\], ]{0,40}\"?".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..60),
            ], 0..NAMES.len()),
            0..8,
        ),
        peer in prop_oneof![any::<u32>().prop_map(|host| IpAddr::V4((host | 0x8000_0000).into())),
            any::<u128>().prop_map(|host| IpAddr::V6((host | 0x8000 << 112).into()))],
        trusts in any::<bool>(),
        chosen in 0_usize..3,
    ) {
        let headers = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded, real_ip()];
        let networks: &[&str] = if trusts { &["10.0.0.0/8", "2001:db8::/32"] } else { &[] };
        let config = behind(networks, headers[chosen].clone());
        let request =
            || TestRequest::default().app_data(config.clone()).peer_addr(SocketAddr::new(peer, 1));
        let bare = request().to_http_request();
        let mut forged = request();
        for (line, name) in lines {
            // What HTTP forbids in a header never arrives.
            if let Ok(value) = HeaderValue::from_bytes(&line) {
                forged = forged.append_header((HeaderName::from_static(NAMES[name]), value));
            }
        }
        let forged = forged.to_http_request();
        prop_assert_eq!(client_ip(&forged), Some(peer));
        prop_assert_eq!(caller::ip(&forged), caller::ip(&bare));
    }
}

#[test]
fn an_ignored_header_is_logged_once() {
    in_own_process(|| {
        let log = Log::of_process();
        let config = behind(&["10.0.0.0/8"], ForwardedHeader::XForwardedFor);
        client(&config, "10.0.0.1:1", "x-forwarded-for", b"203.0.113.9");
        client(&config, "11.0.0.1:1", "x-real-ip", b"203.0.113.9");
        assert!(log.at(Level::WARN).is_empty());
        for _ in 0..3 {
            client(&config, "11.0.0.1:1", "x-forwarded-for", b"203.0.113.9");
            client(&RateLimitConfig::default(), "11.0.0.1:1", "forwarded", b"for=203.0.113.9");
        }
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("trusted_proxies"), "{warnings:?}");
        assert!(warnings[0].contains("is not a trusted proxy"), "{warnings:?}");
        assert!(!warnings[0].contains("203.0.113.9") && !warnings[0].contains("11.0.0.1"), "{warnings:?}");
    });
}

#[test]
fn an_ignored_header_without_a_configuration_is_logged_as_such() {
    in_own_process(|| {
        let log = Log::of_process();
        // Neither is a configuration.
        let builder =
            || RateLimitConfig::builder().trusted_proxies(["11.0.0.0/8"], ForwardedHeader::XForwardedFor);
        let req = TestRequest::default().app_data(builder()).app_data(builder().build());
        let req =
            req.peer_addr("11.0.0.1:1".parse().unwrap()).insert_header(("x-forwarded-for", "203.0.113.9"));
        assert_eq!(client_ip(&req.to_http_request()), Some("11.0.0.1".parse().unwrap()));
        let warnings = log.at(Level::WARN);
        assert!(
            warnings.len() == 1 && warnings[0].contains("no `RateLimitConfig` is registered"),
            "{warnings:?}"
        );
        assert!(!warnings[0].contains("203.0.113.9") && !warnings[0].contains("11.0.0.1"), "{warnings:?}");
    });
}
