//! Callers that the application has authenticated.

use actix_web::{HttpMessage, HttpRequest};

use super::client_ip::ip;
use super::into_caller::IntoCaller;
use super::value::Caller;

/// The authenticated origin of a request: an account, a user, or the owner of an API key. Request extensions hold it.
///
/// Insert it if, and only if, the credentials were verified. An unverified claim must not choose the count: a client could
/// send a new claim with every request, and would never be limited. Limits then find it:
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
/// An attribute sees a principal of any middleware. The [`RateLimitMiddleware`](crate::RateLimitMiddleware) sees that of
/// middleware that is registered after it, and therefore runs before it.
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

/// The [`Principal`] of a request as the caller, or the [address](crate::caller::ip) without one. For endpoints that need no
/// account, and to count requests with wrong credentials as well.
pub fn principal_or_ip(req: &HttpRequest) -> Caller {
    let principal = principal(req);
    if principal.partition().is_some() { principal } else { ip(req) }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

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
