//! Checks: a policy, the caller (partition), the cost, and a window of a calendar; and digests of them.

#[cfg(feature = "redis")]
use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "redis")]
use std::hash::Hasher;
use std::hash::{BuildHasher, RandomState};

#[cfg(feature = "redis")]
use siphasher::sip128::Hasher128;
use siphasher::sip128::SipHasher13;

use crate::clock::Timestamp;
use crate::policy::{Mode, OnError, Policy, WindowSpan, labelled};

/// Largest number of limits in one group: 64.
pub const MAX_GROUP: usize = 64;

/// One check of a group: a policy, the caller (partition) and the cost.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    policy: &'a Policy,
    partition: &'a [u8],
    cost: u64,
    shadow: bool,
    uncharged: bool,
    /// The one window whose count this is about. Without it, that of the instant of the decision.
    pub(crate) window: Option<WindowSpan>,
}

impl<'a> Check<'a> {
    /// Checks one unit of `policy` for the caller `partition`.
    pub fn new(policy: &'a Policy, partition: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        let shadow = policy.mode() == Mode::Shadow;
        Self { policy, partition: partition.as_ref(), cost: 1, shadow, uncharged: false, window: None }
    }

    /// Sets the cost in units, by default 1. A cost of 0 is decided and charges nothing; a cost above the
    /// limit never passes.
    #[must_use]
    #[inline]
    pub const fn with_cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Makes it a look: the cost has to fit for the group to pass, and is not charged. Apart from that it is
    /// a check: a denial begins the [block](Policy::block) of the policy.
    ///
    /// For a limit that is charged when more is known, such as whether a request has failed: the charge is a
    /// check of its own. A store that takes a round trip charges the rest of the group at the same time,
    /// and refunds it if only a look denies: a future that is dropped meanwhile, or a refund that fails, may
    /// leave the rest charged.
    ///
    /// Only [`check_all`](crate::RateLimiter::check_all) and
    /// [`try_check_all`](crate::RateLimiter::try_check_all) know looks; other calls take them for checks.
    #[must_use]
    #[inline]
    pub const fn uncharged(mut self) -> Self {
        self.uncharged = true;
        self
    }

    /// The same check of another policy with the same windows, such as the part of a process.
    pub(crate) const fn with_policy<'p>(self, policy: &'p Policy) -> Check<'p>
    where
        'a: 'p,
    {
        Check { policy, ..self }
    }

    /// The same check of no caller, which takes no allocation to own.
    #[cfg(feature = "redis")]
    pub(crate) const fn without_caller(self) -> Self {
        Self { partition: &[], ..self }
    }

    /// Policy of the check: the limit, its window, and the algorithm by which units are counted.
    pub const fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// Bytes that identify the caller; any bytes will do. Stores keep a digest of them, never the bytes
    /// themselves.
    pub const fn partition(&self) -> &'a [u8] {
        self.partition
    }

    /// Cost in units.
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// Whether the limit only reports what it would deny: its policy has [`Mode::Shadow`], or the limiter was
    /// built with [`shadow(true)`](crate::RateLimiterBuilder::shadow).
    #[inline]
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether the check is charged nothing; see [`uncharged`](Self::uncharged).
    #[inline]
    pub const fn is_uncharged(&self) -> bool {
        self.uncharged
    }

    /// What decides during an outage of the store. A shadow limit fails open.
    pub(crate) fn on_error(&self) -> OnError {
        if self.shadow { OnError::Allow } else { self.policy.on_error() }
    }

    /// Makes it a check of a shadow limit if `all` are.
    #[must_use]
    #[inline]
    pub(crate) const fn in_shadow_if(mut self, all: bool) -> Self {
        self.shadow |= all;
        self
    }

    /// Whether requests may wait for a turn: under an enforced token bucket. The counts of other algorithms
    /// have no instant of the future at which one request may start.
    pub(crate) const fn has_turns(&self) -> bool {
        !self.shadow && self.policy.algorithm().has_burst()
    }

    /// Whether both checks count in the same state, each at its own instant of the store.
    pub(crate) fn shares_count_with(&self, at: Timestamp, (other, other_at): (&Self, Timestamp)) -> bool {
        self.state_id_at(at) == other.state_id_at(other_at) && self.partition == other.partition
    }

    /// The window in which it counts at an instant in microseconds; `None` if its windows are of one length,
    /// and have no counts of their own.
    #[inline]
    pub(crate) fn window_at(&self, at: u64) -> Option<WindowSpan> {
        let calendar = self.policy.calendar()?;
        Some(self.window.unwrap_or_else(|| calendar.window_at(at)))
    }

    /// The same check in the window of an instant, whenever it is decided: as the window lies on a clock that
    /// is so many microseconds ahead.
    pub(crate) fn in_window(self, at: Timestamp, ahead_us: i64) -> Self {
        let window = self.window_at(at.as_micros()).map(|window| window.on_clock_ahead(ahead_us));
        Self { window, ..self }
    }

    /// The same check in each window that may be present at an instant, the last one first: for a look at the
    /// counts of a caller whose anchor is not known. The check itself, if it names a window, or windows do
    /// not move.
    pub(crate) fn in_present_windows(&self, at: Timestamp) -> Vec<Self> {
        let moving = self.policy.calendar().filter(|calendar| self.window.is_none() && calendar.moves());
        let Some(calendar) = moving else { return vec![*self] };
        let windows = calendar.windows_by_any_anchor(at.as_micros());
        windows.map(|window| Self { window: Some(window), ..*self }).into()
    }

    /// Fingerprint of the count of an instant: the same for policies that count together then.
    #[inline]
    pub(crate) fn state_id_at(&self, at: Timestamp) -> u64 {
        let state_id = self.policy.state_id();
        self.window_at(at.as_micros()).map_or(state_id, |window| labelled(state_id, window.label))
    }

    /// Digest of the state in which this check counts at an instant of the store: the same for checks that
    /// share a state, whatever their `max` and cost. Only under a calendar the instant matters: each of its
    /// windows has a state of its own.
    ///
    /// The digest is keyed (`SipHash`-1-3, 128 bits), so a client that does not know the key cannot choose
    /// partitions that collide. Only the partition is hashed; the policy's fingerprint is joined by exclusive
    /// or. So the digests of one partition differ whenever the fingerprints do, and those of two partitions
    /// collide as rarely as random numbers.
    pub fn digest(&self, key: &[u8; 16], at: Timestamp) -> u128 {
        let policy = u128::from(self.state_id_at(at));
        let caller: u128 = keyed(key).hash(self.partition).into();
        caller ^ (policy << 64 | policy)
    }

    /// The same for a check whose window is named, if it has one.
    #[cfg(feature = "redis")]
    pub(crate) fn digest_in_window(&self, key: &[u8; 16]) -> u128 {
        debug_assert_eq!(self.window.is_some(), self.policy.calendar().is_some(), "a calendar has a window");
        self.digest(key, Timestamp::default())
    }
}

