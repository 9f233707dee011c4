//! Addresses in forwarding header fields, read from the nearest hop to the farthest.
//!
//! A proxy appends at the right, so data that a client made up is at the left. The header is read from the
//! right, and no further than necessary. Each byte is read a bounded number of times, at most [`MAX_HOPS`]
//! hops of at most [`MAX_HOP`] bytes are read, and nothing is allocated.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};

/// Most hops that are read. No real request passes more proxies; hops further left are ignored.
const MAX_HOPS: usize = 100;

/// Longest hop in bytes, with all parameters of `Forwarded`. A longer one is malformed.
const MAX_HOP: usize = 1024;

/// Longest address in bytes, with brackets, zone and port. A longer one is malformed.
const MAX_NODE: usize = 128;

pub(crate) static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) static FORWARDED: HeaderName = HeaderName::from_static("forwarded");
pub(crate) static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The header field in which the trusted proxies of a deployment name the client.
///
/// Choose the field that your proxies set, and let them remove the others: a field that they pass on
/// unchanged comes from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: a list to which every proxy appends the address of its peer.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): such a list with the address in the parameter `for`.
    Forwarded,
    /// A field with one address that the outermost proxy sets and replaces, such as `X-Real-IP`. It is
    /// ignored if it occurs twice.
    Single(HeaderName),
}

impl ForwardedHeader {
    /// The name of the field.
    pub(crate) fn name(&self) -> &HeaderName {
        match self {
            Self::XForwardedFor => &X_FORWARDED_FOR,
            Self::Forwarded => &FORWARDED,
            Self::Single(name) => name,
        }
    }

    /// The first untrusted hop, starting from `peer`, which is trusted. A malformed or unknown hop ends the
    /// walk at the one before it.
    pub(crate) fn client(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> IpAddr {
        // Several lines are one list.
        let lines = headers.get_all(self.name()).map(HeaderValue::as_bytes);
        match self {
            Self::XForwardedFor => walk(lines.rev(), peer, is_trusted, last_of_list, node),
            Self::Forwarded => walk(lines.rev(), peer, is_trusted, last_of_quoted_list, parameter_for),
            Self::Single(_) => {
                let line = only(lines).filter(|line| line.len() <= MAX_HOP);
                line.and_then(|line| node(trim(line))).unwrap_or(peer)
            }
        }
    }
}

/// The rest of a list, if any, and its last element.
type Split<'a> = (Option<&'a [u8]>, &'a [u8]);

/// Splits the last element off a list.
type SplitLast = fn(&[u8]) -> Option<Split<'_>>;

/// The address in an element.
type Parse = fn(&[u8]) -> Option<IpAddr>;

fn walk<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
    split: SplitLast,
    parse: Parse,
) -> IpAddr {
    let mut last = peer;
    let mut hops = 0;
    for line in lines {
        let mut rest = Some(line);
        while let Some(list) = rest {
            hops += 1;
            let hop = if hops > MAX_HOPS { None } else { split(list) };
            // An empty hop is malformed, too: the proxy did not know its peer.
            let parsed = hop.and_then(|(before, hop)| Some((before, parse(trim(hop))?)));
            let Some((before, address)) = parsed else { return last };
            if !is_trusted(address) {
                return address;
            }
            last = address;
            rest = before;
        }
    }
    last
}

/// The last bytes of a list; the last element is among them.
fn tail(list: &[u8]) -> &[u8] {
    &list[list.len().saturating_sub(MAX_HOP + 1)..]
}

/// The parts of `list` before and after the comma at `comma` in its [`tail`]; `None` when its last element is
/// too long.
fn split_at(list: &[u8], comma: Option<usize>) -> Option<Split<'_>> {
    match comma {
        Some(comma) => {
            let comma = list.len() - tail(list).len() + comma;
            Some((Some(&list[..comma]), &list[comma + 1..]))
        }
        None => (list.len() <= MAX_HOP).then_some((None, list)),
    }
}

