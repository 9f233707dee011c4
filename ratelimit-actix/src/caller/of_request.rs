//! Functions that find the caller in a request: by address, by a path parameter, or by what the application
//! has authenticated.
//!
//! The address is the peer's, unless the peer is one of the trusted proxies of the [`RateLimitConfig`]. Any
//! client can send forwarding header fields, and a server that trusts them grants a new quota for every
//! made-up address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::{HttpMessage, HttpRequest};
use percent_encoding::percent_decode_str;
use ratelimit_core::__private_0_1::{help, is_first};
use smallvec::SmallVec;

use super::value::{Caller, IntoCaller};
use crate::address::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP};
use crate::config::RateLimitConfig;
use crate::handler::extracted::{Extracted, Failure};
use crate::written_limit::by::By;

/// The address of the client: that of the peer, or if the peer is a [trusted proxy], the one that it forwards
/// for.
///
/// An IPv4 address that is mapped into IPv6 (`::ffff:192.0.2.1`, on a dual-stack socket) is returned as IPv4.
/// `None` on a Unix socket, and for a test request without an address.
///
/// As the caller of a limit, use [`caller::ip`](crate::caller::ip): it counts IPv6 by network, as
/// [configured], and addresses of NAT64 (`64:ff9b::/96`) and 6to4 (`2002::/16`) by the IPv4 address in them.
///
/// [trusted proxy]: crate::RateLimitConfigBuilder::trusted_proxies
/// [configured]: crate::RateLimitConfigBuilder::ipv6_prefix
pub fn client_ip(req: &HttpRequest) -> Option<IpAddr> {
    client_ip_by(req, RateLimitConfig::nearest(req))
}

/// The address as the caller, as with `by = ip`. All requests without an [address](crate::client_ip) are the
/// same caller.
///
/// For functions that fall back to the address.
pub fn ip(req: &HttpRequest) -> Caller {
    by_address(req, RateLimitConfig::nearest(req))
}

