//! The numbers by which a limit is decided, and where they come from.

use std::time::Duration;

use ratelimit_core::{Mode, Policy};
use serde::Serialize;

use crate::handler::registry::DeclaredLimit;

/// The numbers of one limit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct InForce {
    /// Where the numbers come from.
    pub(super) source: Source,
    /// `None` if it is computed for each request.
    pub(super) max: Option<u64>,
    /// Length of the window, in microseconds.
    pub(super) window_us: u64,
    /// Units that a full token bucket holds, if they differ from `max`.
    pub(super) burst: Option<u64>,
    /// Time for which the first denial blocks a caller, in microseconds.
    pub(super) block_us: Option<u64>,
    pub(super) algorithm: &'static str,
    pub(super) mode: &'static str,
    pub(super) on_error: &'static str,
    pub(super) key: String,
    /// `None` for a limit without an attribute.
    pub(super) place: Option<Place>,
}

/// Where the numbers of a limit come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// The arguments of the attribute, or the policy that it names.
    Attribute,
    /// A policy that middleware or other code uses.
    Policy,
}

impl Source {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::Policy => "policy",
        }
    }
}

/// The attribute in the source.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Place {
    pub(super) handler: &'static str,
    pub(super) module: &'static str,
    pub(super) file: &'static str,
    pub(super) line: u32,
    pub(super) by: &'static str,
    pub(super) count: &'static str,
    /// `None` if it is computed for each request.
    pub(super) cost: Option<u64>,
}

impl InForce {
    /// The numbers of a limit that an attribute declares. The one place that decides about it.
    pub(super) fn declared(limit: &DeclaredLimit, is_shadow: bool) -> Self {
        let place = Place {
            handler: limit.handler(),
            module: limit.module(),
            file: limit.file(),
            line: limit.line(),
            by: limit.by(),
            count: limit.count(),
            cost: limit.cost(),
        };
        let mut numbers = Self::of(limit.policy(), Source::Attribute, is_shadow);
        if limit.max().is_none() {
            (numbers.max, numbers.burst) = (None, None);
        }
        Self { place: Some(place), ..numbers }
    }

    /// The numbers of a limit without an attribute.
    pub(super) fn policy(policy: &Policy, is_shadow: bool) -> Self {
        Self::of(policy, Source::Policy, is_shadow)
    }

    fn of(policy: &Policy, source: Source, is_shadow: bool) -> Self {
        let mode = if is_shadow { Mode::Shadow } else { policy.mode() };
        Self {
            source,
            max: Some(policy.max()),
            window_us: micros(policy.window()),
            burst: (policy.capacity() != policy.max()).then(|| policy.capacity()),
            block_us: policy.block().map(micros),
            algorithm: policy.algorithm().as_str(),
            mode: mode.as_str(),
            on_error: policy.on_error().as_str(),
            key: policy.key().to_owned(),
            place: None,
        }
    }
}

/// Whole microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
