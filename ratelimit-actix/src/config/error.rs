//! Settings that cannot be meant.

use actix_web::http::header::HeaderName;

use crate::response::HeaderStyle;

/// A [`RateLimitConfig`](crate::RateLimitConfig) that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitConfigError {
    /// A trusted proxy is neither a network nor an address.
    #[error(
        "`{network}` is not a network; expected CIDR such as 10.0.0.0/8 or 2001:db8::/32, or one address"
    )]
    Network {
        /// What was given.
        network: String,
    },

    /// The trusted proxies are everybody, so that each request could choose its address.
    #[error("trusted proxies must not cover every address; list the networks of your own proxies")]
    TrustsEveryAddress,

    /// A list of addresses was chosen as a field with a single one.
    #[error("`{header}` is a list; choose `ForwardedHeader::XForwardedFor` or `ForwardedHeader::Forwarded`")]
    ListAsSingle {
        /// The field.
        header: HeaderName,
    },

    /// The IPv6 prefix is out of its bounds.
    #[error("ipv6_prefix must be from 32 to 128, not {bits}")]
    Ipv6Prefix {
        /// What was given.
        bits: u8,
    },

    /// Two header styles cannot be sent together.
    #[error("header styles {:?} and {:?} have the same fields; choose one of them", .styles[0], .styles[1])]
    SameFields {
        /// The two.
        styles: [HeaderStyle; 2],
    },

    /// The content type of an own body is not a media type.
    #[error("`{content_type}` is not a media type; expected one such as text/plain or application/json")]
    ContentType {
        /// What was given.
        content_type: String,
    },

    /// An own body and the choice among the built-in ones exclude each other.
    #[error("a body of your own cannot be chosen by Accept; leave out `body_by_accept` or `body_with`")]
    CustomBodyByAccept,
}
