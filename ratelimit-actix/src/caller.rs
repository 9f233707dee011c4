//! Whose count a request is charged to: a value that a key function found, as bytes.

pub(crate) mod client_ip;
mod composite;
pub(crate) mod path_param;
pub(crate) mod principal;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use smallvec::SmallVec;

use crate::caller::client_ip::Ipv6Prefix;

/// Keys up to this many bytes need no allocation; a UUID in text is one of them.
const INLINE: usize = 40;

/// Each kind of key begins with a byte of its own, so that no text can pass for an address or a number.
///
/// Counts in a shared store depend on these: they may be added to, but not changed.
#[derive(Clone, Copy)]
enum Kind {
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
/// Made by [`IntoKey`]. Two keys are equal only when they were made from equal values of one kind: the text `"7"` and
/// the number `7` are different callers. Neither `Debug` nor a log shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Option<SmallVec<[u8; INLINE]>>);

impl Key {
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
    pub(crate) const fn nobody() -> Self {
        Self(None)
    }

    /// Whether there is no caller.
    pub(crate) const fn is_nobody(&self) -> bool {
        self.0.is_none()
    }

    /// What the store is told; `None` for nobody.
    pub(crate) fn partition(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    fn encode(kind: Kind, value: &[u8]) -> Self {
        let mut bytes = SmallVec::with_capacity(1 + value.len());
        bytes.push(kind as u8);
        bytes.extend_from_slice(value);
        Self(Some(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Key(..)" } else { "Key(nobody)" })
    }
}

/// What a function given as `by = ..` may return: something that tells callers apart.
///
/// | value | counted for |
/// |---|---|
/// | `String`, `&str`, `Cow<str>` | the text, byte for byte |
/// | an integer | the number, whatever its type: `7_u8` and `7_i64` are one caller |
/// | [`IpAddr`] | the address: IPv4-mapped IPv6, NAT64 and 6to4 are IPv4, other IPv6 counts by its /64 network |
/// | a tuple of these, of up to six | all of them together: `("a:b", "c")` and `("a", "b:c")` are different callers. If one is nobody, all is |
/// | `Option` of these | `None` is nobody: the request is answered with 400 and not counted, unless `on_missing` says otherwise |
/// | `uuid::Uuid`, with the feature `uuid` | its sixteen bytes |
/// | [`Key`] | what it was made from; for a function that has keys of several kinds |
///
/// # Examples
///
/// ```
/// use actix_web::HttpRequest;
/// use ratelimit_actix::{IntoKey, Key, client_key};
///
/// /// The tenant that the authentication middleware has verified, otherwise the address.
/// fn tenant(req: &HttpRequest) -> Key {
///     struct Tenant(u64);
///     # use actix_web::HttpMessage;
///     match req.extensions().get::<Tenant>() {
///         Some(tenant) => tenant.0.into_key(),
///         None => client_key(req),
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell callers apart",
    label = "returns `{Self}`",
    note = "a function for `by = ..` returns a `String`, `&str`, integer, `IpAddr`, `ratelimit_actix::Key`, or a tuple or `Option` of these"
)]
pub trait IntoKey {
    /// The key for this value.
    fn into_key(self) -> Key;
}

impl IntoKey for Key {
    fn into_key(self) -> Key {
        self
    }
}

impl IntoKey for &str {
    fn into_key(self) -> Key {
        Key::encode(Kind::Text, self.as_bytes())
    }
}

impl IntoKey for String {
    fn into_key(self) -> Key {
        self.as_str().into_key()
    }
}

impl IntoKey for &String {
    fn into_key(self) -> Key {
        self.as_str().into_key()
    }
}

impl IntoKey for Cow<'_, str> {
    fn into_key(self) -> Key {
        (*self).into_key()
    }
}

impl IntoKey for IpAddr {
    fn into_key(self) -> Key {
        Key::address(Ipv6Prefix::DEFAULT.group(self))
    }
}

impl<K: IntoKey> IntoKey for Option<K> {
    fn into_key(self) -> Key {
        self.map_or(Key(None), K::into_key)
    }
}

macro_rules! natural {
    ($($integer:ty),*) => {$(
        impl IntoKey for $integer {
            fn into_key(self) -> Key {
                Key::encode(Kind::Natural, &(self as u128).to_be_bytes())
            }
        }
    )*};
}

macro_rules! signed {
    ($($integer:ty),*) => {$(
        impl IntoKey for $integer {
            fn into_key(self) -> Key {
                // A number that is not negative is the same caller whatever its type.
                match u128::try_from(self) {
                    Ok(natural) => natural.into_key(),
                    Err(_) => Key::encode(Kind::Negative, &(self as i128).to_be_bytes()),
                }
            }
        }
    )*};
}

#[allow(
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    reason = "`usize` has no `Into<u128>`; one spelling for all"
)]
mod integers {
    use super::{IntoKey, Key, Kind};

    natural!(u8, u16, u32, u64, u128, usize);
    signed!(i8, i16, i32, i64, i128, isize);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn values_of_different_kinds_are_different_callers() {
        let keys = [
            Key::global(),
            "".into_key(),
            "7".into_key(),
            7_u8.into_key(),
            (-7_i8).into_key(),
            0_u8.into_key(),
            IpAddr::from([0, 0, 0, 7]).into_key(),
            IpAddr::from(Ipv6Addr::from(7_u128 << 64)).into_key(),
            "\u{1}\0\0\0\u{7}".into_key(),
            "0.0.0.7".into_key(),
        ];
        let partitions: HashSet<_> = keys.iter().map(|key| key.partition().unwrap()).collect();
        assert_eq!(partitions.len(), keys.len());
    }

    #[test]
    fn a_number_is_one_caller_whatever_its_type() {
        assert_eq!(7_u8.into_key(), 7_i64.into_key());
        assert_eq!(usize::MAX.into_key(), (usize::MAX as u128).into_key());
        assert_eq!((-1_i8).into_key(), (-1_i128).into_key());
        assert_ne!((-1_i8).into_key(), u128::MAX.into_key());
    }

    #[test]
    fn text_is_one_caller_whatever_owns_it() {
        let long = "x".repeat(10 * INLINE);
        assert_eq!(long.as_str().into_key(), long.clone().into_key());
        assert_eq!(Cow::Borrowed("a").into_key(), "a".into_key());
        assert_ne!("A".into_key(), "a".into_key());
    }

    #[test]
    fn nothing_is_nobody() {
        assert_eq!(None::<&str>.into_key().partition(), None);
        assert_eq!(Some(None::<u8>).into_key().partition(), None);
        assert_eq!(Some("a").into_key(), "a".into_key());
    }

    #[test]
    fn debug_does_not_show_the_caller() {
        assert_eq!(format!("{:?}", "secret".into_key()), "Key(..)");
        assert_eq!(format!("{:?}", None::<u8>.into_key()), "Key(nobody)");
    }

    #[test]
    fn an_address_is_its_bytes_and_not_its_spelling() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(mapped.into_key(), IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)).into_key());
    }
}
