//! The same names without the feature `overrides`: no request has overrides, and the compiler knows it.

use std::sync::Arc;

use actix_web::HttpRequest;
use ratelimit_core::{Policy, PolicyError, RateLimiter};

/// Does not exist.
pub(crate) enum LimitRows {}

/// Does not exist.
pub(crate) enum EffectiveRow {}

pub(crate) struct RequestOverrides;

pub(crate) const fn expect_pins() {}

#[allow(clippy::unused_self, reason = "as with the feature")]
impl RequestOverrides {
    pub(crate) const fn newest(_: &HttpRequest, _: &RateLimiter) -> Self {
        Self
    }

    pub(crate) const fn for_waiting(_: &HttpRequest, _: &RateLimiter) -> Self {
        Self
    }

    pub(crate) const fn pin(_: &HttpRequest, _: &RateLimiter) -> Self {
        Self
    }

    pub(crate) const fn limit(&self, _: &Policy) -> Option<&LimitRows> {
        None
    }
}

impl LimitRows {
    pub(crate) const fn limit(&self) -> &EffectiveRow {
        match *self {}
    }

    pub(crate) const fn row(&self, _: Option<&str>, _: Option<&[u8]>) -> &EffectiveRow {
        match *self {}
    }

    pub(crate) const fn has_plans(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn is_off_for_all(&self) -> bool {
        match *self {}
    }
}

impl EffectiveRow {
    pub(crate) const fn policy(&self) -> &Arc<Policy> {
        match *self {}
    }

    pub(crate) const fn is_off(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn is_shadow(&self) -> bool {
        match *self {}
    }

    pub(crate) const fn sets_max(&self) -> bool {
        match *self {}
    }

    pub(crate) fn apply(&self, _: &Policy) -> Result<Policy, PolicyError> {
        match *self {}
    }
}