/// Splits at the last comma.
fn last_of_list(list: &[u8]) -> Option<Split<'_>> {
    split_at(list, tail(list).iter().rposition(|&byte| byte == b','))
}

/// Splits at the last comma outside quotes. Quotes are matched from the right, so that a quote that the
/// client left open cannot swallow what proxies appended.
fn last_of_quoted_list(list: &[u8]) -> Option<Split<'_>> {
    let tail = tail(list);
    let mut quoted = false;
    let mut comma = None;
    for (i, &byte) in tail.iter().enumerate().rev() {
        match byte {
            b'"' if quoted => {
                // Linear: runs of backslashes before different quotes do not overlap.
                let escapes = tail[..i].iter().rev().take_while(|&&byte| byte == b'\\').count();
                quoted = !escapes.is_multiple_of(2);
            }
            b'"' => quoted = true,
            b',' if !quoted => {
                comma = Some(i);
                break;
            }
            _ => {}
        }
    }
    split_at(list, comma)
}

fn only<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let line = lines.next()?;
    lines.next().is_none().then_some(line)
}

fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// The address in the parameter `for` of one element of `Forwarded`.
fn parameter_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element;
    let mut unquoted = [0; MAX_NODE];
    loop {
        rest = trim(rest);
        match rest.split_first() {
            None => return found,
            Some((b';', after)) => {
                rest = after;
                continue;
            }
            Some(_) => {}
        }
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let name = &rest[..equals];
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let (value, after) = value(&rest[equals + 1..], &mut unquoted)?;
        if name.eq_ignore_ascii_case(b"for") {
            // A second `for` makes the element ambiguous.
            if found.is_some() {
                return None;
            }
            found = Some(node(value?)?);
        }
        rest = trim(after);
        if !rest.is_empty() && rest[0] != b';' {
            return None;
        }
    }
}

/// The bytes of a token (RFC 9110).
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The value of a parameter, if it is short enough for an address, and the text after it.
fn value<'t, 'v>(text: &'t [u8], buffer: &'v mut [u8; MAX_NODE]) -> Option<(Option<&'v [u8]>, &'t [u8])>
where
    't: 'v,
{
    if text.first() != Some(&b'"') {
        let end = text.iter().position(|&byte| byte == b';').unwrap_or(text.len());
        return Some((Some(trim(&text[..end])), &text[end..]));
    }
    let mut length = 0;
    let mut bytes = text.iter().enumerate().skip(1);
    while let Some((i, &byte)) = bytes.next() {
        let byte = match byte {
            b'"' => return Some((buffer.get(..length), &text[i + 1..])),
            b'\\' => *bytes.next()?.1,
            byte => byte,
        };
        if let Some(place) = buffer.get_mut(length) {
            *place = byte;
        }
        length += 1;
    }
    None
}

/// Parses an address with or without a port: IPv6 in brackets or bare, with or without a zone. Quotes around
/// it are ignored.
///
/// IPv4-mapped IPv6 becomes IPv4. Names, `unknown` and other spellings of numbers are malformed.
fn node(text: &[u8]) -> Option<IpAddr> {
    if text.len() > MAX_NODE {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let text = text.strip_prefix('"').map_or(Some(text), |quoted| quoted.strip_suffix('"'))?;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let valid = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return if valid { ipv6(address) } else { None };
    }
    match text.split_once(':') {
        None => ipv4(text),
        Some((address, port)) if !port.contains(':') => is_port(port).then(|| ipv4(address))?,
        Some(_) => ipv6(text),
    }
}

fn ipv4(text: &str) -> Option<IpAddr> {
    text.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

fn ipv6(text: &str) -> Option<IpAddr> {
    // A zone names the interface of the proxy and is no part of the address.
    let address = match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => address,
        Some(_) => return None,
        None => text,
    };
    address.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

/// Whether this is a port: a number, or an obfuscated name (RFC 7239).
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        }
        None => {
            (1..=5).contains(&port.len())
                && port.bytes().all(|byte| byte.is_ascii_digit())
                && port.parse::<u16>().is_ok()
        }
    }
}

#[cfg(test)]
mod tests;
