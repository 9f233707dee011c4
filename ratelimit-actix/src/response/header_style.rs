//! The choice of header fields that report a quota.

/// The header fields that report a quota to the client.
///
/// Several styles can be sent at once, see [`RateLimitConfigBuilder::headers`](crate::RateLimitConfigBuilder::headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` of the tightest limit.
    ///
    /// `Reset` is an instant in Unix seconds, rounded up. If this limit denied the request, the request passes then. If
    /// `Remaining` is 0, one more unit is available then. Otherwise the full quota is back then. A client that waits until
    /// `Reset` passes, if no other request is charged meanwhile.
    LegacyUnix,
    /// The fields of [`LegacyUnix`](Self::LegacyUnix), with `Reset` as a wait in seconds, rounded up.
    LegacyDelta,
    /// Draft 6 of the IETF's fields: `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of the tightest limit, and
    /// `RateLimit-Policy` with all limits. `Reset` is a wait in seconds, rounded up.
    Draft06,
    /// Draft 11 of the IETF's fields: `RateLimit` and `RateLimit-Policy`, each with all limits by name.
    ///
    /// The parameter `t` is the wait of each limit in seconds, rounded up; at most one window while units are left. This is a
    /// draft and not a standard, and may change again.
    ///
    /// The only style that reports the slots of concurrency limits: with the unit `concurrent-requests`, without `t`.
    Draft11,
}

impl HeaderStyle {
    /// Whether the style reports the slots of concurrency limits. The others have no word for them: as a quota without a time, they
    /// would stop clients that may go on.
    pub(crate) const fn tells_slots(self) -> bool {
        matches!(self, Self::Draft11)
    }
}

/// One style, where several may be given: `headers(HeaderStyle::Draft11)`.
impl IntoIterator for HeaderStyle {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}
