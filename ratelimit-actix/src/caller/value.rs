//! The caller of a request, as bytes that are different for different callers.

use std::fmt;
use std::net::IpAddr;

use smallvec::SmallVec;

/// Keys up to this many bytes need no allocation; a UUID in text is one of them.
pub(super) const INLINE: usize = 40;

/// Each kind of key begins with a byte of its own, so that no text can pass for an address or a number.
///
/// Counts in a shared store depend on these: they may be added to, but not changed.
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

/// Whom a request is counted for, or nobody.
///
/// Made by [`IntoCaller`]. Two keys are equal only when they were made from equal values of one kind: the text `"7"` and
/// the number `7` are different callers. Neither `Debug` nor a log shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller(pub(super) Option<SmallVec<[u8; INLINE]>>);

impl Caller {
    /// The one caller that everybody is.
    pub(crate) fn global() -> Self {
        Self::encode(Kind::Global, &[])
    }

    /// An address, as it stands.
    pub(crate) fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                Self(Some(SmallVec::from_slice(&[Kind::Ipv4 as u8, a, b, c, d])))
            }
            IpAddr::V6(address) => Self::encode(Kind::Ipv6, &address.octets()),
        }
    }

    /// The one caller that all requests without a caller are, where a limit says so.
    pub(crate) fn anonymous() -> Self {
        Self::encode(Kind::Anonymous, &[])
    }

    /// The one caller that all requests without an address are.
    pub(crate) fn no_address() -> Self {
        Self::encode(Kind::NoAddress, &[])
    }

    /// Text that need not be UTF-8, such as a header's value.
    pub(crate) fn text(value: &[u8]) -> Self {
        Self::encode(Kind::Text, value)
    }

    /// Nobody.
    pub(crate) const fn missing() -> Self {
        Self(None)
    }

    /// Whether there is no caller.
    pub(crate) const fn is_missing(&self) -> bool {
        self.0.is_none()
    }

    /// What the store is told; `None` for nobody.
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
        f.write_str(if self.0.is_some() { "Caller(..)" } else { "Caller(nobody)" })
    }
}
