//! Errors of [`RateLimitConfigBuilder::build`](crate::RateLimitConfigBuilder::build).

use std::fmt;

use actix_web::http::header::HeaderName;

use crate::response::HeaderStyle;

/// A [`RateLimitConfig`](crate::RateLimitConfig) that cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitConfigError {
    /// A trusted proxy or an exempt client is neither a network nor an address.
    #[error(
        "`{network}` is not a network; expected CIDR such as 10.0.0.0/8 or 2001:db8::/32, or one address"
    )]
    #[non_exhaustive]
    Network {
        /// The text that was set.
        network: String,
    },

    /// The trusted proxies cover every address, so that each request could choose its own.
    #[error("trusted proxies must not cover every address; list the networks of your own proxies")]
    TrustsEveryAddress,

    /// The exempt networks cover every address, so that no limit would ever apply.
    #[error(
        "exempt networks must not cover every address, because no limit would apply; for a test without limits, use \
         `RateLimiter::new(Unlimited)`"
    )]
    ExemptsEveryAddress,

    /// A field with a list of addresses was set as a field with a single address.
    #[error("`{header}` is a list; choose `ForwardedHeader::XForwardedFor` or `ForwardedHeader::Forwarded`")]
    #[non_exhaustive]
    ListAsSingle {
        /// The name of the field.
        header: HeaderName,
    },

    /// The IPv6 prefix is not from 32 to 128 bits.
    #[error("ipv6_prefix must be from 32 to 128, not {bits}")]
    #[non_exhaustive]
    Ipv6Prefix {
        /// The number of bits that was set.
        bits: u8,
    },

    /// Two header styles have a field in common, and cannot be sent together.
    #[error("header styles {:?} and {:?} have the same fields; choose one of them", .styles[0], .styles[1])]
    #[non_exhaustive]
    SameFields {
        /// The two styles.
        styles: [HeaderStyle; 2],
    },

    /// The content type of a custom body is not a media type.
    #[error("`{content_type}` is not a media type; expected one such as text/plain or application/json")]
    #[non_exhaustive]
    ContentType {
        /// The content type that was set.
        content_type: String,
    },

    /// A custom body and the choice among the built-in ones exclude each other.
    #[error("a body of your own cannot be chosen by Accept; leave out `body_by_accept` or `body_with`")]
    CustomBodyByAccept,
}

/// As `Display`: this is what a `main` prints that returns the error.
impl fmt::Debug for RateLimitConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
