//! Network addresses: which peers are proxies, and which client a proxy forwards for.

pub(crate) mod forwarded;
pub(crate) mod trusted_proxies;
