//! Network addresses, without a request and without settings: lists of networks, forwarding header fields, IPv6 networks.

mod forwarded;
mod ipv6_prefix;
mod networks;

pub use self::forwarded::ForwardedHeader;
pub(crate) use self::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP, is_token};
pub(crate) use self::ipv6_prefix::Ipv6Prefix;
pub(crate) use self::networks::{NetworkError, NetworkList, Networks};