/// [`ip`] under a configuration that is already looked up.
///
/// Requests without an address share a count. They come through a Unix socket, from a test, or over a
/// connection that ended before it was accepted. A client must not get a count of its own that way, nor go
/// uncounted.
fn by_address(req: &HttpRequest, config: &RateLimitConfig) -> Caller {
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

/// The same caller for all requests, as with `by = global`.
pub fn global(_: &HttpRequest) -> Caller {
    Caller::global()
}

/// The value of a header field as the caller, as with `by = header("..")`. No caller if the field is missing
/// or empty. Of several lines the first counts, as `headers().get` returns it.
///
/// **Warning:** a client can send any value, so it starts a new count with every request, unless something
/// before the limit has verified the field.
pub fn header(req: &HttpRequest, name: &str) -> Caller {
    match req.headers().get(name) {
        Some(value) if !value.is_empty() => Caller::text(value.as_bytes()),
        _ => Caller::missing(),
    }
}

/// The value of a path parameter as the caller. No caller if there is no such parameter.
///
/// For functions that find a caller, such as those of [`Limit::by`](crate::Limit::by). The attribute's `by =
/// path("id")` and `key = "..{id}"` do the same. The value is the text that `web::Path<String>` extracts.
/// `req.match_info().get(name)` may differ: it leaves `/`, `%` and `+` as the client encoded them. `a+b`,
/// `a%2Bb` and `a%2bb` would have a count each, although the handler extracts the same value.
///
/// Text is not a number: `7`, `07` and `+7` are three callers here, but one `u64` in the handler. Count
/// numbers by value, with `by = |id: web::Path<u64>| *id`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::{HttpRequest, web};
/// use ratelimit_actix::{Limit, Policy, RateLimitMiddleware, caller};
///
/// static TENANT: Policy = Policy::new("tenant", 1000, Duration::from_secs(60));
///
/// let limit = Limit::new(&TENANT).by(|req: &HttpRequest| caller::path_param(req, "tenant"));
/// let scope = web::scope("/{tenant}").wrap(RateLimitMiddleware::new(limit));
/// ```
pub fn path_param(req: &HttpRequest, name: &str) -> Caller {
    req.match_info().get(name).map_or(Caller::missing(), |value| {
        // Decodes what the router left encoded, exactly as extractors do. Invalid encodings stay as they are.
        Caller::text(percent_decode_str(value).decode_utf8_lossy().as_bytes())
    })
}

/// The authenticated origin of a request: an account, a user, or the owner of an API key. It is in the
/// extensions of the request.
///
/// Insert it if, and only if, the credentials were verified. An unverified claim must not choose the count: a
/// client could send a new claim with every request, and would never be limited. Limits then find it:
///
/// ```
/// use actix_web::body::MessageBody;
/// use actix_web::dev::{ServiceRequest, ServiceResponse};
/// use actix_web::middleware::{Next, from_fn};
/// use actix_web::{App, Error, HttpMessage, Responder, get};
/// use ratelimit_actix::{Principal, caller, rate_limit};
///
/// async fn authenticate(
///     req: ServiceRequest,
///     next: Next<impl MessageBody>,
/// ) -> Result<ServiceResponse<impl MessageBody>, Error> {
///     if let Some(account) = account_of(req.headers().get("x-api-key")) {
///         req.extensions_mut().insert(Principal::new(account));
///     }
///     next.call(req).await
/// }
/// # fn account_of(key: Option<&actix_web::http::header::HeaderValue>) -> Option<u64> { Some(7) }
///
/// #[rate_limit(max = 100, window = "1m", by = caller::principal_or_ip)]
/// #[get("/orders")]
/// async fn orders() -> impl Responder {
///     "orders"
/// }
///
/// let app = App::new().wrap(from_fn(authenticate)).service(orders);
/// ```
///
/// An attribute sees a principal of any middleware. The [`RateLimitMiddleware`](crate::RateLimitMiddleware)
/// sees that of middleware that is registered after it, and therefore runs before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Caller);

impl Principal {
    /// The principal with this identifier. Use an account number rather than the secret that proves it.
    pub fn new(identifier: impl IntoCaller) -> Self {
        Self(identifier.into_caller())
    }
}

/// The [`Principal`] of a request as the caller. No caller without one.
pub fn principal(req: &HttpRequest) -> Caller {
    let principal = req.extensions().get::<Principal>().map(|principal| principal.0.clone());
    principal.into_caller()
}

/// The [`Principal`] of a request as the caller, or the [address](crate::caller::ip) without one. For
/// endpoints that need no account, and to count requests with wrong credentials as well.
pub fn principal_or_ip(req: &HttpRequest) -> Caller {
    let principal = principal(req);
    if principal.partition().is_some() { principal } else { ip(req) }
}

/// Whether a caller holds what the server knows of the client: its address, or its [`Principal`]. Any other
/// is shared, or the client chose it.
pub(crate) fn is_known(caller: &Caller, req: &HttpRequest) -> bool {
    caller.holds_one_of(&[ip(req), client_ip(req).into_caller(), principal(req)])
}

impl By {
    /// The caller of a request, also if it has to be awaited.
    pub(crate) async fn computed(&self, extracted: &Extracted) -> Result<Caller, Failure> {
        let now = |by: &Self| by.caller(extracted.request(), RateLimitConfig::nearest(extracted.request()));
        match self {
            Self::Later(caller) => caller(extracted).await,
            Self::Parts(parts) => {
                let mut callers = SmallVec::<[Caller; 4]>::new();
                for part in *parts {
                    callers.push(if let Self::Later(caller) = part {
                        caller(extracted).await?
                    } else {
                        now(part)
                    });
                }
                Ok(Caller::join(callers))
            }
            other => Ok(now(other)),
        }
    }

    /// The caller of a request under `config`, the nearest configuration.
    pub(crate) fn caller(&self, req: &HttpRequest, config: &RateLimitConfig) -> Caller {
        match self {
            Self::Ip => by_address(req, config),
            Self::Global => global(req),
            Self::Path(name) => path_param(req, name),
            Self::Header(name) => header(req, name),
            Self::Now(caller) => caller(req),
            Self::Shared(caller) => caller.call(req),
            // It was computed before, by `computed`.
            Self::Later(_) => Caller::missing(),
            Self::Parts(parts) => Caller::join(parts.iter().map(|part| part.caller(req, config))),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::FromRequest as _;
    use actix_web::dev::{Payload, ResourceDef, Url};
    use actix_web::test::TestRequest;
    use actix_web::web::Path;
    use proptest::prelude::*;

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

    /// The caller from the last segment of a path as the router matches it, and the value that a handler
    /// extracts.
    fn matched(segment: &str) -> (Caller, String) {
        let uri = format!("/x/{segment}").parse().unwrap();
        let mut path = actix_web::dev::Path::new(Url::new(uri));
        assert!(ResourceDef::new("/x/{id}").capture_match_info(&mut path), "{segment}");
        let mut request = TestRequest::default();
        for (name, value) in path.iter() {
            request = request.param(name.to_owned(), value.to_owned());
        }
        let request = request.to_http_request();
        let extracted = Path::<String>::from_request(&request, &mut Payload::None).into_inner().unwrap();
        (path_param(&request, "id"), extracted.into_inner())
    }

    #[test]
    fn a_value_is_one_caller_in_every_spelling() {
        let cases: [(&[&str], &str); 6] = [
            (&["a", "%61"], "a"),
            (&["a+b", "a%2Bb", "a%2bb", "%61+b"], "a+b"),
            (&["a%2Fb", "a%2fb", "%61%2fb"], "a/b"),
            (&["100%25", "100%"], "100%"),
            (&["%2541", "%25%34%31"], "%41"),
            (&["%ff", "%FE", "%%46F"], "\u{fffd}"),
        ];
        for (spellings, value) in cases {
            for spelling in spellings {
                let (caller, extracted) = matched(spelling);
                assert_eq!(extracted, value, "{spelling}");
                assert_eq!(caller, value.into_caller(), "{spelling}");
            }
        }
    }

    #[test]
    fn without_the_parameter_there_is_no_caller() {
        assert!(path_param(&TestRequest::default().to_http_request(), "id").partition().is_none());
    }

    proptest! {
        #[test]
        fn the_caller_is_the_value_that_the_handler_extracts(segment in "([a-c+]|%[0-9a-fA-F]{2}|%){1,12}") {
            let (caller, extracted) = matched(&segment);
            prop_assert_eq!(caller, extracted.into_caller());
        }
    }

    #[test]
    fn only_a_verified_principal_is_a_caller() {
        let peer = "192.0.2.1:1".parse().unwrap();
        let req = TestRequest::default().peer_addr(peer).insert_header(("x-api-key", "7")).to_http_request();
        assert_eq!(principal(&req).partition(), None);
        assert_eq!(principal_or_ip(&req), ip(&req));
        req.extensions_mut().insert(Principal::new(7_u64));
        assert_eq!(principal(&req), 7_u64.into_caller());
        assert_eq!(principal_or_ip(&req), 7_u64.into_caller());
        req.extensions_mut().insert(Principal::new(None::<u64>));
        assert_eq!(principal_or_ip(&req), ip(&req));
    }
}
