//! Values that tell callers apart.

use std::borrow::Cow;
use std::net::IpAddr;

use super::value::{Key, Kind};
use crate::address::Ipv6Prefix;

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

    use super::super::value::INLINE;
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
