//! Network addresses, without a request and without settings: lists of networks, forwarding header fields, IPv6 networks.

mod forwarded;
mod networks;

pub use self::forwarded::ForwardedHeader;
pub(crate) use self::forwarded::{FORWARDED, X_FORWARDED_FOR, X_REAL_IP, is_token};
pub(crate) use self::networks::{Ipv6Prefix, NetworkError, NetworkList, Networks};
