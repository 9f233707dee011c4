//! Limits from a file: `[limit.NAME]` with the fields of a policy, and which requests and callers it is for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ratelimit_core::{MAX_GROUP, Policy};
use serde::Deserialize;
use toml::Table;

use crate::Failed;
use crate::line::{CLIENTS, Request, first};

/// A table of the file.
#[derive(Debug, Deserialize)]
pub(crate) struct Fields {
    by: Option<String>,
    #[serde(default)]
    pub(crate) count: Count,
    path: Option<String>,
    methods: Option<Vec<String>>,
    #[serde(flatten)]
    policy: Table,
}

/// Which answers count; the others give their unit back.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Count {
    #[default]
    All,
    Failures,
    Successes,
}

/// Reads the limits of a file.
pub(crate) fn parse(text: &str) -> Result<Vec<(Policy, Fields)>, Failed> {
    let mut root: BTreeMap<String, BTreeMap<String, Fields>> = toml::from_str(text)?;
    let limits = root.remove("limit").unwrap_or_default();
    if !root.is_empty() || limits.is_empty() || limits.len() > MAX_GROUP {
        return Err(format!("expected a table `limit` with 1 to {MAX_GROUP} limits, and nothing else").into());
    }
    let limit = |(name, fields): (String, Fields)| match policy(&name, &fields) {
        Ok(policy) => Ok((policy, fields)),
        Err(error) => Err(format!("limit `{name}`: {}", error.to_string().trim()).into()),
    };
    limits.into_iter().map(limit).collect()
}

fn policy(name: &str, fields: &Fields) -> Result<Policy, Failed> {
    let mut policy = fields.policy.clone();
    let is_file = |sign: char| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_';
    let is_caller = matches!(fields.by().split(':').next(), Some("ip" | "everyone" | "header" | "field"));
    let is_path = fields.path.as_ref().is_none_or(|path| path.starts_with('/'));
    // A refund finds its charge by the name. A replay shows what the limit would deny, in any mode.
    let is_free = !["key", "name", "mode"].iter().any(|field| policy.contains_key(*field));
    for (is_right, expected) in [
        (name.chars().all(is_file), "a name of letters, digits, `-` and `_`: its picture is a file"),
        (is_caller, "`by` as one of \"ip\", \"header:NAME\", \"field:NAME\", \"everyone\""),
        (is_path, "`path` such as \"/login\", \"/users/{id}\" or \"/static/*\""),
        (is_free, "no `key`, `name` and `mode`: the name of the table is that of the limit"),
    ] {
        if !is_right {
            return Err(format!("expected {expected}").into());
        }
    }
    policy.insert("key".to_owned(), name.into());
    Ok(Policy::deserialize(policy)?)
}

impl Fields {
    /// Whether the limit is for this request.
    pub(crate) fn is_for(&self, request: &Request) -> bool {
        let is_method = match &self.methods {
            Some(methods) => methods.iter().any(|known| known.eq_ignore_ascii_case(&request.method)),
            // Preflights of browsers: a service does not count them either.
            None => request.method != "OPTIONS",
        };
        is_method && self.path.as_ref().is_none_or(|pattern| matches(pattern, &request.path))
    }

    /// Who the caller is: `ip`, `everyone`, `header:NAME` or `field:NAME`.
    pub(crate) fn by(&self) -> &str {
        self.by.as_deref().unwrap_or("ip")
    }

    /// The caller of a request; `None` if the line names none.
    pub(crate) fn caller<'r>(&self, request: &'r Request) -> Option<Cow<'r, str>> {
        let by = self.by().to_lowercase();
        match by.split_once(':') {
            // A header field can be one of the log.
            Some((_, name)) => first(&request.fields, &[&by, name]).map(Cow::Borrowed),
            None if by == "ip" => first(&request.fields, &CLIENTS).map(grouped),
            None => Some("everyone".into()),
        }
    }
}

/// Whether a path has all parts of a pattern: `{id}` is any one of them, and `*` is the rest.
fn matches(pattern: &str, path: &str) -> bool {
    let mut found = path.split('/');
    for part in pattern.split('/') {
        match found.next() {
            _ if part == "*" => return true,
            Some(found) if part == found || part.starts_with('{') && !found.is_empty() => {}
            _ => return false,
        }
    }
    found.next().is_none()
}

/// An IPv6 address counts by its network of 64 bits, as in a service. A name counts as it is.
fn grouped(client: &str) -> Cow<'_, str> {
    let network = |address: Ipv6Addr| Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
    match client.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => format!("{}/64", network(address)).into(),
        Ok(address) => address.to_string().into(),
        Err(_) => client.into(),
    }
}

impl Count {
    /// Whether an answer with this status counts; one without a status does.
    pub(crate) fn includes(self, status: Option<u16>) -> bool {
        status.is_none_or(|status| match self {
            Self::All => true,
            Self::Failures => status >= 400,
            Self::Successes => status < 400,
        })
    }
}
