//! Parts that `ratelimit-actix` shares with this crate. Not public: any version may change them.

use std::sync::Arc;

pub use crate::limiter::begun::Begun;
pub use crate::limiter::decision::Waiting;
pub use crate::limiter::global::{CountsAlone, limiter_id};
pub use crate::observe::log::{help, is_first};
#[cfg(feature = "overrides")]
pub use crate::overrides::check::{DeclaredLimits, KnownLimit};
pub use crate::overrides::in_force::OverridesStatus;
pub use crate::overrides::shared_table::OverridesGuard;
#[cfg(feature = "calendar")]
pub use crate::policy::calendar::DeclaredZones;
pub use crate::policy::state_kind::{FNV_OFFSET, fnv1a, is_name_byte};
pub use crate::process::OfProcess;
use crate::store::Task;
use crate::{Check, GroupOutcome, InForce, Outcome, Policy, PolicyError, RateLimiter, Settings};
use crate::{SettleError, StoreError, Timestamp};

/// Makes traits of methods that are otherwise private.
macro_rules! private_methods {
    ($($trait:ident of $type:ty { $(fn $method:ident($($argument:ident: $of:ty),*) -> $result:ty;)* })*) => {$(
        /// Methods of a public type for the facade, each as the private one of its name says.
        #[allow(
            missing_docs,
            clippy::missing_errors_doc,
            clippy::return_self_not_must_use,
            reason = "as the private methods say"
        )]
        pub trait $trait: Sized {
            $(fn $method(&self $(, $argument: $of)*) -> $result;)*
        }

        impl $trait for $type {
            $(#[inline]
            fn $method(&self $(, $argument: $of)*) -> $result {
                <$type>::$method(self $(, $argument)*)
            })*
        }
    )*};
}

private_methods! {
    PrivatePolicy of Policy {
        fn with_settings(settings: Settings) -> Result<Self, PolicyError>;
        fn has_moving_windows() -> bool;
        fn largest() -> Self;
        fn state_id() -> u64;
        fn in_both_modes() -> [Self; 2];
    }

    PrivateCheck of Check<'_> {
        fn in_present_windows(at: Timestamp) -> Vec<Self>;
    }

    PrivateLimiter of RateLimiter {
        fn enforces(policy: &Policy) -> bool;
        fn check_all_on_worker(group: &[Check<'_>]) -> impl Future<Output = Result<GroupOutcome, StoreError>>;
        fn begin_on_worker(group: &[Check<'_>]) -> Result<Begun, StoreError>;
        fn end(
            group: &[Check<'_>],
            waiting: &mut Waiting
        ) -> impl Future<Output = Result<GroupOutcome, StoreError>>;
        fn charge_each(checks: &[Check<'_>]) -> impl Future<Output = Vec<Option<Outcome>>>;
        fn spawn(task: Task) -> Result<(), Task>;
        fn overrides_guard() -> OverridesGuard;
        fn overrides_status() -> Option<OverridesStatus>;
        fn builder_policies() -> Vec<Policy>;
    }

    PrivateInForce of InForce<'_> {
        fn shared_policy() -> Arc<Policy>;
        fn replaced() -> Settings;
        fn of_request(plan: Option<&str>, partition: &[u8]) -> Self;
        fn has_plans() -> bool;
        fn is_off_for_all() -> bool;
        fn row_counts() -> (usize, usize);
    }

    PrivateOutcome of Outcome {
        fn available_at() -> Timestamp;
    }
}

/// The outcome of a group, as `GroupOutcome::new` makes it, in which every outcome keeps its own instant.
pub fn decided_apart(outcomes: impl IntoIterator<Item = Outcome>) -> GroupOutcome {
    GroupOutcome::decided_apart(outcomes)
}

/// [`SettleError::TooManyUnits`].
pub const fn too_many_units(units: u64) -> SettleError {
    SettleError::TooManyUnits { units }
}

/// [`SettleError::ConcurrencyLimit`].
pub const fn concurrency_limit(limit: String) -> SettleError {
    SettleError::ConcurrencyLimit { limit }
}

/// What the wall clock shows now.
pub fn wall_clock() -> Timestamp {
    crate::clock::wall_clock()
}

/// Whether windows of a calendar can begin on its days.
#[cfg(feature = "calendar")]
pub const fn has_anchor(calendar: &crate::policy::Calendar) -> bool {
    calendar.has_anchor()
}
