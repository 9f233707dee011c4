//! Who the caller of a request is, in the words of a file of limits: `ip`, `header:x-api-key`, `field:user`, `everyone`.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::line::Request;

/// The caller under a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Ip,
    Header(String),
    Field(String),
    Everyone,
}

impl By {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.split_once(':') {
            None if text == "ip" => Ok(Self::Ip),
            None if text == "everyone" => Ok(Self::Everyone),
            Some(("header", name)) if !name.is_empty() => Ok(Self::Header(name.to_ascii_lowercase())),
            Some(("field", name)) if !name.is_empty() => Ok(Self::Field(name.to_owned())),
            _ => Err("expected one of \"ip\", \"header:NAME\", \"field:NAME\", \"everyone\""),
        }
    }

    /// The caller of a request; `None` if the line does not tell.
    pub(crate) fn caller<'r>(&self, request: &'r Request<'_>) -> Option<Cow<'r, str>> {
        match self {
            Self::Ip => request.client().map(grouped),
            Self::Header(name) => request.header(name),
            Self::Field(name) => request.field(name),
            Self::Everyone => Some(Cow::Borrowed("everyone")),
        }
    }
}

/// An IPv6 address counts by its network of 64 bits, as in a service. A name counts as it is.
fn grouped(client: Cow<'_, str>) -> Cow<'_, str> {
    if !client.contains(':') {
        return client;
    }
    match client.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => {
            let network = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
            Cow::Owned(format!("{network}/64"))
        }
        Ok(address) => Cow::Owned(address.to_string()),
        Err(_) => client,
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Field(name) => write!(f, "field:{name}"),
            Self::Everyone => f.write_str("everyone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_read_as_they_are_written() {
        for text in ["ip", "header:x-api-key", "field:request.user", "everyone"] {
            assert_eq!(By::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(By::parse("header:X-API-Key").unwrap().to_string(), "header:x-api-key");
        for text in ["", "address", "header:", "field:", "path:id"] {
            assert!(By::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_count_as_in_a_service() {
        for (client, caller) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8::1:2:3:4", "2001:db8::/64"),
            ("client.example", "client.example"),
        ] {
            assert_eq!(grouped(client.into()), caller);
        }
    }
}
