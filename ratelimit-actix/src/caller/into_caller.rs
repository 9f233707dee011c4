//! Values that tell callers apart.

use std::borrow::Cow;
use std::net::IpAddr;

use super::value::{Caller, Kind};
use crate::address::Ipv6Prefix;

/// A value that tells callers apart: what a function given as `by = ..` may return.
///
/// | value | caller |
/// |---|---|
/// | `String`, `&str`, `Cow<str>` | the text, byte for byte |
/// | an integer | the number, whatever its type: `7_u8` and `7_i64` are one caller |
/// | [`IpAddr`] | the address: IPv4-mapped IPv6, NAT64 and 6to4 are IPv4, other IPv6 counts by its /64 network |
/// | a tuple of one to six of these | all of them together: `("a:b", "c")` and `("a", "b:c")` are different callers. Without one part there is no caller |
/// | `Option` of these | `None` is no caller: the request is rejected with 400 and not counted, unless `on_missing` says otherwise |
/// | `uuid::Uuid`, with the feature `uuid` | its sixteen bytes |
/// | [`Caller`] | itself; for a function that returns callers of several kinds |
///
/// # Examples
///
/// ```
/// use actix_web::HttpRequest;
/// use ratelimit_actix::{Caller, IntoCaller, caller};
///
/// /// The tenant that the authentication middleware has verified, otherwise the address.
/// fn tenant(req: &HttpRequest) -> Caller {
///     struct Tenant(u64);
///     # use actix_web::HttpMessage;
///     match req.extensions().get::<Tenant>() {
///         Some(tenant) => tenant.0.into_caller(),
///         None => caller::ip(req),
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell callers apart",
    label = "returns `{Self}`",
    note = "a function for `by = ..` returns a `String`, `&str`, integer, `IpAddr`, `ratelimit_actix::Caller`, or a tuple or `Option` of these"
)]
pub trait IntoCaller {
    /// Converts the value.
    fn into_caller(self) -> Caller;
}

impl IntoCaller for Caller {
    fn into_caller(self) -> Caller {
        self
    }
}

impl IntoCaller for &str {
    fn into_caller(self) -> Caller {
        Caller::encode(Kind::Text, self.as_bytes())
    }
}

impl IntoCaller for String {
    fn into_caller(self) -> Caller {
        self.as_str().into_caller()
    }
}

impl IntoCaller for &String {
    fn into_caller(self) -> Caller {
        self.as_str().into_caller()
    }
}

impl IntoCaller for Cow<'_, str> {
    fn into_caller(self) -> Caller {
        (*self).into_caller()
    }
}

impl IntoCaller for IpAddr {
    fn into_caller(self) -> Caller {
        Caller::address(Ipv6Prefix::DEFAULT.group(self))
    }
}

impl<K: IntoCaller> IntoCaller for Option<K> {
    fn into_caller(self) -> Caller {
        self.map_or(Caller(None), K::into_caller)
    }
}

macro_rules! natural {
    ($($integer:ty),*) => {$(
        impl IntoCaller for $integer {
            fn into_caller(self) -> Caller {
                Caller::encode(Kind::Natural, &(self as u128).to_be_bytes())
            }
        }
    )*};
}

macro_rules! signed {
    ($($integer:ty),*) => {$(
        impl IntoCaller for $integer {
            fn into_caller(self) -> Caller {
                // A non-negative number is the same caller in every type.
                match u128::try_from(self) {
                    Ok(natural) => natural.into_caller(),
                    Err(_) => Caller::encode(Kind::Negative, &(self as i128).to_be_bytes()),
                }
            }
        }
    )*};
}

#[allow(
    clippy::cast_lossless,
    clippy::unnecessary_cast,
    reason = "`usize` has no `Into<u128>`, and the macros have one form for all types"
)]
mod integers {
    use super::{Caller, IntoCaller, Kind};

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
        let callers = [
            Caller::global(),
            "".into_caller(),
            "7".into_caller(),
            7_u8.into_caller(),
            (-7_i8).into_caller(),
            0_u8.into_caller(),
            IpAddr::from([0, 0, 0, 7]).into_caller(),
            IpAddr::from(Ipv6Addr::from(7_u128 << 64)).into_caller(),
            "\u{1}\0\0\0\u{7}".into_caller(),
            "0.0.0.7".into_caller(),
        ];
        let partitions: HashSet<_> = callers.iter().map(|caller| caller.partition().unwrap()).collect();
        assert_eq!(partitions.len(), callers.len());
    }

    #[test]
    fn a_number_is_one_caller_in_every_type() {
        assert_eq!(7_u8.into_caller(), 7_i64.into_caller());
        assert_eq!(usize::MAX.into_caller(), (usize::MAX as u128).into_caller());
        assert_eq!((-1_i8).into_caller(), (-1_i128).into_caller());
        assert_ne!((-1_i8).into_caller(), u128::MAX.into_caller());
    }

    #[test]
    fn text_is_one_caller_in_every_type() {
        let long = "x".repeat(10 * INLINE);
        assert_eq!(long.as_str().into_caller(), long.clone().into_caller());
        assert_eq!(Cow::Borrowed("a").into_caller(), "a".into_caller());
        assert_ne!("A".into_caller(), "a".into_caller());
    }

    #[test]
    fn none_is_no_caller() {
        assert_eq!(None::<&str>.into_caller().partition(), None);
        assert_eq!(Some(None::<u8>).into_caller().partition(), None);
        assert_eq!(Some("a").into_caller(), "a".into_caller());
    }

    #[test]
    fn debug_does_not_show_the_caller() {
        assert_eq!(format!("{:?}", "secret".into_caller()), "Caller(..)");
        assert_eq!(format!("{:?}", None::<u8>.into_caller()), "Caller(missing)");
    }

    #[test]
    fn an_address_is_one_caller_in_every_spelling() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(mapped.into_caller(), IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)).into_caller());
    }
}
