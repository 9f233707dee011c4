//! The caller of a request, as bytes that are different for different callers.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::address::Ipv6Prefix;

/// The bytes by which stores distinguish callers; `Debug` hides them from logs. Up to 39 need no allocation:
/// a UUID as text fits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Partition(pub(super) SmallVec<[u8; 39]>);

impl Deref for Partition {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Partition {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// The first byte of a caller. It differs for each kind of value, so that no text passes for an address or a
/// number.
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

/// What a request is counted for: a value that distinguishes callers, or none.
///
/// There is no constructor: [`IntoCaller`](crate::IntoCaller) makes one from a value, and the functions in
/// [`caller`](crate::caller) find one in a request. Two are equal only if they were made from equal values of
/// one kind: the text `"7"` and the number `7` are different callers. Neither `Debug` nor a log shows the
/// value.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller(pub(super) Option<Partition>);

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
                Self(Some(Partition(SmallVec::from_slice(&[Kind::Ipv4 as u8, a, b, c, d]))))
            }
            IpAddr::V6(address) => Self::encode(Kind::Ipv6, &address.octets()),
        }
    }

    /// The same caller for all requests without one, under
    /// [`OnMissing::Anonymous`](crate::OnMissing::Anonymous).
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

    /// All of `parts` together. No caller if one part is missing.
    ///
    /// Each part follows its length, so that different lists of parts are different bytes.
    pub(crate) fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::encode(Kind::Parts, &[]);
        for part in parts {
            let (Some(Partition(bytes)), Some(part)) = (&mut joined.0, &part.0) else {
                return Self::missing();
            };
            let mut rest = part.len();
            // Seven bits per byte, the lowest first. The last byte has no top bit.
            while rest >= 0x80 {
                bytes.push(0x80 | low_bits(rest));
                rest >>= 7;
            }
            bytes.push(low_bits(rest));
            bytes.extend_from_slice(part);
        }
        joined
    }

    /// Whether this is one of `known`, or has such a part.
    pub(crate) fn holds_one_of(&self, known: &[Self]) -> bool {
        self.partition().is_some_and(|partition| holds_one_of(partition, known))
    }

    pub(super) fn encode(kind: Kind, value: &[u8]) -> Self {
        let mut bytes = SmallVec::with_capacity(1 + value.len());
        bytes.push(kind as u8);
        bytes.extend_from_slice(value);
        Self(Some(Partition(bytes)))
    }
}

fn holds_one_of(partition: &[u8], known: &[Caller]) -> bool {
    let Some((kind, mut rest)) = partition.split_first() else { return false };
    if known.iter().any(|known| known.partition() == Some(partition)) {
        return true;
    }
    while *kind == Kind::Parts as u8
        && let Some((part, after)) = split_part(rest)
    {
        if holds_one_of(part, known) {
            return true;
        }
        rest = after;
    }
    false
}

/// The first of several parts, and the others. `None` without one.
pub(super) fn split_part(mut rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut shift) = (0_usize, 0_u32);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length);
        }
    }
}

/// The lowest seven bits.
#[allow(clippy::cast_possible_truncation, reason = "seven bits fit into a byte")]
const fn low_bits(number: usize) -> u8 {
    (number & 0x7f) as u8
}

/// The bytes by which attributes and middleware count the caller, for checks of your own: a check with the
/// same policy shares their count. Of an address they are its network.
///
/// Without a caller they are those of the one caller that [`OnMissing::Anonymous`] counts.
///
/// ```
/// use std::time::Duration;
///
/// use actix_web::HttpRequest;
/// use ratelimit_actix::{Policy, RateLimiter, StoreError, caller};
///
/// static MAILS: Policy = Policy::new("mails", 10, Duration::from_secs(60));
///
/// async fn may_send(req: &HttpRequest, limiter: &RateLimiter) -> Result<bool, StoreError> {
///     Ok(limiter.check(&MAILS, caller::ip(req)).await?.is_allowed())
/// }
/// ```
impl AsRef<[u8]> for Caller {
    fn as_ref(&self) -> &[u8] {
        const ANONYMOUS: &[u8] = &[Kind::Anonymous as u8];
        self.partition().unwrap_or(ANONYMOUS)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Caller(..)" } else { "Caller(missing)" })
    }
}

/// A request has no caller, and the limit requires one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingCallerError;

/// What to do with a request for which a limit finds no caller, such as one without the header field that
/// `by` reads.
///
/// A limit by address always finds a caller: all requests without an address are the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// Rejects the request with 400. It is charged to no limit.
    #[default]
    Reject,
    /// Does not apply this limit to the request.
    Skip,
    /// Counts all such requests as one caller.
    Anonymous,
}

impl OnMissing {
    /// The caller to count. `None` if the limit does not apply to the request.
    #[inline]
    pub(crate) fn resolve(self, caller: Caller) -> Result<Option<Partition>, MissingCallerError> {
        match (caller, self) {
            (Caller(Some(partition)), _) => Ok(Some(partition)),
            (Caller(None), Self::Reject) => Err(MissingCallerError),
            (Caller(None), Self::Skip) => Ok(None),
            (Caller(None), Self::Anonymous) => Ok(Caller::anonymous().0),
        }
    }
}

/// A value that distinguishes callers: what the function of `by = ..` may return.
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
    message = "`{Self}` does not distinguish callers",
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

macro_rules! texts {
    ($($text:ty),*) => {$(
        impl IntoCaller for $text {
            fn into_caller(self) -> Caller {
                Caller::text(self.as_bytes())
            }
        }
    )*};
}

texts!(&str, String, &String, Cow<'_, str>);

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

macro_rules! tuple {
    ($($name:ident)+) => {
        impl<$($name: IntoCaller),+> IntoCaller for ($($name,)+) {
            fn into_caller(self) -> Caller {
                #[allow(non_snake_case, reason = "the values are named after their types")]
                let ($($name,)+) = self;
                Caller::join([$($name.into_caller()),+])
            }
        }
    };
}

tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);

#[cfg(feature = "uuid")]
impl IntoCaller for uuid::Uuid {
    fn into_caller(self) -> Caller {
        Caller::encode(Kind::Uuid, self.as_bytes())
    }
}

#[cfg(test)]
mod tests;
