//! The version of the overrides that a request sees. Middleware keeps it in the request, so that the handler sees the same.

use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::{HttpMessage, HttpRequest};
pub(crate) use ratelimit_core::__private_0_1::{LimitRules, Rule};
use ratelimit_core::__private_0_1::{OverridesGuard, Snapshot};
use ratelimit_core::{Policy, RateLimiter};
use smallvec::SmallVec;

/// Whether there is middleware that keeps versions. Otherwise no request has one.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Tells handlers that middleware may have kept a version.
pub(crate) fn keep_versions() {
    KEEPS.store(true, Ordering::Relaxed);
}

/// The overrides of one version.
pub(crate) enum RequestOverrides {
    /// The limiter has never had any.
    None,
    /// Those that are in force, for a decision that is made at once.
    Now(OverridesGuard),
    /// Those that the request keeps.
    Held(Snapshot),
}

/// An extension of the request: the versions that it has seen, one for each limiter.
struct Kept(SmallVec<[Snapshot; 1]>);

impl RequestOverrides {
    /// For a decision that is made at once. One relaxed load if the limiter has no overrides.
    #[inline]
    pub(crate) fn of(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(guard) = limiter.overrides_guard() else { return Self::None };
        match found(req, limiter) {
            Some(snapshot) => Self::Held(snapshot),
            None => Self::Now(guard),
        }
    }

    /// For a decision that waits for values of the request.
    pub(crate) fn held(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(snapshot) = limiter.overrides_snapshot() else { return Self::None };
        Self::Held(found(req, limiter).unwrap_or(snapshot))
    }

    /// For middleware: the services inside see the same version.
    pub(crate) fn kept(req: &HttpRequest, limiter: &RateLimiter) -> Self {
        let Some(snapshot) = limiter.overrides_snapshot() else { return Self::None };
        if let Some(found) = found(req, limiter) {
            return Self::Held(found);
        }
        let mut extensions = req.extensions_mut();
        match extensions.get_mut::<Kept>() {
            Some(Kept(snapshots)) => snapshots.push(snapshot.clone()),
            None => drop(extensions.insert(Kept(SmallVec::from_iter([snapshot.clone()])))),
        }
        Self::Held(snapshot)
    }

    /// The overrides of a policy of the program.
    #[inline]
    pub(crate) fn limit(&self, policy: &Policy) -> Option<&LimitRules> {
        match self {
            Self::None => None,
            Self::Now(guard) => guard.limit(policy),
            Self::Held(snapshot) => snapshot.limit(policy),
        }
    }
}

/// The version that middleware has kept.
fn found(req: &HttpRequest, limiter: &RateLimiter) -> Option<Snapshot> {
    if !KEEPS.load(Ordering::Relaxed) {
        return None;
    }
    let extensions = req.extensions();
    let Kept(snapshots) = extensions.get::<Kept>()?;
    snapshots.iter().find(|snapshot| limiter.owns_snapshot(snapshot)).cloned()
}
