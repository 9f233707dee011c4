//! Network addresses, without a request and without settings: trusted proxies, forwarding header fields, IPv6 networks.

mod forwarded;
mod ipv6_prefix;
mod trusted_proxies;

pub use self::forwarded::ForwardedHeader;
pub(crate) use self::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP, is_token};
pub(crate) use self::ipv6_prefix::Ipv6Prefix;
pub(crate) use self::trusted_proxies::{NetworkError, TrustedProxies};
