//! The version of the overrides that a request sees. Middleware pins it to the request, so that the handler sees the same.

use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::{HttpMessage, HttpRequest};
pub(crate) use ratelimit_core::__private_0_1::{EffectiveRow, LimitRows};
use ratelimit_core::__private_0_1::{OverridesGuard, Snapshot};
use ratelimit_core::{Policy, RateLimiter};
use smallvec::SmallVec;

/// Whether there is middleware that pins versions. Otherwise no request has one.
static HAS_PINS: AtomicBool = AtomicBool::new(false);

/// Tells handlers that middleware may have pinned a version.
pub(crate) fn expect_pins() {
    HAS_PINS.store(true, Ordering::Relaxed);
}

/// The overrides of one version.
pub(crate) enum RequestOverrides {
    /// The limiter has never had overrides.
    None,
    /// Those that are in force, for a decision that is made at once.
    Newest(OverridesGuard),
    /// Those that the request is pinned to.
    Pinned(Snapshot),
}

/// An extension of the request: the versions that it has seen, one for each limiter.
struct PinnedVersions(SmallVec<[Snapshot; 1]>);

impl RequestOverrides {
    /// For a decision that is made at once. One relaxed load if the limiter has no overrides.
    #[inline]
    pub(crate) fn newest(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(guard) = limiter.overrides_guard() else { return Self::None };
        match pinned(req, limiter) {
            Some(snapshot) => Self::Pinned(snapshot),
            None => Self::Newest(guard),
        }
    }

    /// For a decision that waits for values of the request.
    pub(crate) fn for_waiting(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(snapshot) = limiter.overrides_snapshot() else { return Self::None };
        Self::Pinned(pinned(req, limiter).unwrap_or(snapshot))
    }

    /// For middleware: the services inside see the same version.
    pub(crate) fn pin(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(snapshot) = limiter.overrides_snapshot() else { return Self::None };
        if let Some(pinned) = pinned(req, limiter) {
            return Self::Pinned(pinned);
        }
        let mut extensions = req.extensions_mut();
        match extensions.get_mut::<PinnedVersions>() {
            Some(PinnedVersions(snapshots)) => snapshots.push(snapshot.clone()),
            None => drop(extensions.insert(PinnedVersions(SmallVec::from_iter([snapshot.clone()])))),
        }
        Self::Pinned(snapshot)
    }

    /// The overrides of a policy of the program.
    #[inline]
    pub(crate) fn limit(&self, policy: &Policy) -> Option<&LimitRows> {
        match self {
            Self::None => None,
            Self::Newest(guard) => guard.limit(policy),
            Self::Pinned(snapshot) => snapshot.limit(policy),
        }
    }
}

/// The version that middleware has pinned.
fn pinned(req: &HttpRequest, limiter: &RateLimiter) -> Option<Snapshot> {
    if !HAS_PINS.load(Ordering::Relaxed) {
        return None;
    }
    let extensions = req.extensions();
    let PinnedVersions(snapshots) = extensions.get::<PinnedVersions>()?;
    snapshots.iter().find(|snapshot| limiter.owns_snapshot(snapshot)).cloned()
}