#[allow(clippy::cast_possible_truncation, reason = "two halves")]
pub(crate) fn keyed(key: &[u8; 16]) -> SipHasher13 {
    let key = u128::from_le_bytes(*key);
    SipHasher13::new_with_keys(key as u64, (key >> 64) as u64)
}

/// Creates a random key for [`Check::digest`].
pub(crate) fn random_key() -> [u8; 16] {
    let mut key = [0; 16];
    for half in key.chunks_exact_mut(8) {
        // The standard library's own source of random keys for hash tables.
        half.copy_from_slice(&RandomState::new().hash_one(0u8).to_le_bytes());
    }
    key
}

/// Digest of a whole group: its states, limits, blocks, windows, modes and costs, in their order.
#[cfg(feature = "redis")]
pub(crate) fn group_digest(group: &[Check<'_>], key: &[u8; 16]) -> u128 {
    let mut hasher = keyed(key);
    for check in group {
        hasher.write_u64(check.state_id_at(Timestamp::default()));
        hasher.write_u64(check.policy.max());
        hasher.write_u64(check.policy.block_us());
        hasher.write_u64(check.window.map_or(0, |window| window.before));
        hasher.write_u8(check.shadow.into());
        hasher.write_u64(check.cost);
        hasher.write_usize(check.partition.len());
        hasher.write(check.partition);
    }
    hasher.finish128().as_u128()
}

/// A group in the windows of an instant, if some of its limits have windows of a calendar.
#[cfg(feature = "redis")]
pub(crate) fn in_windows<'g, 'a>(group: &'g [Check<'a>], at: Option<Timestamp>) -> Cow<'g, [Check<'a>]> {
    match at {
        Some(at) => group.iter().map(|check| check.in_window(at, 0)).collect(),
        None => Cow::Borrowed(group),
    }
}

/// A check with a policy and a partition of its own.
#[derive(Clone)]
pub(crate) struct OwnedCheck {
    pub(crate) policy: Policy,
    partition: Box<[u8]>,
    cost: u64,
    pub(crate) window: Option<WindowSpan>,
}

impl OwnedCheck {
    pub(crate) fn new(check: &Check<'_>) -> Self {
        let Check { policy, partition, cost, window, .. } = *check;
        Self { policy: policy.clone(), partition: partition.into(), cost, window }
    }

    pub(crate) fn check(&self) -> Check<'_> {
        let Self { ref policy, ref partition, cost, window } = *self;
        Check { cost, window, ..Check::new(policy, partition) }
    }
}

impl fmt::Debug for OwnedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check().fmt(f)
    }
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the partition: it may be an address or a name, and the text may be logged.
        f.debug_struct("Check")
            .field("policy", &self.policy.key())
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}
