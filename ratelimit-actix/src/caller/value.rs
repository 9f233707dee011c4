//! The caller of a request, as bytes that are different for different callers.

use std::fmt;
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::quotas::Partition;

/// Callers up to this many bytes need no allocation; a UUID as text fits.
pub(super) const INLINE: usize = Partition::INLINE;

/// The first byte of a caller. It differs for each kind of value, so that no text passes for an address or a number.
///
/// Counts in a shared store depend on these numbers: new ones may be added, but none may change.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Global = 0,
    Ipv4 = 1,
    Ipv6 = 2,
    Text = 3,
    Natural = 4,
    Negative = 5,
    Anonymous = 6,
    Parts = 7,
    #[cfg(feature = "uuid")]
    Uuid = 8,
    NoAddress = 9,
}

/// What a request is counted for: a value that tells callers apart, or none.
///
/// There is no constructor: [`IntoCaller`](crate::IntoCaller) makes one from a value, and the functions in
/// [`caller`](crate::caller) find one in a request. Two are equal only if they were made from equal values of one kind: the text
/// `"7"` and the number `7` are different callers. Neither `Debug` nor a log shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller(pub(super) Option<SmallVec<[u8; INLINE]>>);

impl Caller {
    /// The same caller for all requests.
    pub(crate) fn global() -> Self {
        Self::encode(Kind::Global, &[])
    }

    /// An address, without grouping by network.
    pub(crate) fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                Self(Some(SmallVec::from_slice(&[Kind::Ipv4 as u8, a, b, c, d])))
            }
            IpAddr::V6(address) => Self::encode(Kind::Ipv6, &address.octets()),
        }
    }

    /// The same caller for all requests without one, under [`OnMissing::Anonymous`](crate::OnMissing::Anonymous).
    pub(crate) fn anonymous() -> Self {
        Self::encode(Kind::Anonymous, &[])
    }

    /// The same caller for all requests without an address.
    pub(crate) fn no_address() -> Self {
        Self::encode(Kind::NoAddress, &[])
    }

    /// Text, also if it is not UTF-8, such as the value of a header field.
    pub(crate) fn text(value: &[u8]) -> Self {
        Self::encode(Kind::Text, value)
    }

    /// No caller.
    pub(crate) const fn missing() -> Self {
        Self(None)
    }

    /// The partition for the store. `None` without a caller.
    pub(crate) fn partition(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    pub(super) fn encode(kind: Kind, value: &[u8]) -> Self {
        let mut bytes = SmallVec::with_capacity(1 + value.len());
        bytes.push(kind as u8);
        bytes.extend_from_slice(value);
        Self(Some(bytes))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Caller(..)" } else { "Caller(missing)" })
    }
}
