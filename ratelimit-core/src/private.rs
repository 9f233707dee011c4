//! Parts that `ratelimit-actix` shares with this crate. Not public: any version may change them.

pub use crate::limiter::global::{CountsAlone, limiter_id};
pub use crate::observe::log::{help, is_first};
pub use crate::overrides::OverridesGuard;
#[cfg(feature = "overrides")]
pub use crate::overrides::check::{DeclaredLimits, KnownLimit};
#[cfg(feature = "calendar")]
pub use crate::policy::calendar::DeclaredZones;
pub use crate::policy::state_kind::{FNV_OFFSET, fnv1a, is_name_byte};
pub use crate::process::OfProcess;
use crate::store::Task;
use crate::{Check, GroupOutcome, Outcome, RateLimiter, Timestamp};

/// The outcome of a group, as `GroupOutcome::new` makes it, in which every outcome keeps its own instant.
pub fn decided_apart(outcomes: impl IntoIterator<Item = Outcome>) -> GroupOutcome {
    GroupOutcome::decided_apart(outcomes)
}

/// Has the store of a limiter run a settlement for which nothing waits, as
/// [`Store::spawn`](crate::store::Store::spawn) says.
///
/// # Errors
///
/// The task, unless it has ended or the store runs it.
pub fn spawn(limiter: &RateLimiter, task: Task) -> Result<(), Task> {
    limiter.spawn(task)
}

/// Charges each check by itself, on a worker as `RateLimiter::check_all_on_worker` does: after the response
/// to a request that was looked at. `None` if that failed, which is logged.
pub async fn charge_each(limiter: &RateLimiter, checks: &[Check<'_>]) -> Vec<Option<Outcome>> {
    limiter.charge_each(checks).await
}

/// What the wall clock shows now.
pub fn wall_clock() -> Timestamp {
    crate::clock::wall_clock()
}

/// An id that two policies share if the requests of one caller count in one state under both.
pub const fn state_id(policy: &crate::policy::Policy) -> u64 {
    policy.state_id()
}

/// Whether windows of a calendar can begin on its days.
#[cfg(feature = "calendar")]
pub const fn has_anchor(calendar: &crate::policy::Calendar) -> bool {
    calendar.has_anchor()
}

/// The policy as an enforced limit and as a shadow limit: overrides may have changed its mode since a caller
/// was counted.
pub fn in_both_modes(policy: &crate::policy::Policy) -> [crate::policy::Policy; 2] {
    policy.in_both_modes()
}
