//! Groups of which some checks are charged nothing. These are looked at beside the rest of the group, which
//! is charged: a look and a charge need no common instant, since whatever the look was for comes later.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use smallvec::SmallVec;

use super::backend::Inner;
use crate::algorithm::Operation;
use crate::check::Check;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::outcome::{GroupOutcome, Outcome};
use crate::store::Deadline;

/// Checks of a group, with their indices in it.
#[derive(Default)]
struct Part<'a> {
    checks: SmallVec<[Check<'a>; 2]>,
    indices: SmallVec<[usize; 2]>,
}

/// The checks of the group that are charged nothing, and the others.
fn split<'a>(group: &[Check<'a>]) -> [Part<'a>; 2] {
    let mut parts = [Part::default(), Part::default()];
    for (index, check) in group.iter().enumerate() {
        let part = &mut parts[usize::from(!check.is_uncharged())];
        part.checks.push(*check);
        part.indices.push(index);
    }
    parts
}

/// Outcomes of checks that were not decided, behind a denial: as if nothing was charged.
fn untouched(checks: &[Check<'_>]) -> GroupOutcome {
    let outcome = |check: &Check<'_>| Outcome::unknown(check).with_remaining(check.policy().capacity());
    GroupOutcome::new(Timestamp::default(), checks.iter().map(outcome))
}

/// The outcome of the group.
fn joined([looks, charged]: [&Part<'_>; 2], looked: &GroupOutcome, rest: &GroupOutcome) -> GroupOutcome {
    let size = looks.checks.len() + charged.checks.len();
    let parts = [(&looks.indices[..], looked), (&charged.indices[..], rest)];
    GroupOutcome::join(size, looked.is_allowed() && rest.is_allowed(), parts.into_iter())
}

impl Inner {
    /// Decides about a group with looks without awaiting, if the store can. A denial by a look needs no
    /// decision about the rest.
    #[cold]
    pub(super) fn try_look(
        self: &Arc<Self>,
        group: &[Check<'_>],
        timeout: Duration,
    ) -> Result<Option<GroupOutcome>, StoreError> {
        let [looks, charged] = split(group);
        let Some(looked) = self.try_store(&looks.checks, || Operation::Judge, timeout)? else {
            return Ok(None);
        };
        let operation = || if looked.is_allowed() { Operation::Check } else { Operation::Judge };
        let rest = match &charged.checks[..] {
            [] => Some(untouched(&[])),
            checks => self.try_store(checks, operation, timeout)?,
        };
        let rest = rest.or_else(|| (!looked.is_allowed()).then(|| untouched(&charged.checks)));
        Ok(rest.map(|rest| joined([&looks, &charged], &looked, &rest)))
    }

    /// Decides about a group with looks by calls of the store, all at the same time. If only a look denies
    /// the group, what was charged is refunded. A limit with a block is charged after the looks: units that
    /// go back could begin its block.
    pub(super) async fn look(
        self: &Arc<Self>,
        group: &[Check<'_>],
        deadline: Deadline,
        by_worker: bool,
    ) -> Result<GroupOutcome, StoreError> {
        let [looks, charged] = split(group);
        let send = |part: &Part<'_>, operation| self.send(&part.checks, operation, deadline, by_worker);
        let look = async { self.receive(&looks.checks, &mut send(&looks, Operation::Judge)).await };
        let decide = async |operation| self.receive(&charged.checks, &mut send(&charged, operation)).await;
        if charged.checks.iter().any(|check| check.policy().block_us() > 0) || charged.checks.is_empty() {
            let looked = look.await?;
            let operation = if looked.is_allowed() { Operation::Check } else { Operation::Judge };
            let rest = if charged.checks.is_empty() { untouched(&[]) } else { decide(operation).await? };
            return Ok(joined([&looks, &charged], &looked, &rest));
        }
        let (looked, rest) = join(look, decide(Operation::Check)).await;
        let mut rest = rest?;
        let is_denied = !looked.as_ref().is_ok_and(GroupOutcome::is_allowed);
        if is_denied && let Some(reservation) = rest.reservation(&charged.checks) {
            // The limiter logs failures.
            let _ = self.refund(&reservation, deadline.timeout()).await;
            // Its slots are free before the next decision.
            drop(rest);
            rest = decide(Operation::Judge).await.unwrap_or_else(|_| untouched(&charged.checks));
        }
        Ok(joined([&looks, &charged], &looked?, &rest))
    }
}
